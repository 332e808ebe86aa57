// Names of pipelines for logs.
#pragma once

#include <span>
#include <string>

#include "core/redis/command.h"

namespace freshet::redis {

// The first command's name; for EVALSHA the script's name ("track") if it is one of `scripts`.
// Followed by "+N" if N more commands follow: "HMGET +3". Never contains a key or an argument,
// because these may identify readers.
std::string command_name(const Pipeline& pipeline, std::span<const Script> scripts);

}  // namespace freshet::redis
