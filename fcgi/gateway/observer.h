// Observer of requests, for counters and logs.
#pragma once

#include <chrono>

#include "fcgi/gateway/request.h"

namespace freshet::gateway {

class Observer {
 public:
  virtual ~Observer() = default;
  // The reply is about to be encoded. Called once per request, including refused ones and those
  // whose handler is still running because the budget was used up.
  virtual void on_answered(const Request& request, const Response& response,
                           std::chrono::steady_clock::time_point now) = 0;
  // The request has been in progress for GatewayOptions::slow_timeout. At most once per request.
  virtual void on_slow(const Request& request, std::chrono::steady_clock::duration elapsed) = 0;
};

}  // namespace freshet::gateway
