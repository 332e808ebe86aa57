// Blocking unix-socket helpers for tests: a temporary directory, a listening socket, and clients
// with a deadline on every wait.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

namespace freshet::test {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "freshet-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = pattern;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) throw std::runtime_error("path too long");
  path.copy(address.sun_path, path.size());
  return address;
}

inline int listen_unix(const std::string& path, bool non_blocking = true) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (non_blocking ? SOCK_NONBLOCK : 0), 0);
  const sockaddr_un address = unix_address(path);
  if (fd < 0 || bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(fd, 1024) != 0) {
    throw std::runtime_error("cannot listen on " + path);
  }
  return fd;
}

class UnixClient {
 public:
  explicit UnixClient(const std::string& path) : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = unix_address(path);
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error("cannot connect to " + path);
    }
  }
  explicit UnixClient(int fd) : fd_(fd) {}
  UnixClient(UnixClient&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UnixClient& operator=(UnixClient&&) = delete;
  ~UnixClient() { close(); }

  int fd() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  // Sends everything. Returns false if the peer has closed the connection.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t got = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (got <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(got));
    }
    return true;
  }
  // Appends received bytes. Returns false at end of stream or on timeout.
  bool receive(std::string& into, std::chrono::milliseconds wait = std::chrono::seconds(10)) {
    pollfd ready{fd_, POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>(wait.count())) <= 0) return false;
    char buffer[65536];
    const ssize_t got = recv(fd_, buffer, sizeof buffer, 0);
    if (got <= 0) return false;
    into.append(buffer, static_cast<std::size_t>(got));
    return true;
  }
  // Returns whether the peer closes the connection within `wait`. Discards what it sends before.
  bool is_closed_by_peer(std::chrono::milliseconds wait = std::chrono::seconds(10)) {
    const auto deadline = std::chrono::steady_clock::now() + wait;
    char buffer[65536];
    for (;;) {
      const auto remaining =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (remaining.count() <= 0) return false;
      pollfd ready{fd_, POLLIN, 0};
      if (poll(&ready, 1, static_cast<int>(remaining.count())) <= 0) continue;
      if (recv(fd_, buffer, sizeof buffer, 0) <= 0) return true;
    }
  }

 private:
  int fd_;
};

}  // namespace freshet::test
