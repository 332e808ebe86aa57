// The reply to a write that Redis could not accept and that is queued in the spool.
#pragma once

#include "fcgi/handlers/json_reply.h"
#include "fcgi/handlers/services.h"

namespace freshet::handlers {

inline Response queued_reply(Services& services) {
  services.slot.queued_writes.fetch_add(1, std::memory_order_relaxed);
  return private_json("{\"ok\":true,\"queued\":true}", 202);
}

}  // namespace freshet::handlers
