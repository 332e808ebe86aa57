// Helpers for parsing replies: numbers and words packed into one string, and lists of strings.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/redis/command.h"
#include "core/redis/reply.h"

namespace freshet::redis {

// Splits at single separators: "a b c". The results are views into `text`.
inline std::vector<std::string_view> split_words(std::string_view text, char separator = ' ') {
  std::vector<std::string_view> out;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find(separator, from), text.size());
    out.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return out;
}

// nullopt unless all of `text` is a number.
template <class T>
std::optional<T> parse(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Like parse(), but 0 on failure.
template <class T>
T parse_or_zero(std::string_view text) {
  return parse<T>(text).value_or(T{});
}

// A counter, or an integer written by "%.17g". 0 on failure.
inline std::int64_t to_int(std::string_view text) {
  return static_cast<std::int64_t>(parse_or_zero<double>(text));
}

// Element `index` as text; "" if it is nil or missing. Valid while the reply lives.
inline std::string_view string_at(const Reply& reply, std::size_t index) { return reply[index].text(); }

// The value that follows `name` in a flat list of names and values; "" if there is none. Valid
// while the reply lives.
inline std::string_view field_value(const Reply& pairs, std::string_view name) {
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (string_at(pairs, i) == name) return string_at(pairs, i + 1);
  }
  return {};
}

// Parses the reply to TIME. nullopt if it is malformed.
inline std::optional<std::chrono::microseconds> parse_time(const Reply& reply) {
  const auto s = parse<std::int64_t>(string_at(reply, 0)), us = parse<std::int64_t>(string_at(reply, 1));
  if (!s || !us) return std::nullopt;
  return seconds(*s) + std::chrono::microseconds(*us);
}

// Appends the command that reads a sorted set of times: the members after `since`, newest first, at
// most `limit`. Its reply is an array.
inline void append_newest_read(Pipeline& pipeline, std::string_view key, UnixSeconds since,
                               std::int64_t limit) {
  pipeline.add("ZREVRANGEBYSCORE", key, "+inf", "(" + std::to_string(unix_s(since)), "LIMIT", 0, limit);
}

// Appends an optional argument: unix seconds, or "".
inline void append_optional_time(Pipeline& pipeline, const std::optional<UnixSeconds>& at) {
  at ? pipeline.arg(unix_s(*at)) : pipeline.arg("");
}

// Error for a reply that `script` should never give.
inline Error malformed_reply(std::string_view script) {
  return {ErrorCode::kInternal, "redis_type", {}, "unexpected reply from " + std::string(script)};
}

}  // namespace freshet::redis
