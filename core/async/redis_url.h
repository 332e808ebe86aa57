// Where Redis is: unix:///path/to.sock[?db=N] or redis://[[user]:password@]host[:port][/db].
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"

namespace freshet::redis {

struct Endpoint {
  std::string unix_path;  // set for a unix socket, else empty
  std::string host;
  int port = 6379;
  std::string username, password;  // empty: no AUTH
  int db = 0;
};

// Errors: kInvalid, "bad_redis_url".
Result<Endpoint> parse_url(std::string_view url);

}  // namespace freshet::redis
