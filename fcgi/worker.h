// The life of a worker's process, from ready to drained: signals, readiness, heartbeats, recycling.
// What it consists of is worker_parts.h.
#pragma once

#include "core/base/token_bucket_table.h"
#include "core/model/model_handoff.h"
#include "fcgi/startup_files.h"
#include "fcgi/process/worker_context.h"

namespace freshet {

// Runs in the child until it has drained; returns its exit status. The model comes from the shelf,
// which the keeper fills (model_keeper.h).
int run_worker(WorkerContext& context, const StartupFiles& files, TokenBucketTable& limits,
               const model::ModelHandoff& model_handoff);

}  // namespace freshet
