// -D: leaves the terminal. The caller's process waits until the service has started, so that its
// exit status tells.
#pragma once

#include <functional>

#include "core/base/result.h"

namespace freshet {

// Forks. The first process waits and never returns: it exits 0 once the returned function was
// called in the second, or 1 when that ended without calling it. The second, in a session of its
// own with /dev/null as its standard input and output, goes on; its stderr stays as it is until the
// function is called and goes to /dev/null then if it was a terminal. Error: kInternal "daemonize".
Result<std::function<void()>> daemonize();

}  // namespace freshet
