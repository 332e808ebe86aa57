// JSON replies that are meant for one caller only.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "core/base/dependency.h"
#include "core/base/json.h"
#include "fcgi/gateway/request.h"

namespace freshet::handlers {

// JSON that no cache may store.
inline Response private_json(std::string body, int status = 200) {
  Response response;
  response.status = status;
  response.headers = "Cache-Control: private, no-store\r\n";
  response.body = std::move(body);
  return response;
}

// Writes the members of a degraded page that name what is missing.
inline void write_degraded(json::Writer& writer, std::optional<Dependency> missing) {
  if (missing) writer.key("degraded").boolean(true).key("missing").string(dependency_name(*missing));
}

}  // namespace freshet::handlers
