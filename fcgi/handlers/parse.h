// What the parsers of all routes share.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/json.h"

namespace freshet::handlers {

inline constexpr std::int64_t kMaxLimit = 100;  // entries of a page

// The JSON object in `text`, which is changed and must outlive the value, as must `document`.
inline Result<json::Value> read_object(json::Document& document, std::string& text) {
  FRESHET_TRY(parsed, document.parse(text));
  return json::root_object(document);
}

// One of the words that a parameter or member may be.
template <class T>
struct EnumName {
  std::string_view text;
  T value;
};

// What `given` says; absent: `fallback`, an error without one. Errors: kInvalid `reason`, with the
// words there are.
template <class T, std::size_t kCount>
Result<T> parse_enum(const std::array<EnumName<T>, kCount>& names, std::string_view member,
                 std::optional<std::string_view> given, std::optional<T> fallback,
                 std::string_view reason = "bad_parameter") {
  if (!given && fallback) return *fallback;
  std::string allowed;
  for (const EnumName<T>& name : names) {
    if (name.text == given) return name.value;
    allowed.append(allowed.empty() ? "one of " : ", ").append(name.text);
  }
  return fail(ErrorCode::kInvalid, reason, std::string(member), (given ? "" : "is missing: ") + allowed);
}

// A member that is to be a word: its text, "" when it is no string; absent or null: nullopt.
inline std::optional<std::string_view> enum_member(json::Value body, std::string_view member) {
  const json::Value value = body[member];
  if (value.is_missing() || value.type() == json::Type::kNull) return std::nullopt;
  return value.is_string() ? value.text() : std::string_view();
}

// A store's error, with the member that named the item when there is none of its name.
inline tl::unexpected<Error> with_item_member(Error error, std::string_view item_member) {
  if (error.reason == "unknown_item") error.member = item_member;
  return tl::unexpected(std::move(error));
}

}  // namespace freshet::handlers
