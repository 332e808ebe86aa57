// One request inside the worker, its reply to be, and the memory that both stand in. A connection
// has one at a time and uses it again; when the budget of its request is used up the connection is
// answered and gets a fresh one, and the old one lives on, without a connection, until its
// coroutine has ended: a coroutine that waits for Redis is never destroyed, and what it brings then
// reaches nobody.
#pragma once

#include <list>
#include <memory>

#include "fcgi/gateway/codec.h"
#include "fcgi/gateway/deadlines.h"
#include "fcgi/gateway/request.h"

namespace freshet::gateway {

class Connection;

struct Exchange {
  Connection* connection = nullptr;  // null: its client has been answered
  bool running = false;              // its coroutine has not ended
  bool slow_reported = false;
  Codec codec;
  Request request;
  Response response;
  Deadlines<Exchange>* budget_deadlines = nullptr;  // where its budget is watched; null: nowhere
  Deadlines<Exchange>::Handle budget;
  Deadlines<Exchange>::Handle slow;
  std::list<std::unique_ptr<Exchange>>::iterator position;  // among the gateway's late ones
};

}  // namespace freshet::gateway
