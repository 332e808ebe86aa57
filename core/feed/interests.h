// A reader's interests, read from user:interactions:{reader}.
#pragma once

#include <vector>

#include "core/config/settings.h"
#include "core/feed/ports.h"
#include "core/redis/reply.h"

namespace freshet::feed {

// The items of these interactions, newest first and without duplicates. An item's weight is that of
// the reader's strongest interaction with it; interactions without a weight are skipped. At most
// 20.
std::vector<Interest> parse_interests(const redis::Reply& members, const InteractionSettings& settings);

}  // namespace freshet::feed
