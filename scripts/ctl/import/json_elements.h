// Values of some members of a large JSON text, read one at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <istream>
#include <span>
#include <string_view>

#include "core/base/json.h"
#include "core/base/result.h"

namespace freshet::ctl {

// An element of an array that is a member of this name, or the member's value if it is no array.
struct JsonElement {
  std::string_view member;
  std::size_t number = 0;  // of the elements of this member, from 1
  json::Value value;       // missing if it cannot be parsed
  std::string_view error;  // the reason
};

// Visits the elements of the members named in `members`, at any depth but not inside each other.
// False from `visit` ends reading without an error. Needs memory for one element, at most 16 MiB
// of text; a larger one has an error. A leading byte order mark is skipped. Errors: kInvalid
// "bad_json" if the text does not start with { or ends early; elements before have been visited.
Result<void> read_json_elements(std::istream& in, std::span<const std::string_view> members,
                                const std::function<bool(const JsonElement&)>& visit);

// Text of a member that is a string or an integer; empty otherwise.
std::string json_text(json::Value object, std::string_view member);

}  // namespace freshet::ctl
