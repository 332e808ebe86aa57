// Small readings of what scripts return: numbers and words in one string, and lists of strings.
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

// The parts between single blanks: "a b c". Views into `text`.
inline std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find(' ', from), text.size());
    out.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return out;
}

// The number that is the whole of `text`, or nullopt.
template <class T>
std::optional<T> parse(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// As parse(), 0 when it is none.
template <class T>
T parse_or_zero(std::string_view text) {
  return parse<T>(text).value_or(T{});
}

// A counter or a %.17g number that stands for an integer.
inline std::int64_t to_int(std::string_view text) {
  return static_cast<std::int64_t>(parse_or_zero<double>(text));
}

// The text of an element, "" for nil or what is none. Valid while the reply lives.
inline std::string_view string_at(const Reply& reply, std::size_t index) { return reply[index].text(); }

// The text behind `name` in names and values by turns, "" for none. Valid while the reply lives.
inline std::string_view field_value(const Reply& pairs, std::string_view name) {
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (string_at(pairs, i) == name) return string_at(pairs, i + 1);
  }
  return {};
}

// What TIME answered; nullopt: something else.
inline std::optional<std::chrono::microseconds> parse_time(const Reply& reply) {
  const auto s = parse<std::int64_t>(string_at(reply, 0)), us = parse<std::int64_t>(string_at(reply, 1));
  if (!s || !us) return std::nullopt;
  return seconds(*s) + std::chrono::microseconds(*us);
}

// An argument that may be left out: unix seconds, or "".
inline void append_optional_time(Pipeline& pipeline, const std::optional<UnixSeconds>& at) {
  at ? pipeline.arg(unix_s(*at)) : pipeline.arg("");
}

// A script answered what it never answers.
inline Error malformed_reply(std::string_view script) {
  return {ErrorCode::kInternal, "redis_type", {}, "unexpected reply of " + std::string(script)};
}

}  // namespace freshet::redis
