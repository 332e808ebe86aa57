// The listen queue of a unix socket, asked of the kernel (sock_diag), as `ss -xl` does.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/result.h"

namespace freshet::ctl {

struct ListenQueue {
  std::uint32_t waiting = 0;  // connections that nobody has accepted yet
  std::uint32_t limit = 0;    // the backlog: more are refused at once
};

// Errors: kNotFound, "no_socket" — nobody listens there; kUnavailable, "no_sock_diag" — the kernel
// does not say (a sandbox).
Result<ListenQueue> listen_queue(const std::string& path);

}  // namespace freshet::ctl
