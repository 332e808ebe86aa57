// The words by which our scripts say why they did not do what they were asked: the first word of an
// error reply, or a whole status. Nothing was written then. One table says what each means for the
// request; classify() (errors.h) looks into it after Redis' own words. A test holds it to what the
// scripts answer.
#pragma once

#include <array>
#include <string_view>

#include "core/base/result.h"

namespace freshet::redis {

namespace word {

// The counters' day is another by Redis' clock; the day follows, in days since 1970.
inline constexpr std::string_view kDayChanged = "DAY";
// A status: the item is not as the caller read it. To be read and tried again.
inline constexpr std::string_view kRetry = "RETRY";
// Nobody vouched for the article, so unlisted.lua counts it; statuses: somebody did, and it is the
// first time that it would.
inline constexpr std::string_view kUnverified = "UNLISTED";
inline constexpr std::string_view kVerified = "LISTED";
inline constexpr std::string_view kCreates = "BEGINS";

}  // namespace word

struct ScriptError {
  std::string_view prefix;
  ErrorCode code;           // of an error reply; what follows the word is Error::detail
  std::string_view reason;  // Error::reason
};

inline constexpr std::array kScriptErrors{
    ScriptError{word::kDayChanged, ErrorCode::kInternal, "redis_error"},    // the store tries again with that day
    ScriptError{word::kRetry, ErrorCode::kInternal, "redis_error"},  // never an error
    // Another recorder has taken the lease since.
    ScriptError{"FENCED", ErrorCode::kUnavailable, "lease_lost"},
    // The stream has no consumer group, or the recorder's lease is gone: it was flushed. As Redis
    // itself says it.
    ScriptError{"NOGROUP", ErrorCode::kUnavailable, "redis_no_group"},
    // The reader has as many impressions that wait to be recorded as may be.
    ScriptError{"TOO_MANY_PENDING", ErrorCode::kUnavailable, "too_many_pending"},
    ScriptError{word::kUnverified, ErrorCode::kUnavailable, "unavailable"},  // the store asks unlisted.lua
    ScriptError{word::kVerified, ErrorCode::kInternal, "redis_error"},       // never an error
    ScriptError{word::kCreates, ErrorCode::kInternal, "redis_error"},       // likewise
    // No such item, where only known ones are taken.
    ScriptError{"UNKNOWN_ITEM", ErrorCode::kNotFound, "unknown_item"},
};

// Whether the first word of the reply's line is this one.
inline bool has_code(std::string_view line, std::string_view word) {
  return line.substr(0, line.find(' ')) == word;
}

// What follows the first word of a line.
inline std::string_view after_code(std::string_view line) {
  const std::size_t space = line.find(' ');
  return space == std::string_view::npos ? std::string_view() : line.substr(space + 1);
}

}  // namespace freshet::redis
