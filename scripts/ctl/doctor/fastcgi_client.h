// A FastCGI client for single GET requests, so that the status socket can be read without nginx.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/base/time.h"

namespace freshet::ctl {

struct FastcgiReply {
  int status = 200;
  std::string body;
};

// Sends GET `uri` as the internal server does. `address`: the path of a unix socket, or host:port;
// the host may be one that only listens, such as 0.0.0.0 or *. Blocks for at most `timeout` per
// step. Errors: kUnavailable "no_listener", "forbidden" (by the permissions of the socket) or
// "no_reply", with what to do in the detail.
Result<FastcgiReply> fastcgi_get(const std::string& address, const std::string& uri, milliseconds timeout);

}  // namespace freshet::ctl
