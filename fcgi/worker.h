// Life cycle of a worker process from READY to drained: signals, heartbeats, recycling. Its
// components are in worker_services.h.
#pragma once

#include "core/model/model_handoff.h"
#include "fcgi/process/worker_context.h"
#include "fcgi/shared_tables.h"
#include "fcgi/startup_files.h"

namespace freshet {

// Runs in the child until it has drained; returns the exit status. The model comes from
// `model_handoff`, which the model publisher fills (model_publisher.h).
int run_worker(WorkerContext& context, const StartupFiles& files, SharedTables& tables,
               const model::ModelHandoff& model_handoff);

}  // namespace freshet
