// Who wants to know what became of requests: counters, logs.
#pragma once

#include <chrono>

#include "fcgi/gateway/request.h"

namespace freshet::gateway {

class Observer {
 public:
  virtual ~Observer() = default;
  // The reply is about to be encoded. Called once for each request, also for one that is refused,
  // and for one whose handler still runs because its budget was used up.
  virtual void on_answered(const Request& request, const Response& response,
                        std::chrono::steady_clock::time_point now) = 0;
  // The request has been inside for GatewayOptions::slow_timeout. At most once for each.
  virtual void on_slow(const Request& request, std::chrono::steady_clock::duration elapsed) = 0;
};

}  // namespace freshet::gateway
