// Codes by which our scripts refuse a call: the first word of an error reply, or a whole status. A
// script that answers with one has written nothing. One table maps them to request errors;
// classify() (errors.h) consults it after Redis' own codes. A test compares the table with the
// scripts.
#pragma once

#include <array>
#include <string_view>

#include "core/base/result.h"

namespace freshet::redis {

namespace script_code {

// The day of the counters differs from Redis' clock; followed by the day, in days since 1970.
inline constexpr std::string_view kDayChanged = "DAY";
// A status: the item has changed since it was read. Read it and retry.
inline constexpr std::string_view kRetry = "RETRY";
// The article is unverified, so unlisted.lua must count it. Its statuses: kVerified: it has been
// verified since; kCreates: the event would create it, which the call did not allow.
inline constexpr std::string_view kUnverified = "UNLISTED";
inline constexpr std::string_view kVerified = "LISTED";
inline constexpr std::string_view kCreates = "BEGINS";
// A client reported a hidden or embargoed item: count the event under its invisible_alias().
inline constexpr std::string_view kNotVisible = "NOT_VISIBLE";

}  // namespace script_code

struct ScriptError {
  std::string_view prefix;
  ErrorCode code;           // of an error reply; the rest of the line becomes Error::detail
  std::string_view reason;  // Error::reason
};

inline constexpr std::array kScriptErrors{
    // The store retries with that day.
    ScriptError{script_code::kDayChanged, ErrorCode::kInternal, "redis_error"},
    ScriptError{script_code::kRetry, ErrorCode::kInternal, "redis_error"},  // never an error
    // Another recorder holds the lease now.
    ScriptError{"FENCED", ErrorCode::kUnavailable, "lease_lost"},
    // The stream has no consumer group, or the recorder's lease is gone: Redis was flushed. Redis'
    // own code.
    ScriptError{"NOGROUP", ErrorCode::kUnavailable, "redis_no_group"},
    // The reader has too many impressions that are waiting to be recorded.
    ScriptError{"TOO_MANY_PENDING", ErrorCode::kUnavailable, "too_many_pending"},
    // The store calls unlisted.lua.
    ScriptError{script_code::kUnverified, ErrorCode::kUnavailable, "unavailable"},
    ScriptError{script_code::kVerified, ErrorCode::kInternal, "redis_error"},  // never an error
    ScriptError{script_code::kCreates, ErrorCode::kInternal, "redis_error"},   // never an error
    // The store counts the event under another id.
    ScriptError{script_code::kNotVisible, ErrorCode::kInternal, "redis_error"},
    // The item is unknown and the call accepts only known ones.
    ScriptError{"UNKNOWN_ITEM", ErrorCode::kNotFound, "unknown_item"},
};

// Returns true if the first word of `line` is `code`.
inline bool has_code(std::string_view line, std::string_view code) {
  return line.substr(0, line.find(' ')) == code;
}

// The rest of a line after its first word.
inline std::string_view after_code(std::string_view line) {
  const std::size_t space = line.find(' ');
  return space == std::string_view::npos ? std::string_view() : line.substr(space + 1);
}

}  // namespace freshet::redis
