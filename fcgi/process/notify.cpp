#include "fcgi/process/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace freshet::notify {
namespace {

bool send(const std::string& message) {
  const char* name = std::getenv("NOTIFY_SOCKET");
  const std::string path = name ? name : "";
  sockaddr_un address{};
  if (path.empty() || path.size() >= sizeof address.sun_path) return true;
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  if (path[0] == '@') address.sun_path[0] = '\0';  // abstract namespace
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const auto sent = sendto(fd, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                           reinterpret_cast<const sockaddr*>(&address), length);
  close(fd);
  return sent >= 0;
}

// A line break would start another assignment.
std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line)
    if (c == '\n') c = ' ';
  return line;
}

}  // namespace

bool ready(std::string_view text) { return send("READY=1\nSTATUS=" + one_line(text)); }

bool reloading() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const auto usec = static_cast<std::int64_t>(now.tv_sec) * 1000000 + now.tv_nsec / 1000;
  return send("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(usec) + "\nSTATUS=reloading");
}

bool stopping() { return send("STOPPING=1\nSTATUS=stopping"); }
bool status(std::string_view text) { return send("STATUS=" + one_line(text)); }
bool watchdog() { return send("WATCHDOG=1"); }
bool main_pid(pid_t pid) { return send("MAINPID=" + std::to_string(pid)); }

std::optional<std::chrono::milliseconds> watchdog_interval() {
  std::uint64_t usec = 0;
  if (sd_watchdog_enabled(0, &usec) <= 0) return std::nullopt;
  return std::chrono::milliseconds(usec / 2000);
}

void clear_environment() {
  for (const char* name :
       {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"})
    unsetenv(name);
}

}  // namespace freshet::notify
