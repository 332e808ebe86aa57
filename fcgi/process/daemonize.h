// -D: runs the service in the background. The calling process waits for the start and reports it
// with its exit status.
#pragma once

#include <functional>

#include "core/base/result.h"

namespace freshet {

// Forks. The calling process never returns: it exits with 0 once the child has called the returned
// function, or with 1 if the child ends before. The child continues in a new session with stdin and
// stdout on /dev/null. Its stderr stays open until it calls the function, and then goes to
// /dev/null if it is a terminal. Error: kInternal "daemonize".
Result<std::function<void()>> daemonize();

}  // namespace freshet
