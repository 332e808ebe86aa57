// What the master tells systemd, in the protocol of sd_notify(3). Our own sender, because the
// library's waits while the receiver's queue is full, and a master that waits supervises nobody.
// Each call returns at once: true when delivered or when there is no NOTIFY_SOCKET, false when the
// caller may try again later.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include <sys/types.h>

namespace freshet::notify {

bool ready(std::string_view status);
bool reloading();  // with MONOTONIC_USEC; ready() must follow, whether or not the reload succeeded
bool stopping();
bool status(std::string_view text);  // one line, shown by `systemctl status`
bool watchdog();
bool main_pid(pid_t pid);  // who speaks from now on: after daemonizing, and for a new binary

// How often watchdog() must be called at least, half of WatchdogSec; nullopt when systemd does not
// watch us.
std::optional<std::chrono::milliseconds> watchdog_interval();

// For workers: nothing they do may speak for the service.
void clear_environment();

}  // namespace freshet::notify
