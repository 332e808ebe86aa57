// The words by which our scripts say why they did not do what they were asked: the first word of an error
// reply, or a whole status. Nothing was written then, unless a row says otherwise. Redis' own words are in
// core/redis/errors.h. A test holds this table to what the scripts answer.
#pragma once

#include <array>
#include <string_view>

#include "core/base/result.h"

namespace freshet::redis {

namespace word {

// The counters' day is another by Redis' clock; the day follows, in days since 1970.
inline constexpr std::string_view kDay = "DAY";
// A number is none, or out of range.
inline constexpr std::string_view kInvalid = "INVALID";
// The stream has no consumer group: it was flushed. As Redis itself says it.
inline constexpr std::string_view kNoGroup = "NOGROUP";
// A status: the item is not as the caller read it. To be read and tried again.
inline constexpr std::string_view kRetry = "RETRY";
// stream.max_length entries wait for the recorder.
inline constexpr std::string_view kStreamFull = "STREAM_FULL";
// The reader follows as many authors as may be.
inline constexpr std::string_view kTooManyFollows = "TOO_MANY_FOLLOWS";
// The reader has as many impressions that wait to be recorded as may be.
inline constexpr std::string_view kTooManyPending = "TOO_MANY_PENDING";
// No such item, where only known ones are taken.
inline constexpr std::string_view kUnknownItem = "UNKNOWN_ITEM";

inline constexpr std::array kAll{kDay,        kInvalid,        kNoGroup,        kRetry,
                                 kStreamFull, kTooManyFollows, kTooManyPending, kUnknownItem};

}  // namespace word

// Whether the first word of the reply's line is this one.
inline bool says(std::string_view line, std::string_view word) {
  return line.substr(0, line.find(' ')) == word;
}

// What follows the first word of a line.
inline std::string_view after_word(std::string_view line) {
  const std::size_t space = line.find(' ');
  return space == std::string_view::npos ? std::string_view() : line.substr(space + 1);
}

// What word::kStreamFull means for the request.
inline Error stream_full() {
  return {ErrorCode::kUnavailable, "stream_full", {}, "the recorder does not keep up"};
}

}  // namespace freshet::redis
