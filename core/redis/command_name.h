// What a pipeline is called in logs.
#pragma once

#include <span>
#include <string>

#include "core/redis/command.h"

namespace freshet::redis {

// The first command's name, or for EVALSHA the name of the script when it is one of these
// ("track"); "+N" when N more follow: "HMGET +3". Never an argument or a key: they may name
// readers.
std::string command_name(const Pipeline& pipeline, std::span<const Script> scripts);

}  // namespace freshet::redis
