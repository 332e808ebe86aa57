// A request in progress, its reply, and their memory. A connection has one at a time and reuses it.
// When a request exceeds its budget, the connection sends a reply and gets a new exchange; the old
// one is detached and lives until its coroutine has ended, because a coroutine that waits for Redis
// is never destroyed. Its result is discarded.
#pragma once

#include <list>
#include <memory>

#include "fcgi/gateway/codec.h"
#include "fcgi/gateway/deadlines.h"
#include "fcgi/gateway/request.h"

namespace freshet::gateway {

class Connection;

struct Exchange {
  Connection* connection = nullptr;  // null: detached, the client has been answered
  bool running = false;              // its coroutine has not ended
  bool slow_reported = false;
  Codec codec;
  Request request;
  Response response;
  Deadlines<Exchange>* budget_deadlines = nullptr;  // the deadlines that its budget is in; null: none
  Deadlines<Exchange>::Handle budget;
  Deadlines<Exchange>::Handle slow;
  std::list<std::unique_ptr<Exchange>>::iterator position;  // in the gateway's list of detached ones
};

}  // namespace freshet::gateway
