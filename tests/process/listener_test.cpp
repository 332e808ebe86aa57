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

namespace freshet::testing {
namespace {

namespace fs = std::filesystem;

PoolSettings at(const std::string& address) {
  PoolSettings pool;
  pool.listen = address;
  return pool;
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

// Runs `body` in a child and returns its exit status: for tests that need an environment and descriptors of
// their own.
template <class Body>
int in_child(Body body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  return WEXITSTATUS(wait_for_end(pid));
}

TEST_CASE("a unix socket gets its mode and is non-blocking and close-on-exec", "[process]") {
  const TempFolder folder;
  PoolSettings pool = at(folder / "s");
  pool.listen_mode = 0640;
  const auto listener = Listener::open(pool);
  REQUIRE(listener.has_value());
  CHECK((fs::status(pool.listen).permissions() & fs::perms::all) == static_cast<fs::perms>(0640));
  CHECK((fcntl(listener->fd(), F_GETFL) & O_NONBLOCK) != 0);
  CHECK((fcntl(listener->fd(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK_FALSE(listener->from_systemd());
  CHECK(Client(pool.listen).connected());
}

TEST_CASE("owner and group are set", "[process]") {
  if (geteuid() != 0) return;
  const TempFolder folder;
  PoolSettings pool = at(folder / "s");
  pool.listen_owner = "daemon";
  pool.listen_group = "adm";
  const auto listener = Listener::open(pool);
  REQUIRE(listener.has_value());
  struct stat status {};
  REQUIRE(stat(pool.listen.c_str(), &status) == 0);
  CHECK(status.st_uid == 1);
  CHECK(status.st_gid == getgrnam("adm")->gr_gid);
  pool.listen_owner = "no-such-user";
  CHECK(Listener::open(at(folder / "t")).has_value());
  pool.listen = folder / "u";
  CHECK(Listener::open(pool).error().member == "listen.owner");
  CHECK_FALSE(fs::exists(pool.listen));
}

TEST_CASE("a socket file that nobody listens behind is replaced", "[process]") {
  const TempFolder folder;
  close(bound_socket(folder / "s"));
  REQUIRE(fs::exists(folder / "s"));
  const auto listener = Listener::open(at(folder / "s"));
  REQUIRE(listener.has_value());
  CHECK(Client(folder / "s").connected());
}

TEST_CASE("a socket that somebody listens behind is left alone, also when its queue is full", "[process]") {
  const TempFolder folder;
  const int living = bound_socket(folder / "s");
  REQUIRE(listen(living, 0) == 0);
  CHECK(Listener::open(at(folder / "s")).error().reason == "address_in_use");  // this probe fills the queue
  const auto second = Listener::open(at(folder / "s"));
  CHECK(second.error().reason == "address_in_use");
  CHECK(second.error().code == ErrorCode::kConflict);
  CHECK(fs::exists(folder / "s"));
  close(living);
}

TEST_CASE("a file that is no socket is never removed", "[process]") {
  const TempFolder folder;
  std::ofstream(folder / "s") << "precious";
  CHECK(Listener::open(at(folder / "s")).error().reason == "bad_listen");
  CHECK(fs::file_size(folder / "s") == 8);
}

TEST_CASE("the file goes with its listener, but a successor's file stays", "[process]") {
  const TempFolder folder;
  { const auto listener = Listener::open(at(folder / "s")); }
  CHECK_FALSE(fs::exists(folder / "s"));
  int successor = -1;
  {
    const auto listener = Listener::open(at(folder / "s"));
    fs::remove(folder / "s");
    successor = bound_socket(folder / "s");
  }
  CHECK(fs::exists(folder / "s"));
  close(successor);
}

TEST_CASE("a child that leaves does not remove the socket of its parent", "[process]") {
  const TempFolder folder;
  auto listener = Listener::open(at(folder / "s"));
  REQUIRE(listener.has_value());
  CHECK(in_child([&] {
          const Listener taken = std::move(*listener);
          return 0;
        }) == 0);
  CHECK(fs::exists(folder / "s"));
}

TEST_CASE("TCP addresses are bound, and one in use is refused", "[process]") {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof any;
  REQUIRE(bind(probe, reinterpret_cast<sockaddr*>(&any), size) == 0);
  REQUIRE(getsockname(probe, reinterpret_cast<sockaddr*>(&any), &size) == 0);
  close(probe);
  const std::string address = "127.0.0.1:" + std::to_string(ntohs(any.sin_port));
  const auto listener = Listener::open(at(address));
  REQUIRE(listener.has_value());
  CHECK(Listener::open(at(address)).error().reason == "address_in_use");
  CHECK(Listener::open(at("no.such.host.invalid:1")).error().reason == "bad_listen");
}

TEST_CASE("a socket passed by systemd is taken, and listen.address made by nobody", "[process]") {
  const TempFolder folder;
  const std::string passed = folder / "passed";
  const int status = in_child([&] {
    const int fd = bound_socket(passed);
    if (listen(fd, 8) != 0) return 1;
    if (fd != 3) dup2(fd, 3);
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_PID", std::to_string(getpid()).c_str(), 1);
    const auto listener = Listener::open(at(folder / "other"));
    if (!listener || listener->fd() != 3 || !listener->from_systemd()) return 2;
    if ((fcntl(3, F_GETFL) & O_NONBLOCK) == 0 || (fcntl(3, F_GETFD) & FD_CLOEXEC) == 0) return 3;
    if (getenv("LISTEN_FDS")) return 4;
    return fs::exists(folder / "other") ? 5 : 0;
  });
  CHECK(status == 0);
  CHECK(fs::exists(passed));  // the socket unit's, not ours to remove
}

TEST_CASE("of several sockets passed by systemd the one bound to listen.address is taken", "[process]") {
  const TempFolder folder;
  const int status = in_child([&] {
    const int first = bound_socket(folder / "first");
    const int second = bound_socket(folder / "second");
    listen(first, 8);
    listen(second, 8);
    const int low = fcntl(first, F_DUPFD, 100), high = fcntl(second, F_DUPFD, 100);
    dup2(low, 3);
    dup2(high, 4);
    setenv("LISTEN_FDS", "2", 1);
    setenv("LISTEN_PID", std::to_string(getpid()).c_str(), 1);
    const auto listener = Listener::open(at(folder / "second"));
    return listener && listener->fd() == 4 ? 0 : 1;
  });
  CHECK(status == 0);
}

TEST_CASE("LISTEN_FDS meant for another process is ignored", "[process]") {
  const TempFolder folder;
  const int status = in_child([&] {
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_PID", "1", 1);
    const auto listener = Listener::open(at(folder / "s"));
    return listener && !listener->from_systemd() && fs::exists(folder / "s") ? 0 : 1;
  });
  CHECK(status == 0);
}

}  // namespace
}  // namespace freshet::testing
