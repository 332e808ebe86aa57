// Every room's Lua scripts, embedded at build: kTrack is track.lua, and so on; kAllScripts is what
// a connection loads when it opens.
#pragma once

#include <span>

#include "core/redis/command.h"
#include "core/redis/embedded_scripts.h"

namespace freshet::redis {

inline const std::span<const Script> kAllScripts{scripts::kAll};

}  // namespace freshet::redis
