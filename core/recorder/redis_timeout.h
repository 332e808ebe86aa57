// Timeout of the recorder's Redis commands.
#pragma once

#include "core/base/time.h"

namespace freshet::recorder {

// Per command, on each of the recorder's connections. Longer than the blocking time of a read
// (core/recorder/stream.h), and less than a second, so that the recorder stops in time even if
// Redis hangs.
inline constexpr milliseconds kRedisTimeout{800};

}  // namespace freshet::recorder
