// Reads the listen queue of a unix socket from the kernel (sock_diag), as `ss -xl` does.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/result.h"

namespace freshet::ctl {

struct ListenQueue {
  std::uint32_t waiting = 0;  // connections not yet accepted
  std::uint32_t limit = 0;    // backlog; further connections are refused
};

// Errors: kNotFound "no_socket": no listener; kUnavailable "no_sock_diag": the kernel does not
// answer (sandbox).
Result<ListenQueue> listen_queue(const std::string& path);

}  // namespace freshet::ctl
