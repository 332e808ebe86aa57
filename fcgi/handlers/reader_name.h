// The field that names the reader of a request: "userId" or, if only that is set, the route's
// legacy name.
#pragma once

#include <string_view>

#include "core/base/json.h"
#include "fcgi/http/target.h"

namespace freshet::handlers {

inline std::string_view reader_member(json::Value body, std::string_view legacy_name) {
  const auto id = json::optional_id<ReaderId>(body, "userId");
  return id && id->empty() && !body[legacy_name].is_missing() ? legacy_name : std::string_view("userId");
}

inline std::string_view reader_parameter(const http::Target& target, std::string_view legacy_name) {
  const auto id = http::id_parameter<ReaderId>(target, "userId");
  return id && id->empty() && target.parameter(legacy_name) ? legacy_name : std::string_view("userId");
}

}  // namespace freshet::handlers
