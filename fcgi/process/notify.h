// What the master tells systemd (sd_notify). Without NOTIFY_SOCKET every call does nothing.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include <sys/types.h>

namespace freshet::notify {

void ready(std::string_view status);
void reloading();  // with MONOTONIC_USEC; ready() must follow, whether or not the reload succeeded
void stopping();
void status(std::string_view text);  // one line, shown by `systemctl status`
void watchdog();
void main_pid(pid_t pid);  // after daemonizing

// How often watchdog() must be called at least, half of WatchdogSec; nullopt when systemd does not watch us.
std::optional<std::chrono::milliseconds> watchdog_interval();

// For workers: nothing they do may speak for the service.
void forget();

}  // namespace freshet::notify
