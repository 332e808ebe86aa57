// One worker, put together: the loop, the Redis connections, stores, use-cases, handlers and the gateway; and
// its life from ready to drained. This file, prepare.cpp and freshetd.cpp are the only ones of the service
// that know every layer.
#pragma once

#include "fcgi/prepare.h"
#include "fcgi/process/worker_context.h"

namespace freshet {

// Runs in the child until it has drained; returns its exit status.
int run_worker(WorkerContext& context, const Prepared& prepared);

}  // namespace freshet
