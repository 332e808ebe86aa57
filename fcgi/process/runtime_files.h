// Checks of files that live as long as the service, such as sockets and the pid file.
#pragma once

#include <string>

namespace freshet {

// errno of creating a file with this path, as far as its folder decides; 0: possible, or the folder
// is missing in /run and systemd is running, which creates it when it starts the service or opens
// its sockets (RuntimeDirectory=, ListenStream=).
int file_creation_error(const std::string& path);

// Returns whether the service may succeed although this process failed with `error`: it may have
// more permissions, and folders in /run may be created before it starts.
bool may_succeed_later(int error, const std::string& path);

}  // namespace freshet
