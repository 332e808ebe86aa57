// Helpers shared by the parsers of all routes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/json.h"

namespace freshet::handlers {

inline constexpr std::int64_t kMaxLimit = 100;  // entries per page

// Parses the JSON object in `text`, which is modified. `text` and `document` must outlive the
// value.
inline Result<json::Value> read_object(json::Document& document, std::string& text,
                                       const json::Limits& limits = {}) {
  FRESHET_TRY(parsed, document.parse(text, limits));
  return json::root_object(document);
}

// One of the names that a parameter or member may have as its value.
template <class T>
struct EnumName {
  std::string_view text;
  T value;
};

// The value that `given` names; if absent, `fallback`, or an error without one. Errors: kInvalid
// `reason`, with the list of names.
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

// The text of an enumeration member: "" if it is not a string, nullopt if it is absent or null.
inline std::optional<std::string_view> enum_member(json::Value body, std::string_view member) {
  const json::Value value = body[member];
  if (value.is_missing() || value.type() == json::Type::kNull) return std::nullopt;
  return value.is_string() ? value.text() : std::string_view();
}

// A store's error; if it is unknown_item, with the request's member that named the item.
inline tl::unexpected<Error> with_item_member(Error error, std::string_view item_member) {
  if (error.reason == "unknown_item") error.member = item_member;
  return tl::unexpected(std::move(error));
}

}  // namespace freshet::handlers
