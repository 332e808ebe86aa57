// What a failure of Redis means: one table, for whatever looks at an error reply, repeats a command
// or counts failures.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/result.h"

namespace freshet::redis {

// Failures as they are counted; error_class_name() has the names.
enum class ErrorClass : std::uint8_t {
  kUnavailable,         // not sent: no connection, or the breaker is open
  kConnect,      // a connection that was not made, or was refused at its hand-shake
  kTimeout,      // sent, no reply within the deadline
  kLost,         // sent, the connection ended before the reply
  kMemory,       // OOM
  kReadOnly,     // a replica was asked to write
  kLoading,      // it reads its file
  kBusy,         // a script has run for longer than busy-reply-threshold
  kPersistence,  // MISCONF: it cannot save
  kAuth,         // who we are is not known, or the password is wrong
  kPermission,   // the ACL user may not
  kReplicas,     // fewer replicas than min-replicas-to-write
  kMasterDown,   // a replica without its master
  kClients,      // maxclients
  kCluster,      // another node has the slot, or the cluster is down
  kScript,       // scripts were flushed; cured inside
  kCommand,      // our mistake: a wrong command, a key of another type, a script that failed
  kCount
};
inline constexpr std::size_t kErrorClasses = static_cast<std::size_t>(ErrorClass::kCount);
// "away", "timeout", "readonly", …: as in /status and /metrics.
std::string_view error_class_name(ErrorClass error_class);

// Whether a command is sent again after an error reply. No other command of its pipeline is, but
// for those with such a reply of their own.
enum class RetryPolicy : std::uint8_t {
  // The command did nothing: sent once more, on the same connection.
  kRetry,
  // The command did nothing, and this server is not, or no longer, ours: sent once more on a new
  // connection, for which the sentinels are asked again.
  kReconnect,
  // The command did nothing, and another node of the cluster has its slot, or will soon: sent again
  // there by whoever knows the nodes (cluster/); without a cluster as kDegrade.
  kRedirect,
  // Not sent again: only time helps. The error is kUnavailable, so reads serve what they have and
  // writes go to the spool.
  kDegrade,
  // Not sent again: nothing helps.
  kFail,
  // The transaction was dropped: no command of its pipeline is sent again.
  kFailAll,
};

struct ErrorRow {
  std::string_view prefix;  // of Redis' error line: whole words; the first row that fits
  ErrorClass error_class;
  RetryPolicy retry;
  ErrorCode code;
  std::string_view reason;  // Error::reason
};

// The row of an error line; nullptr when its first word is none of Redis' own, as those that our
// scripts answer.
const ErrorRow* find_error(std::string_view error_line);

// What the error line means for the request: by the row above, else by that of kScriptWords
// (script_words.h); kInternal "redis_error" when there is none.
Error classify(std::string_view error_line);

// As many entries as may wait for the recorder.
inline tl::unexpected<Error> stream_full() { return fail(ErrorCode::kUnavailable, "stream_full"); }

// Failures since the start, by class.
class ErrorCounts {
 public:
  void add(ErrorClass error_class) { ++counts_[static_cast<std::size_t>(error_class)]; }
  std::uint64_t operator[](ErrorClass error_class) const {
    return counts_[static_cast<std::size_t>(error_class)];
  }

 private:
  std::array<std::uint64_t, kErrorClasses> counts_{};
};

}  // namespace freshet::redis
