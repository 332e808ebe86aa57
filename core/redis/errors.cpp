#include "core/redis/errors.h"

#include <algorithm>
#include <string>

#include "core/redis/script_errors.h"

namespace freshet::redis {
namespace {

constexpr std::array<std::string_view, kErrorClasses> kNames{
    "away",       "connect", "timeout", "lost",     "oom",        "readonly",
    "loading",    "busy",    "misconf", "noauth",   "permission", "noreplicas",
    "masterdown", "clients", "cluster", "noscript", "command"};

using Class = ErrorClass;
using Retry = RetryPolicy;
constexpr ErrorCode kUnavailable = ErrorCode::kUnavailable;
constexpr ErrorCode kInternal = ErrorCode::kInternal;

// clang-format off
constexpr std::array kErrors{
    ErrorRow{"OOM",          Class::kMemory,      Retry::kDegrade,   kUnavailable, "redis_oom"},
    ErrorRow{"READONLY",     Class::kReadOnly,    Retry::kReconnect, kUnavailable, "redis_readonly"},
    // Sent to clients of a blocking command when their server becomes a replica.
    ErrorRow{"UNBLOCKED",    Class::kReadOnly,    Retry::kReconnect, kUnavailable, "redis_readonly"},
    ErrorRow{"LOADING",      Class::kLoading,     Retry::kDegrade,   kUnavailable, "redis_loading"},
    ErrorRow{"BUSY",         Class::kBusy,        Retry::kDegrade,   kUnavailable, "redis_busy"},
    ErrorRow{"UNKILLABLE",   Class::kBusy,        Retry::kDegrade,   kUnavailable, "redis_busy"},
    ErrorRow{"MISCONF",      Class::kPersistence, Retry::kDegrade,   kUnavailable, "redis_misconf"},
    ErrorRow{"NOAUTH",       Class::kAuth,        Retry::kReconnect, kUnavailable, "redis_noauth"},
    ErrorRow{"WRONGPASS",    Class::kAuth,        Retry::kDegrade,   kUnavailable, "redis_noauth"},
    ErrorRow{"ERR AUTH",     Class::kAuth,        Retry::kDegrade,   kUnavailable, "redis_noauth"},
    ErrorRow{"DENIED",       Class::kAuth,        Retry::kDegrade,   kUnavailable, "redis_noauth"},
    ErrorRow{"NOPERM",       Class::kPermission,  Retry::kDegrade,   kUnavailable, "redis_noperm"},
    ErrorRow{"ERR The user executing the script", Class::kPermission, Retry::kDegrade, kUnavailable, "redis_noperm"},
    ErrorRow{"NOREPLICAS",   Class::kReplicas,    Retry::kDegrade,   kUnavailable, "redis_noreplicas"},
    ErrorRow{"MASTERDOWN",   Class::kMasterDown,  Retry::kReconnect, kUnavailable, "redis_masterdown"},
    ErrorRow{"ERR max number of clients reached", Class::kClients, Retry::kDegrade, kUnavailable, "redis_maxclients"},
    ErrorRow{"CLUSTERDOWN",  Class::kCluster,     Retry::kDegrade,   kUnavailable, "redis_clusterdown"},
    ErrorRow{"TRYAGAIN",     Class::kCluster,     Retry::kRedirect,  kUnavailable, "redis_tryagain"},
    ErrorRow{"MOVED",        Class::kCluster,     Retry::kRedirect,  kUnavailable, "redis_moved"},
    ErrorRow{"ASK",          Class::kCluster,     Retry::kRedirect,  kUnavailable, "redis_moved"},
    // Our own, for commands of a node that did not answer while others did.
    ErrorRow{"AWAY",         Class::kUnavailable,        Retry::kDegrade,   kUnavailable, "redis_unavailable"},
    ErrorRow{"LOST",         Class::kLost,        Retry::kDegrade,   ErrorCode::kUnknownOutcome, "redis_lost"},
    ErrorRow{"CROSSSLOT",    Class::kCommand,     Retry::kFail,      kInternal, "redis_error"},
    ErrorRow{"NOSCRIPT",     Class::kScript,      Retry::kRetry,     kUnavailable, "redis_noscript"},
    ErrorRow{"EXECABORT",    Class::kCommand,     Retry::kFailAll,   kInternal, "redis_error"},
    ErrorRow{"WRONGTYPE",    Class::kCommand,     Retry::kFail,      kInternal, "redis_error"},
    ErrorRow{"ERR",          Class::kCommand,     Retry::kFail,      kInternal, "redis_error"},
};
// clang-format on

// Returns true if `line` begins with `prefix` at a word boundary.
bool starts_with_words(std::string_view line, std::string_view prefix) {
  return line.starts_with(prefix) && (line.size() == prefix.size() || line[prefix.size()] == ' ');
}

}  // namespace

std::string_view error_class_name(ErrorClass error_class) {
  return kNames[static_cast<std::size_t>(error_class)];
}

const ErrorRow* find_error(std::string_view error_line) {
  const auto row = std::ranges::find_if(
      kErrors, [&](const ErrorRow& each) { return starts_with_words(error_line, each.prefix); });
  return row == kErrors.end() ? nullptr : &*row;
}

Error classify(std::string_view error_line) {
  if (const ErrorRow* row = find_error(error_line))
    return Error{row->code, row->reason, {}, std::string(error_line)};
  const auto script_error = std::ranges::find_if(
      kScriptErrors, [&](const ScriptError& each) { return has_code(error_line, each.prefix); });
  if (script_error != kScriptErrors.end())
    return Error{script_error->code, script_error->reason, {}, std::string(after_code(error_line))};
  return Error{ErrorCode::kInternal, "redis_error", {}, std::string(error_line)};
}

}  // namespace freshet::redis
