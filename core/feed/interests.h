// A reader's interests, read from user:interactions:{reader}.
#pragma once

#include <vector>

#include "core/config/settings.h"
#include "core/feed/ports.h"
#include "core/redis/reply.h"

namespace freshet::feed {

// The items of these interactions, newest first, each once at its newest place, worth as much as
// the strongest thing the reader did with it. What weighs nothing is no interest. At most 20.
std::vector<Interest> parse_interests(const redis::Reply& members, const InteractionSettings& settings);

}  // namespace freshet::feed
