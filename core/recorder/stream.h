// The recorder's side of the streams, one of each group of a cluster: their consumer groups, what
// is pending, what is new, and the end of what is done. Order is within a stream. Blocking; every
// call asks all of them in 1 RTT (of a cluster: 1 a node, one node after the other) unless it says
// otherwise.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config/settings.h"
#include "core/recorder/batch.h"
#include "core/recorder/lease.h"
#include "core/redis/keys.h"
#include "core/redis/blocking_redis.h"

namespace freshet::recorder {

// Whether entry id `a` is below `b`: both "ms-sequence".
bool precedes(std::string_view a, std::string_view b);

// Of all streams together.
struct Backlog {
  std::uint64_t entries = 0;   // not yet acknowledged
  std::int64_t oldest_age_ms = 0;  // their oldest's age
  std::uint64_t pending = 0;   // of these, handed to a consumer
};

// Errors of every call: Redis' own, also when it is that of one node; kUnavailable "redis_no_group"
// when a stream, group or fence is gone (FLUSHALL, another Redis): to be made (group.h), then
// restart().
class Streams {
 public:
  Streams(const Settings& settings, redis::Endpoint endpoint);

  redis::BlockingRedis& redis() { return redis_; }
  const redis::Keys& keys() const { return keys_; }

  // The next of what any consumer was given and did not acknowledge, taken over in order of the
  // entries, which is the order of the writes; from the lowest after restart(). Nothing more:
  // done() is true.
  Result<EntryBatch> claim_pending();
  void restart();
  bool has_claimed_all() const;
  bool is_drained() const;  // the last read() found nothing
  // What no consumer was given yet. kForEntries: waits for kBlock, and returns as soon as there is
  // one. Of several streams it is seen after kLook at the latest: no command waits for keys on
  // several nodes.
  enum class ReadMode : std::uint8_t { kBlocking, kNonBlocking };
  Result<EntryBatch> read(ReadMode mode = ReadMode::kBlocking);
  // Whether everything in its stream up to `entry`, which existed before the last read(), has been
  // handed out, and the stream can be cut behind it; between restart() and done() false. What was
  // handed out last may not be done yet.
  bool is_delivered(const EntryId& entry) const;
  // The jobs whose entries stay pending, and keep what is above them in their streams; in the order
  // of their entries.
  void pin(const std::vector<FanoutJob>& jobs);
  // After everything in the batch is done, also with none. Cuts each stream behind the lowest that
  // is pending, and renews the lease. `then` is sent with it, so that both happen when this process
  // dies meanwhile. Errors: also "lease_lost": in no stream whose fence another raised was anything
  // acknowledged; in others it may have been, and so it may after any error.
  Result<Backlog> acknowledge(const Lease& lease, const EntryBatch& batch, const redis::Pipeline& followup = {});
  Result<Backlog> backlog();  // for anybody
  // The highest id that each stream ever gave.
  Result<std::vector<std::string>> last_generated_ids();

 private:
  static constexpr milliseconds kBlockTime{300};
  static constexpr milliseconds kPollInterval{100};
  static constexpr const char* kFirstId = "0-0";

  struct Stream {
    std::string key, fence;
    std::string cursor = kFirstId;
    bool claimed = false;
    std::string delivered = kFirstId;  // the highest entry that any consumer was given
    bool drained = false;
    std::string pinned;  // the lowest entry that stays pending for a long job; "": none
    std::string trimmed_at;   // `delivered` when it was last cut behind it
  };
  Result<bool> read_once(ReadMode mode, EntryBatch& into);
  Result<Backlog> run_with_backlog(redis::Pipeline commands);

  redis::BlockingRedis redis_;
  const redis::Keys keys_;
  const std::int64_t read_count_;  // of a stream, at once
  std::vector<Stream> streams_;  // in the order of the groups
};

}  // namespace freshet::recorder
