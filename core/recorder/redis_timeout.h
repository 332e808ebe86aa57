// How the recorder's jobs talk to Redis.
#pragma once

#include "core/base/time.h"

namespace freshet::recorder {

// Of a command, on each of the recorder's connections. With the block of a read
// (core/recorder/stream.h) less than a second, so that stopping takes no longer even when Redis
// hangs.
inline constexpr milliseconds kRedisTimeout{800};

}  // namespace freshet::recorder
