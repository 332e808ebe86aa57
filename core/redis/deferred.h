// Writes that a reply need not wait for. BackgroundWriter (background.h) is the real one.
#pragma once

#include "core/base/result.h"
#include "core/redis/command.h"

namespace freshet::redis {

class Deferred {
 public:
  virtual ~Deferred() = default;
  // Sends `pipeline` behind the reply, on another connection; when its queue is full or Redis is away it goes
  // to the spool. Every command must be harmless when repeated. False: neither queue nor spool had room and
  // it is lost (counted in /status).
  virtual bool post(Pipeline pipeline) = 0;
  // Puts `pipeline` into the spool, which survives the death of this process, and sends it when Redis answers
  // again. Every command must be harmless when repeated (carry an event id). Errors: kUnavailable
  // "spool_full".
  virtual Result<void> spool(Pipeline pipeline) = 0;
};

}  // namespace freshet::redis
