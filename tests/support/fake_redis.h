// A scripted Redis server that can send partial replies or none, for faults that a real server
// cannot produce on demand. One thread; serves any number of connections one at a time, in the
// order of their commands.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/unix_socket.h"

namespace freshet::test {

// Listens on 127.0.0.1 and a port chosen by the kernel.
inline int listen_loopback(int& port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const address_ptr = reinterpret_cast<sockaddr*>(&address);
  if (fd < 0 || bind(fd, address_ptr, size) != 0 || listen(fd, 1024) != 0 ||
      getsockname(fd, address_ptr, &size) != 0)
    throw std::runtime_error("cannot listen on loopback");
  port = ntohs(address.sin_port);
  return fd;
}

class FakeRedis {
 public:
  using Command = std::vector<std::string>;
  // Returns the reply to a command on the n-th connection (from 0); an empty one sends nothing.
  // nullopt closes the connection.
  using Answer = std::function<std::optional<std::string>(const Command& command, int connection)>;

  FakeRedis(const std::string& path, Answer answer) : FakeRedis(listen_unix(path), std::move(answer)) {}
  // Takes ownership of `listen_fd`.
  FakeRedis(int listen_fd, Answer answer)
      : answer_(std::move(answer)), listen_fd_(listen_fd), thread_([this] { serve(); }) {}
  ~FakeRedis() {
    stop_ = true;
    thread_.join();
    for (auto& [fd, peer] : peers_) ::close(fd);
    ::close(listen_fd_);
  }
  int reads() const { return reads_; }  // number of reads that received bytes
  int connections() const { return connections_; }

 private:
  struct Peer {
    int number;
    std::string received;
  };

  void serve() {
    while (!stop_) {
      std::vector<pollfd> fds{{listen_fd_, POLLIN, 0}};
      for (auto& [fd, peer] : peers_) fds.push_back({fd, POLLIN, 0});
      if (poll(fds.data(), fds.size(), 5) <= 0) continue;
      if ((fds[0].revents & POLLIN) != 0) {
        const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd >= 0) peers_[fd] = Peer{connections_++, {}};
      }
      for (std::size_t i = 1; i < fds.size(); ++i) {
        if (fds[i].revents != 0 && !read_from(fds[i].fd)) {
          ::close(fds[i].fd);
          peers_.erase(fds[i].fd);
        }
      }
    }
  }

  bool read_from(int fd) {
    char buffer[65536];
    const ssize_t got = recv(fd, buffer, sizeof buffer, 0);
    if (got <= 0) return false;
    ++reads_;
    Peer& peer = peers_[fd];
    peer.received.append(buffer, static_cast<std::size_t>(got));
    while (auto command = parse_command(peer.received)) {
      const auto reply = answer_(*command, peer.number);
      if (!reply) return false;
      if (!reply->empty()) ::send(fd, reply->data(), reply->size(), MSG_NOSIGNAL);
    }
    return true;
  }

  static std::optional<Command> parse_command(std::string& bytes) {
    std::size_t at = 0;
    const auto number = [&](char type) -> std::optional<std::size_t> {
      const std::size_t end = bytes.find("\r\n", at);
      if (end == std::string::npos || bytes[at] != type) return std::nullopt;
      std::size_t value = 0;
      std::from_chars(bytes.data() + at + 1, bytes.data() + end, value);
      at = end + 2;
      return value;
    };
    const auto count = number('*');
    if (!count) return std::nullopt;
    Command command;
    for (std::size_t i = 0; i < *count; ++i) {
      const auto size = at < bytes.size() ? number('$') : std::nullopt;
      if (!size || bytes.size() < at + *size + 2) return std::nullopt;
      command.push_back(bytes.substr(at, *size));
      at += *size + 2;
    }
    bytes.erase(0, at);
    return command;
  }

  Answer answer_;
  int listen_fd_;
  std::map<int, Peer> peers_;
  std::atomic<bool> stop_{false};
  std::atomic<int> reads_{0};
  std::atomic<int> connections_{0};
  std::thread thread_;
};

}  // namespace freshet::test
