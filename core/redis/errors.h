// Classifies Redis failures: the one table for everything that reads error replies, retries
// commands or counts failures.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/result.h"

namespace freshet::redis {

// Failure classes for counters; error_class_name() has their names.
enum class ErrorClass : std::uint8_t {
  kUnavailable,  // not sent: no connection, or the breaker is open
  kConnect,      // connect failed, or the handshake was refused
  kTimeout,      // sent, no reply before the deadline
  kLost,         // sent, connection lost before the reply
  kMemory,       // OOM
  kReadOnly,     // write to a replica
  kLoading,      // Redis is loading its dataset
  kBusy,         // a script exceeds busy-reply-threshold
  kPersistence,  // MISCONF: Redis cannot save
  kAuth,         // unknown user or wrong password
  kPermission,   // denied by the ACL
  kReplicas,     // fewer replicas than min-replicas-to-write
  kMasterDown,   // a replica without its master
  kClients,      // maxclients
  kCluster,      // the slot is on another node, or the cluster is down
  kScript,       // scripts were flushed; they are reloaded and the command is retried
  kCommand,      // our bug: wrong command, wrong key type, failing script
  kCount
};
inline constexpr std::size_t kErrorClasses = static_cast<std::size_t>(ErrorClass::kCount);
// "away", "timeout", "readonly", …: as in /status and /metrics.
std::string_view error_class_name(ErrorClass error_class);

// Policy for sending a command again after an error reply. Other commands of its pipeline are not
// sent again, unless they got such a reply themselves.
enum class RetryPolicy : std::uint8_t {
  // The command had no effect: retry once on the same connection.
  kRetry,
  // The command had no effect and this server is not the master (any more): retry once on a new
  // connection, asking the sentinels again.
  kReconnect,
  // The command had no effect, because another node of the cluster serves its slot or soon will:
  // retried there by the cluster clients (cluster/). Without a cluster as kDegrade.
  kRedirect,
  // Do not retry; only time helps. The error is kUnavailable, so reads are served without Redis and
  // writes are spooled.
  kDegrade,
  // Do not retry; it would fail again.
  kFail,
  // The transaction was discarded: retry no command of its pipeline.
  kFailAll,
};

struct ErrorRow {
  // Matches whole words at the start of the error line; the first matching row wins.
  std::string_view prefix;
  ErrorClass error_class;
  RetryPolicy retry;
  ErrorCode code;
  std::string_view reason;
};

// The row for an error line. nullptr if its first word is not one of Redis, as in errors of our
// scripts.
const ErrorRow* find_error(std::string_view error_line);

// Maps an error line to the request's error: by the table above, then by kScriptErrors
// (script_errors.h), else kInternal "redis_error".
Error classify(std::string_view error_line);

// The stream holds as many unread entries as allowed.
inline tl::unexpected<Error> stream_full() { return fail(ErrorCode::kUnavailable, "stream_full"); }

// Failures since start, by class.
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
