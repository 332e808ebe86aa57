// The Lua scripts of all modules, embedded at build time: kTrack is track.lua, and so on.
// Connections load kAllScripts in their handshake.
#pragma once

#include <span>

#include "core/redis/command.h"
#include "core/redis/embedded_scripts.h"

namespace freshet::redis {

inline const std::span<const Script> kAllScripts{scripts::kAll};

}  // namespace freshet::redis
