// Typed access to members. Each error names the member.
#include <cmath>

#include "core/base/json.h"

namespace freshet::json {
namespace {

tl::unexpected<Error> invalid(std::string_view reason, std::string_view member, std::string detail) {
  return fail(ErrorCode::kInvalid, reason, std::string(member), std::move(detail));
}

constexpr const char* kMissingDetail = "is missing";

bool is_absent(Value value) { return value.is_missing() || value.type() == Type::kNull; }

Result<std::string> bounded_string(Value value, std::string_view member, std::size_t max_bytes) {
  if (!value.is_string()) return invalid("bad_string", member, "not a string");
  if (value.text().size() > max_bytes) {
    return invalid("bad_string", member, "longer than " + std::to_string(max_bytes) + " bytes");
  }
  return std::string(value.text());
}

tl::unexpected<Error> out_of_range(std::string_view kind, std::string_view member, std::int64_t low,
                                   std::int64_t high) {
  return invalid("bad_number", member,
                 "not " + std::string(kind) + " in " + std::to_string(low) + ".." + std::to_string(high));
}

}  // namespace

Result<Value> root_object(const Document& document) {
  if (!document.root().is_object()) return invalid("bad_body", {}, "the body is not a JSON object");
  return document.root();
}

Result<std::string> id_text(Value value, std::string_view member) {
  if (value.is_string()) return std::string(value.text());
  if (const auto number = value.integer()) return std::to_string(*number);
  if (const auto number = value.unsigned_integer()) return std::to_string(*number);
  return invalid("bad_id", member, is_absent(value) ? kMissingDetail : "not a string or an integer");
}

Result<std::optional<UnixSeconds>> optional_time(Value object, std::string_view member) {
  const Value value = object[member];
  if (is_absent(value)) return std::nullopt;
  if (value.is_string()) {
    if (value.text().empty()) return std::nullopt;
    return parse_date(value.text(), member);
  }
  if (const auto number = value.integer()) {
    return from_unix(*number, member).map([](UnixSeconds at) { return std::optional(at); });
  }
  return invalid("bad_time", member, "not a date or integer unix seconds");
}

Result<std::int64_t> required_integer(Value object, std::string_view member, std::int64_t low,
                                      std::int64_t high) {
  if (is_absent(object[member])) return invalid("bad_number", member, kMissingDetail);
  const auto number = object[member].integer();
  if (!number || *number < low || *number > high) return out_of_range("an integer", member, low, high);
  return *number;
}

Result<std::int64_t> required_rounded(Value object, std::string_view member, std::int64_t low,
                                      std::int64_t high) {
  const Value value = object[member];
  if (value.type() != Type::kDouble) return required_integer(object, member, low, high);
  constexpr double kEnd = 0x1p63;  // the first number beyond std::int64_t
  const double rounded = std::round(*value.number());
  if (rounded < -kEnd || rounded >= kEnd) return out_of_range("a number", member, low, high);
  const auto number = static_cast<std::int64_t>(rounded);
  if (number < low || number > high) return out_of_range("a number", member, low, high);
  return number;
}

Result<std::optional<std::int64_t>> optional_integer(Value object, std::string_view member, std::int64_t low,
                                                     std::int64_t high) {
  if (is_absent(object[member])) return std::nullopt;
  return required_integer(object, member, low, high).map([](std::int64_t n) { return std::optional(n); });
}

Result<bool> optional_boolean(Value object, std::string_view member, bool fallback) {
  const Value value = object[member];
  if (is_absent(value)) return fallback;
  if (value.type() != Type::kBool) return invalid("bad_boolean", member, "not true or false");
  return value.boolean();
}

Result<std::string> required_string(Value object, std::string_view member, std::size_t max_bytes) {
  if (is_absent(object[member])) return invalid("bad_string", member, kMissingDetail);
  return bounded_string(object[member], member, max_bytes);
}

Result<std::optional<std::string>> optional_string(Value object, std::string_view member,
                                                   std::size_t max_bytes) {
  if (is_absent(object[member])) return std::nullopt;
  return bounded_string(object[member], member, max_bytes).map([](std::string s) {
    return std::optional(std::move(s));
  });
}

Result<std::vector<std::string>> optional_strings(Value object, std::string_view member,
                                                  std::size_t max_count, std::size_t max_bytes) {
  std::vector<std::string> result;
  const Value value = object[member];
  if (is_absent(value)) return result;
  if (!value.is_array()) return invalid("bad_list", member, "not an array of strings");
  const auto elements = value.elements();
  if (elements.size() > max_count) {
    return invalid("bad_list", member, "more than " + std::to_string(max_count) + " elements");
  }
  for (const Value element : elements) {
    FRESHET_TRY(text, bounded_string(element, member, max_bytes));
    result.push_back(std::move(*text));
  }
  return result;
}

}  // namespace freshet::json
