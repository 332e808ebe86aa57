// The reply of every handler whose answer is for its caller alone.
#pragma once

#include <string>
#include <utility>

#include "fcgi/gateway/request.h"

namespace freshet::handlers {

// JSON that no cache may keep.
inline Response private_json(std::string body, int status = 200) {
  Response response;
  response.status = status;
  response.headers = "Cache-Control: private, no-store\r\n";
  response.body = std::move(body);
  return response;
}

}  // namespace freshet::handlers
