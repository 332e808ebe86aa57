// The field that names the reader of a request: "userId", or the route's legacy name.
#pragma once

#include <string_view>

#include "core/base/json.h"
#include "fcgi/http/target.h"

namespace freshet::handlers {

inline std::string_view reader_member(json::Value body, std::string_view legacy_name) {
  const json::Value given = body["userId"];
  return given.is_missing() || given.type() == json::Type::kNull ? legacy_name : std::string_view("userId");
}

inline std::string_view reader_parameter(const http::Target& target, std::string_view legacy_name) {
  return target.parameter("userId") ? std::string_view("userId") : legacy_name;
}

}  // namespace freshet::handlers
