// The hot list that GET /api/hot serves and its name, and the settings of the feed.
#pragma once

#include <string>

#include "core/config/settings.h"
#include "core/hot/ports.h"

namespace freshet::handlers {

// The list for a request without parameters.
hot::ListQuery default_list(const Settings& settings);

// The model that ranks the list, with its main setting, as in the header Freshet-Model: "trending;
// half_life=15m", "views; mode=current".
std::string model_text(const hot::ListQuery& list, const Settings& settings);

// The settings that rank the feed and may be tuned: "scale=7d; interests=0.02; trend=0.05".
std::string feed_text(const RecallSettings& settings);

}  // namespace freshet::handlers
