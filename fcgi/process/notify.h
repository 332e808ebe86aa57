// Client for sd_notify(3). Not the library's, which blocks while the receiver's queue is full: a
// blocked master would supervise nothing. Each call returns at once: true if delivered or if there
// is no NOTIFY_SOCKET, false if the caller may retry later.
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
bool main_pid(pid_t pid);  // the process to listen to: after daemonizing, and for a new binary

// Interval at which watchdog() must be called, half of WatchdogSec. nullopt if systemd does not
// watch this process.
std::optional<std::chrono::milliseconds> watchdog_interval();

// Removes systemd's variables. Workers call it, because they must not speak for the service.
void clear_environment();

}  // namespace freshet::notify
