#include "fcgi/process/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/process/master_fixture.h"
#include "tests/support/error_of.h"

namespace freshet::testing {
namespace {

namespace fs = std::filesystem;
using test::error_of;

ListenOptions options_for(const std::string& address) {
  PoolSettings pool;
  pool.listen = address;
  return request_listen_options(pool);
}

// Calls open_listeners() with the sockets passed to this process.
Result<Listeners> open_passed(const std::string& requests, const std::string& status = "") {
  PoolSettings pool;
  pool.listen = requests;
  pool.status_listen = status;
  return open_listeners(pool, SystemdSockets::from_environment(), true);
}

// Passes sockets as systemd does, as descriptors 3, 4, … of this process.
void pass_as_systemd(std::vector<int> fds) {
  for (int& fd : fds) fd = fcntl(fd, F_DUPFD, 100);
  for (std::size_t i = 0; i < fds.size(); ++i) dup2(fds[i], 3 + static_cast<int>(i));
  setenv("LISTEN_FDS", std::to_string(fds.size()).c_str(), 1);
  setenv("LISTEN_PID", std::to_string(getpid()).c_str(), 1);
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

int bound_socket(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = address_of(path);
  REQUIRE(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

// Runs `body` in a child and returns its exit status, for tests that change the environment and
// descriptors.
template <class Body>
int in_child(Body body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  return WEXITSTATUS(wait_for_exit(pid));
}

TEST_CASE("a unix socket gets its mode and is non-blocking and close-on-exec", "[process]") {
  const TempFolder folder;
  ListenOptions pool = options_for(folder / "s");
  pool.mode = 0640;
  const auto listener = Listener::bind(pool);
  REQUIRE(listener.has_value());
  CHECK((fs::status(pool.address).permissions() & fs::perms::all) == static_cast<fs::perms>(0640));
  CHECK((fcntl(listener->fd(), F_GETFL) & O_NONBLOCK) != 0);
  CHECK((fcntl(listener->fd(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK_FALSE(listener->from_systemd());
  CHECK(Client(pool.address).is_connected());
}

TEST_CASE("the socket file gets its owner and group", "[process]") {
  if (geteuid() != 0) return;
  const TempFolder folder;
  ListenOptions pool = options_for(folder / "s");
  pool.owner = "daemon";
  pool.group = "adm";
  const auto listener = Listener::bind(pool);
  REQUIRE(listener.has_value());
  struct stat status {};
  REQUIRE(stat(pool.address.c_str(), &status) == 0);
  CHECK(status.st_uid == 1);
  CHECK(status.st_gid == getgrnam("adm")->gr_gid);
  pool.owner = "no-such-user";
  CHECK(Listener::bind(options_for(folder / "t")).has_value());
  pool.address = folder / "u";
  CHECK(error_of(Listener::bind(pool)).member == "listen.owner");
  CHECK_FALSE(fs::exists(pool.address));
}

TEST_CASE("a stale socket file is replaced", "[process]") {
  const TempFolder folder;
  close(bound_socket(folder / "s"));
  REQUIRE(fs::exists(folder / "s"));
  const auto listener = Listener::bind(options_for(folder / "s"));
  REQUIRE(listener.has_value());
  CHECK(Client(folder / "s").is_connected());
}

TEST_CASE("a socket in use is left alone, even when its queue is full", "[process]") {
  const TempFolder folder;
  const int in_use = bound_socket(folder / "s");
  REQUIRE(listen(in_use, 0) == 0);
  // This probe fills the queue.
  CHECK(error_of(Listener::bind(options_for(folder / "s"))).reason == "address_in_use");
  const auto second = Listener::bind(options_for(folder / "s"));
  CHECK(error_of(second).reason == "address_in_use");
  CHECK(error_of(second).code == ErrorCode::kConflict);
  CHECK(fs::exists(folder / "s"));
  close(in_use);
}

TEST_CASE("a file that is not a socket is never removed", "[process]") {
  const TempFolder folder;
  std::ofstream(folder / "s") << "precious";
  CHECK(error_of(Listener::bind(options_for(folder / "s"))).reason == "bad_listen");
  CHECK(fs::file_size(folder / "s") == 8);
}

TEST_CASE("a listener removes its file, but not the file of a successor", "[process]") {
  const TempFolder folder;
  { const auto listener = Listener::bind(options_for(folder / "s")); }
  CHECK_FALSE(fs::exists(folder / "s"));
  int successor = -1;
  {
    const auto listener = Listener::bind(options_for(folder / "s"));
    fs::remove(folder / "s");
    successor = bound_socket(folder / "s");
  }
  CHECK(fs::exists(folder / "s"));
  close(successor);
}

TEST_CASE("a child that exits does not remove its parent's socket", "[process]") {
  const TempFolder folder;
  auto listener = Listener::bind(options_for(folder / "s"));
  REQUIRE(listener.has_value());
  CHECK(in_child([&] {
          const Listener passed_listener = std::move(*listener);
          return 0;
        }) == 0);
  CHECK(fs::exists(folder / "s"));
}

TEST_CASE("a TCP address is bound, or refused if it is in use", "[process]") {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof any;
  REQUIRE(bind(probe, reinterpret_cast<sockaddr*>(&any), size) == 0);
  REQUIRE(getsockname(probe, reinterpret_cast<sockaddr*>(&any), &size) == 0);
  close(probe);
  const std::string address = "127.0.0.1:" + std::to_string(ntohs(any.sin_port));
  const auto listener = Listener::bind(options_for(address));
  REQUIRE(listener.has_value());
  CHECK(error_of(Listener::bind(options_for(address))).reason == "address_in_use");
  CHECK(error_of(Listener::bind(options_for("no.such.host.invalid:1"))).reason == "bad_listen");
}

TEST_CASE("a socket passed by systemd is used instead of binding listen.address", "[process]") {
  const TempFolder folder;
  const std::string passed = folder / "passed";
  const int status = in_child([&] {
    const int fd = bound_socket(passed);
    if (listen(fd, 8) != 0) return 1;
    pass_as_systemd({fd});
    const auto opened = open_passed(folder / "other");
    if (!opened || opened->requests.fd() != 3 || !opened->requests.from_systemd()) return 2;
    if ((fcntl(3, F_GETFL) & O_NONBLOCK) == 0 || (fcntl(3, F_GETFD) & FD_CLOEXEC) == 0) return 3;
    if (getenv("LISTEN_FDS")) return 4;
    return fs::exists(folder / "other") ? 5 : 0;
  });
  CHECK(status == 0);
  CHECK(fs::exists(passed));  // belongs to the socket unit
}

TEST_CASE("each socket passed by systemd serves the address it is bound to, in any order", "[process]") {
  const TempFolder folder;
  const bool swapped = GENERATE(false, true);
  const int status = in_child([&] {
    const int requests = bound_socket(folder / "requests"), pages = bound_socket(folder / "status");
    if (listen(requests, 8) != 0 || listen(pages, 8) != 0) return 1;
    pass_as_systemd(swapped ? std::vector{pages, requests} : std::vector{requests, pages});
    const auto opened = open_passed(folder / "requests", folder / "status");
    if (!opened || !opened->status) return 2;
    if (opened->requests.fd() != (swapped ? 4 : 3) || opened->status->fd() != (swapped ? 3 : 4)) return 3;
    return opened->status->from_systemd() && (fcntl(opened->status->fd(), F_GETFL) & O_NONBLOCK) != 0 ? 0 : 4;
  });
  CHECK(status == 0);
}

TEST_CASE("passed TCP sockets are told apart by their ports", "[process]") {
  const TempFolder folder;
  const int status = in_child([&] {
    std::vector<int> fds;
    std::vector<std::string> addresses;
    for (int i = 0; i < 2; ++i) {
      fds.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in any{};
      any.sin_family = AF_INET;
      any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      socklen_t size = sizeof any;
      if (bind(fds.back(), reinterpret_cast<sockaddr*>(&any), size) != 0 || listen(fds.back(), 8) != 0)
        return 1;
      getsockname(fds.back(), reinterpret_cast<sockaddr*>(&any), &size);
      addresses.push_back("127.0.0.1:" + std::to_string(ntohs(any.sin_port)));
    }
    pass_as_systemd(fds);
    const auto opened = open_passed(addresses[1], addresses[0]);
    return opened && opened->requests.fd() == 4 && opened->status && opened->status->fd() == 3 ? 0 : 2;
  });
  CHECK(status == 0);
}

TEST_CASE("if only one of the two sockets is passed, the other one is bound", "[process]") {
  const TempFolder folder;
  const std::string passed = GENERATE("requests", "status");
  const int status = in_child([&] {
    const int fd = bound_socket(folder / passed);
    if (listen(fd, 8) != 0) return 1;
    pass_as_systemd({fd});
    const auto opened = open_passed(folder / "requests", folder / "status");
    if (!opened || !opened->status) return 2;
    const Listener& passed_listener = passed == "status" ? *opened->status : opened->requests;
    const Listener& bound_listener = passed == "status" ? opened->requests : *opened->status;
    if (passed_listener.fd() != 3 || !passed_listener.from_systemd() || bound_listener.from_systemd())
      return 3;
    return Client(folder / "requests").is_connected() && Client(folder / "status").is_connected() ? 0 : 4;
  });
  CHECK(status == 0);
}

TEST_CASE("a passed socket that no setting names is closed, not used for status", "[process]") {
  const TempFolder folder;
  const int status = in_child([&] {
    const int requests = bound_socket(folder / "requests"), stray = bound_socket(folder / "stray");
    if (listen(requests, 8) != 0 || listen(stray, 8) != 0) return 1;
    pass_as_systemd({stray, requests});
    const auto opened = open_passed(folder / "requests");
    if (!opened || opened->status || opened->requests.fd() != 4) return 2;
    return fcntl(3, F_GETFD) == -1 ? 0 : 3;
  });
  CHECK(status == 0);
}

TEST_CASE("a stale status socket is replaced, and one in use is reported with its setting", "[process]") {
  const TempFolder folder;
  close(bound_socket(folder / "status"));
  const auto first = open_passed(folder / "requests", folder / "status");
  REQUIRE(first.has_value());
  CHECK(Client(folder / "status").is_connected());
  const auto second = open_passed(folder / "other", folder / "status");
  REQUIRE_FALSE(second.has_value());
  CHECK(error_of(second).reason == "address_in_use");
  CHECK(error_of(second).member == "pm.status_listen");
  CHECK_FALSE(fs::exists(folder / "other"));
}

TEST_CASE("LISTEN_FDS meant for another process is ignored", "[process]") {
  const TempFolder folder;
  const int status = in_child([&] {
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_PID", "1", 1);
    const auto opened = open_passed(folder / "s");
    return opened && !opened->requests.from_systemd() && fs::exists(folder / "s") ? 0 : 1;
  });
  CHECK(status == 0);
}

}  // namespace
}  // namespace freshet::testing
