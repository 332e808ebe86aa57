// The recorder's side of the stream: its consumer group, what is pending, what is new, and the end
// of what is done. Blocking; every call 1 RTT unless it says otherwise.
#pragma once

#include <cstdint>
#include <string>

#include "core/config/settings.h"
#include "core/recorder/batch.h"
#include "core/recorder/lease.h"
#include "core/redis/keys.h"
#include "core/redis/sync_redis.h"

namespace freshet::recorder {

// Whether entry id `a` is below `b`: both "ms-sequence".
bool below(std::string_view a, std::string_view b);

struct Backlog {
  std::uint64_t entries = 0;   // in the stream: not yet acknowledged
  std::int64_t oldest_ms = 0;  // their oldest's age
  std::uint64_t pending = 0;   // of these, handed to a consumer
};

// Errors of every call: Redis' own; kUnavailable "redis_no_group" when stream or group are gone
// (FLUSHALL, another Redis): to be made (group.h), then restart().
class Stream {
 public:
  Stream(const Settings& settings, redis::Endpoint endpoint);

  redis::SyncRedis& redis() { return redis_; }
  const redis::Keys& keys() const { return keys_; }

  // The next of what any consumer was given and did not acknowledge, taken over in order of the
  // entries, which is the order of the writes; from the lowest after restart(). Nothing more:
  // done() is true.
  Result<Batch> claim();
  void restart() {
    cursor_ = kStart;
    claimed_ = false;
    drained_ = false;
  }
  bool done() const { return claimed_; }
  bool drained() const { return drained_; }  // the last read() found nothing
  // What no consumer was given yet. kForEntries: waits for kBlock, and returns as soon as there is
  // one.
  enum class Wait : std::uint8_t { kForEntries, kNot };
  Result<Batch> read(Wait how = Wait::kForEntries);
  // Whether everything up to `entry`, which existed before the last read(), has been handed out,
  // and the stream can be cut behind it; between restart() and done() false. What was handed out
  // last may not be done yet.
  bool handed_out(std::string_view entry) const {
    return claimed_ && (drained_ || !below(delivered_, entry)) && (held_.empty() || below(entry, held_));
  }
  // The lowest entry that stays pending for a long job, and keeps what is above it in the stream;
  // "": none.
  void hold(std::string entry) { held_ = std::move(entry); }
  // After everything in the batch is done, also with none. Cuts the stream behind the lowest that
  // is pending, and renews the lease. `then` is sent with it, so that both happen when this process
  // dies meanwhile. Errors: also "lease_lost", and nothing of the batch was acknowledged.
  Result<Backlog> acknowledge(const Lease& lease, const Batch& batch, const redis::Pipeline& then = {});
  Result<Backlog> backlog();  // for anybody
  // The highest id the stream ever gave.
  Result<std::string> last_generated();

 private:
  static constexpr milliseconds kBlock{300};
  static constexpr const char* kStart = "0-0";

  Result<Backlog> ask_backlog(redis::Pipeline commands);

  redis::SyncRedis redis_;
  const redis::Keys keys_;
  const int count_;
  std::string cursor_ = kStart;
  bool claimed_ = false;
  std::string delivered_ = kStart;  // the highest entry that any consumer was given
  bool drained_ = false;
  std::string held_;
};

}  // namespace freshet::recorder
