// The lease that allows one process at a time to record. It expires unless it is renewed. Each
// holder gets a fencing token, higher than all before. Redis stores both, together with the
// identity of the database it belongs to. A process with another database is refused, even
// while the lease is free. All writes of the recorder are checked against the token, because a
// process may be suspended beyond the end of its lease: by stream_ack.lua in Redis, by
// Database::begin() in SQLite. Both store the token, so a Redis that was reset to an older state
// does not issue a token twice.
//
// In a cluster, the lease and each partition's stream are in different slots, so each stream has a
// fence with the token next to it. A new holder raises every fence before it reads anything. After
// that, no previous holder can acknowledge in any stream.
//
// A Redis without a lease (new, or emptied) belongs to the first database that comes, unless the
// same process was refused before. A database replaces another one only while the same process
// holds both (the file was deleted or replaced), or by `freshetctl restore` or `rebuild-redis
// --force`.
//
// Blocking; 1 RTT each unless stated otherwise.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/redis/blocking_redis.h"
#include "core/redis/keys.h"

namespace freshet::recorder {

// Renewed three times per period; the script writes only after a third of it has passed.
inline constexpr milliseconds kLeaseTtl{3000};

class Lease {
 public:
  // `ttl`: validity without renewal.
  explicit Lease(const redis::Keys& keys, milliseconds ttl = kLeaseTtl);

  // Acquires the lease for the database `identity`. Succeeds if the lease is free or expired, or if
  // its holder is this object or a dead process of this machine. `known_token`: the highest token
  // stored in the database. `replaced_identity`: the database that this one replaces; "": only the
  // last one that this object had. 2 RTT, or 3. Errors: kConflict "lease_held" (same database)
  // and "database_mismatch", both naming the holder; kUnavailable "lease_lost": a fence has a
  // higher token, from which the next acquire() continues.
  Result<void> acquire(redis::BlockingRedis& redis, const std::string& identity, std::uint64_t known_token,
                       const std::string& replaced_identity = {});
  // Errors: kUnavailable "lease_lost" (another process acquired it), "redis_no_group" (Redis lost
  // it).
  Result<void> renew(redis::BlockingRedis& redis) const;
  // Appends renew() to a pipeline; only errors in its reply matter.
  void append_renewal(redis::Pipeline& out) const { append_renewal(out, ttl_); }
  void release(redis::BlockingRedis& redis) const;

  std::uint64_t token() const { return token_; }  // the last one; 0: none yet
  milliseconds ttl() const { return ttl_; }

 private:
  Result<void> raise_fences(redis::BlockingRedis& redis);
  void append_renewal(redis::Pipeline& out, milliseconds ttl) const;
  Result<redis::Replies> request(redis::BlockingRedis& redis, const std::string& identity,
                                 std::uint64_t known_token, const std::string& replaced_identity,
                                 std::uint64_t dead_token) const;

  const std::string key_;
  std::vector<std::string> fence_keys_;
  const milliseconds ttl_;
  std::uint64_t token_ = 0;
  std::uint64_t highest_fence_ = 0;  // highest token found in a fence
  std::string last_identity_;        // of the last database that held the lease
  bool was_refused_ = false;         // Redis belonged to another database at the last attempt
};

// Renews a lease from a background thread with its own connection. The destructor releases it.
class LeaseKeepAlive {
 public:
  LeaseKeepAlive(const Lease& lease, redis::Endpoint endpoint);
  ~LeaseKeepAlive();
  LeaseKeepAlive(const LeaseKeepAlive&) = delete;
  LeaseKeepAlive& operator=(const LeaseKeepAlive&) = delete;

 private:
  void run();

  const Lease lease_;
  redis::BlockingRedis redis_;
  std::mutex mutex_;
  std::condition_variable wakeup_;
  bool stopping_ = false;
  std::thread thread_;
};

// The holder of the lease, for tools.
struct LeaseOwner {
  std::string name;        // "HOST, pid 123"; "": never held
  std::string database;    // identity of the database that Redis belongs to; "": none yet
  bool is_active = false;  // false: the lease has expired; `name` was the last holder
};
Result<LeaseOwner> read_lease_owner(redis::BlockingRedis& redis, const redis::Keys& keys);

}  // namespace freshet::recorder
