#include "scripts/ctl/doctor/fastcgi_client.h"

#include <catch2/catch.hpp>
#include <thread>

#include "tests/support/error_of.h"
#include "tests/support/fake_redis.h"
#include "tests/support/fcgi_bytes.h"

using namespace freshet;
using namespace freshet::ctl;
using namespace freshet::test;

namespace {

constexpr milliseconds kTimeout{10000};

// Accepts one connection on `listen_fd`, reads a request and sends `reply` in small pieces.
class OneReply {
 public:
  OneReply(int listen_fd, std::string reply)
      : listen_fd_(listen_fd), thread_([this, reply = std::move(reply)] { serve(reply); }) {}
  ~OneReply() {
    thread_.join();
    ::close(listen_fd_);
  }

 private:
  void serve(const std::string& reply) const {
    pollfd ready{listen_fd_, POLLIN, 0};
    if (poll(&ready, 1, 10000) <= 0) return;
    UnixClient peer(accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC));
    std::string request;
    while (!request.ends_with(record(kStdin, ""))) {
      if (!peer.receive(request)) return;
    }
    for (std::size_t at = 0; at < reply.size(); at += 7) peer.send(reply.substr(at, 7));
  }

  int listen_fd_;
  std::thread thread_;
};

std::string end_request() { return record(kEnd, std::string(8, '\0')); }

}  // namespace

TEST_CASE("a reply in several records has a status and a body", "[status]") {
  const TemporaryDirectory folder;
  const std::string path = (folder.path() / "s").string();
  const OneReply server(listen_unix(path),
                        record(kStdout, "Status: 503 Service Unavailable\r\nX: y\r\n\r\nno", 1, 3) +
                            record(kStderr, "ignored") + record(kStdout, "t ready") + record(kStdout, "") +
                            end_request());
  const auto reply = fastcgi_get(path, "/health/ready", kTimeout);
  REQUIRE(reply);
  CHECK(reply->status == 503);
  CHECK(reply->body == "not ready");
}

TEST_CASE("a socket that listens on every address is asked on loopback", "[status]") {
  int port = 0;
  const OneReply server(listen_loopback(port),
                        record(kStdout, "Content-Type: text/plain\r\n\r\npong") + end_request());
  const auto reply = fastcgi_get("*:" + std::to_string(port), "/ping", kTimeout);
  REQUIRE(reply);
  CHECK(reply->status == 200);
  CHECK(reply->body == "pong");
}

TEST_CASE("a service that does not answer is an error that says why", "[status]") {
  const TemporaryDirectory folder;
  CHECK(error_of(fastcgi_get((folder.path() / "none").string(), "/", kTimeout)).detail.find("No such file") !=
        std::string::npos);
  int port = 0;
  {
    const OneReply server(listen_loopback(port), record(kStdout, "half"));
    const auto refused = fastcgi_get("127.0.0.1:" + std::to_string(port), "/", kTimeout);
    REQUIRE_FALSE(refused);
    CHECK(error_of(refused).detail.find("listen.allowed_clients must contain this client") !=
          std::string::npos);
  }
  const std::string closed = "127.0.0.1:" + std::to_string(port);
  CHECK(error_of(fastcgi_get(closed, "/", kTimeout)).detail.find("Connection refused") != std::string::npos);
  const std::string path = (folder.path() / "silent").string();
  const int silent = listen_unix(path);  // accepts nothing
  CHECK(error_of(fastcgi_get(path, "/", milliseconds(20))).detail.find("timeout") != std::string::npos);
  ::close(silent);
}
