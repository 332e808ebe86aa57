// A worker without Redis or FastCGI, for tests of the master. How it behaves is said by
// ping.response:
//   serve (or anything else)  gets ready and answers
//   die                       ends with status 3 before it is ready; counts its start in
//   slot.requests never                     is never ready half                      is ready in an
//   even slot, never in an odd one, and answers in both stubborn                  gets ready and
//   then ignores every signal throw                     an exception leaves it
// On a connection each byte is a command: p → "<pid> <generation> <ping.response>\n"; x → 'X' to
// the master; h → hangs for ever; a → abort; t → writes to stdout, then an assertion fails; b → one
// more request is inside, until e; it takes no connection meanwhile; s → as p, with the secret at
// the end. QUIT: takes no more connections and ends when the last one closed. TERM: ends. USR1:
// counts in slot.replayed.
#pragma once

#include <string>

#include "fcgi/process/worker_context.h"

namespace freshet::testing {

int fake_worker(WorkerContext& context, const std::string& secret);

}  // namespace freshet::testing
