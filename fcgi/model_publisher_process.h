// The process beside the workers that copies the model for them: it alone reads the file that
// others write.
#pragma once

#include "core/config/settings.h"
#include "core/model/model_handoff.h"

namespace freshet {

// Looks at recommend.model twice a second, until TERM; USR1 reopens the log.
[[noreturn]] int run_model_publisher(const Settings& settings, model::ModelHandoff& handoff);

}  // namespace freshet
