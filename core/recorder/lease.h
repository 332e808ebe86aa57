// Who may record. One process at a time has the lease, which ends unless it is renewed; whoever
// takes it gets a token, higher than every one before. Redis keeps both, and the identity of the
// database that it belongs to: who comes with another database is refused, also while nobody
// records. Whatever the recorder writes is held to the token, since a process may sleep through the
// end of its lease: stream_ack.lua in Redis, Database::begin() in SQLite. Tokens stand in both, so
// a Redis that fell back to an older state gives no token twice.
//
// The lease is in one slot of a cluster, and each group's stream in another, so the token stands in
// a fence beside each stream as well. Who takes the lease raises every fence before it reads
// anything: from then on nobody before it acknowledges in any stream.
//
// A Redis without a lease (new, or emptied) belongs to the first database that comes, unless that
// was refused here before. A database takes the place of another only while the same process holds
// both (the file was deleted or replaced under it), or by freshetctl restore or rebuild-redis
// --force.
//
// Blocking; 1 RTT each unless it says otherwise.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/redis/keys.h"
#include "core/redis/blocking_redis.h"

namespace freshet::recorder {

// Asked for three times as often while Redis answers; written when a third of it has gone.
inline constexpr milliseconds kLeaseTtl{3000};

class Lease {
 public:
  // `ttl`: for how long it is good without being renewed.
  explicit Lease(const redis::Keys& keys, milliseconds ttl = kLeaseTtl);

  // Takes it, also over from ourselves, from a dead process of this machine, or when it ran out,
  // for the database `identity`; `known`: the highest token that this has. `instead`: the identity
  // of a database whose place it takes; "" none but the one that was ours last. 2 RTT, or 3.
  // Errors: kConflict "lease_held" (of the same database), "database_mismatch"; both say who;
  // kUnavailable "lease_lost": a fence has a higher token, which the next take() begins with.
  Result<void> acquire(redis::BlockingRedis& redis, const std::string& identity, std::uint64_t known_token,
                    const std::string& replaced_identity = {});
  // Errors: kUnavailable "lease_lost" (another took it), "redis_no_group" (Redis lost it).
  Result<void> renew(redis::BlockingRedis& redis) const;
  // renew() as a command of a pipeline; of its reply only an error counts.
  void append_renewal(redis::Pipeline& out) const { append_renewal(out, ttl_); }
  void release(redis::BlockingRedis& redis) const;

  std::uint64_t token() const { return token_; }  // the last we had; 0: none yet
  milliseconds ttl() const { return ttl_; }

 private:
  Result<void> raise_fences(redis::BlockingRedis& redis);
  void append_renewal(redis::Pipeline& out, milliseconds ttl) const;
  Result<redis::Replies> request(redis::BlockingRedis& redis, const std::string& identity, std::uint64_t known_token,
                             const std::string& replaced_identity, std::uint64_t dead_token) const;

  const std::string key_;
  std::vector<std::string> fence_keys_;  // their keys
  const milliseconds ttl_;
  std::uint64_t token_ = 0;
  std::uint64_t highest_fence_ = 0;  // the highest token that a fence had
  std::string last_identity_;          // identity, the last we had
  bool was_refused_ = false;      // Redis belonged to another database when we asked last
};

// Renews a lease from a thread, over a connection of its own, while this lives; then gives it back.
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

// Who has the lease, for tools.
struct LeaseOwner {
  std::string name;       // "HOST, pid 123"; "": nobody ever had it
  std::string database;  // the identity of the one that Redis belongs to; "": to none yet
  bool is_active = false;    // now; else it was the last
};
Result<LeaseOwner> read_lease_owner(redis::BlockingRedis& redis, const redis::Keys& keys);

}  // namespace freshet::recorder
