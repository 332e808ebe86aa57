// The process that copies the model file for the workers. No other process reads the file, which
// others write.
#pragma once

#include "core/config/settings.h"
#include "core/model/model_handoff.h"

namespace freshet {

// Checks recommend.model twice a second until TERM. USR1 reopens the log.
[[noreturn]] int run_model_publisher(const Settings& settings, model::ModelHandoff& handoff);

}  // namespace freshet
