// A worker without Redis or FastCGI, for tests of the master. The setting ping.response selects its
// behavior:
//   die        exits with status 3 before it is ready; counts its start in slot.requests
//   reject     likewise with kExitConfig
//   never      never becomes ready
//   half       becomes ready in an even slot, never in an odd one; answers in both
//   stubborn   becomes ready, then ignores all signals
//   throw      leaves by an exception
//   other      becomes ready and answers
// On a connection each byte is a command:
//   p   answers "<pid> <generation> <ping.response>\n"
//   s   answers "<pid> <generation> <secret>\n"
//   x   sends 'X' to the master
//   h   hangs forever
//   a   aborts
//   t   writes to stdout, then fails an assertion
//   b   adds a request in flight; while there is one it accepts no connections
//   e   removes a request in flight
// All commands that return answer like p. Signals: QUIT stops accepting and ends once the last
// connection is closed, TERM ends, USR1 increments slot.replayed.
#pragma once

#include <string>

#include "fcgi/process/worker_context.h"

namespace freshet::testing {

int fake_worker(WorkerContext& context, const std::string& secret);

}  // namespace freshet::testing
