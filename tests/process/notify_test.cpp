#include "fcgi/process/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdlib>
#include <string>

#include "tests/process/master_fixture.h"

namespace freshet::testing {
namespace {

// Receives messages in place of systemd, at the address in NOTIFY_SOCKET.
class Receiver {
 public:
  explicit Receiver(const std::string& name) : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    REQUIRE(bind(fd_, reinterpret_cast<const sockaddr*>(&address), length) == 0);
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;
  ~Receiver() {
    unsetenv("NOTIFY_SOCKET");
    close(fd_);
  }
  std::string next() const {
    std::array<char, 512> buffer{};
    const auto bytes_read = recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    return bytes_read < 0 ? "nothing" : std::string(buffer.data(), static_cast<std::size_t>(bytes_read));
  }

 private:
  int fd_;
};

TEST_CASE("each state is sent as one message of the sd_notify protocol", "[process]") {
  const TempFolder folder;
  const Receiver systemd(folder / "notify");
  notify::ready("all well");
  CHECK(systemd.next() == "READY=1\nSTATUS=all well");
  notify::reloading();
  CHECK(systemd.next().starts_with("RELOADING=1\nMONOTONIC_USEC="));
  notify::status("two\nlines=1");
  CHECK(systemd.next() == "STATUS=two lines=1");
  notify::stopping();
  CHECK(systemd.next().starts_with("STOPPING=1"));
  notify::watchdog();
  CHECK(systemd.next() == "WATCHDOG=1");
  notify::main_pid(42);
  CHECK(systemd.next() == "MAINPID=42");
  notify::clear_environment();
  CHECK(notify::status("as a worker"));
  CHECK(systemd.next() == "nothing");
}

TEST_CASE("an abstract socket address works", "[process]") {
  const Receiver systemd("@freshet-test-" + std::to_string(getpid()));
  CHECK(notify::watchdog());
  CHECK(systemd.next() == "WATCHDOG=1");
}

TEST_CASE("a receiver that does not read never blocks the sender", "[process]") {
  const TempFolder folder;
  const Receiver systemd(folder / "notify");
  bool delivered = true;
  for (int i = 0; i < 100000 && delivered; ++i) delivered = notify::status("again");
  CHECK_FALSE(delivered);
}

TEST_CASE("without systemd all calls succeed and send nothing", "[process]") {
  unsetenv("NOTIFY_SOCKET");
  CHECK(notify::ready("x"));
  CHECK_FALSE(notify::watchdog_interval().has_value());
}

TEST_CASE("the watchdog interval is half of WatchdogSec", "[process]") {
  setenv("WATCHDOG_USEC", "3000000", 1);
  setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
  CHECK(notify::watchdog_interval() == 1500ms);
  setenv("WATCHDOG_PID", "1", 1);
  CHECK_FALSE(notify::watchdog_interval().has_value());
  notify::clear_environment();
}

}  // namespace
}  // namespace freshet::testing
