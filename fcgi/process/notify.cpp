#include "fcgi/process/notify.h"

#include <systemd/sd-daemon.h>
#include <time.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace freshet::notify {
namespace {

void send(const std::string& message) { sd_notify(0, message.c_str()); }

// A line break would begin another assignment.
std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line)
    if (c == '\n') c = ' ';
  return line;
}

}  // namespace

void ready(std::string_view text) { send("READY=1\nSTATUS=" + one_line(text)); }

void reloading() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const auto usec = static_cast<std::int64_t>(now.tv_sec) * 1000000 + now.tv_nsec / 1000;
  send("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(usec) + "\nSTATUS=reloading");
}

void stopping() { send("STOPPING=1\nSTATUS=stopping"); }
void status(std::string_view text) { send("STATUS=" + one_line(text)); }
void watchdog() { send("WATCHDOG=1"); }
void main_pid(pid_t pid) { send("MAINPID=" + std::to_string(pid)); }

std::optional<std::chrono::milliseconds> watchdog_interval() {
  std::uint64_t usec = 0;
  if (sd_watchdog_enabled(0, &usec) <= 0) return std::nullopt;
  return std::chrono::milliseconds(usec / 2000);
}

void forget() {
  for (const char* name :
       {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"})
    unsetenv(name);
}

}  // namespace freshet::notify
