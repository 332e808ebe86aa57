#include "scripts/ctl/http/http_client.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio.hpp>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::ctl;
namespace asio = boost::asio;

namespace {

// Answers one connection with the beginning of a long reply, then a byte every few milliseconds.
class DrippingServer {
 public:
  DrippingServer() : acceptor_(io_, {asio::ip::address_v4::loopback(), 0}), thread_([this] { run(); }) {}
  ~DrippingServer() {
    stopping_ = true;
    thread_.join();
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port()); }

 private:
  void run() {
    pollfd ready{acceptor_.native_handle(), POLLIN, 0};
    if (poll(&ready, 1, 10'000) <= 0) return;  // the client did not come
    asio::ip::tcp::socket peer(io_);
    acceptor_.accept(peer);
    boost::system::error_code error;
    asio::write(peer, asio::buffer(std::string("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")), error);
    while (!stopping_) {
      asio::write(peer, asio::buffer("x", 1), error);
      std::this_thread::sleep_for(milliseconds(5));
    }
  }

  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

// Answers the first request of a connection and closes it at the second, without a reply.
class ClosingServer {
 public:
  ClosingServer() : acceptor_(io_, {asio::ip::address_v4::loopback(), 0}), thread_([this] { run(); }) {}
  ~ClosingServer() { thread_.join(); }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port()); }
  int requests() const { return requests_; }
  // No more connections are accepted.
  void stop() {
    asio::ip::tcp::socket wake(io_);
    stopping_ = true;
    wake.connect(acceptor_.local_endpoint());
  }

 private:
  void run() {
    while (true) {
      asio::ip::tcp::socket peer(io_);
      acceptor_.accept(peer);
      if (stopping_) return;
      boost::system::error_code error;
      for (int number = 0; number < 2; ++number) {
        std::string request;
        asio::read_until(peer, asio::dynamic_buffer(request), "0123456789", error);
        if (error) break;
        ++requests_;
        if (number == 0)
          asio::write(peer, asio::buffer(std::string("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")), error);
      }
    }
  }

  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> requests_ = 0;
  std::thread thread_;
};

bool is_sleeping(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::size_t name_end = text.rfind(") ");
  return name_end != std::string::npos && text[name_end + 2] == 'S';
}

}  // namespace

TEST_CASE("a URL is http or a unix socket", "[ctl]") {
  const auto tcp = parse_http_url("http://127.0.0.1:8081/");
  REQUIRE(tcp);
  CHECK(tcp->host == "127.0.0.1");
  CHECK(tcp->port == "8081");
  const auto six = parse_http_url("http://[::1]:81");
  REQUIRE(six);
  CHECK(six->host == "::1");
  CHECK(six->port == "81");
  CHECK(parse_http_url("http://localhost")->port == "80");
  CHECK(parse_http_url("unix:///run/a.sock")->unix_path == "/run/a.sock");
  for (const char* wrong : {"", "localhost:80", "https://a", "unix://relative", "http://", "http://a:b",
                            "http://a/path", "http://u@h:1", "http://a:"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_http_url(wrong));
  }
}

TEST_CASE("a reply that arrives byte by byte has one deadline", "[ctl]") {
  DrippingServer server;
  HttpClient http(*parse_http_url(server.url()), milliseconds(200));
  CHECK(freshet::test::error_of(http.exchange({})).detail ==
        server.url() + ": the reply did not arrive in time");
}

TEST_CASE("a reply that does not begin as expected is not received any further", "[ctl]") {
  DrippingServer server;
  HttpClient http(*parse_http_url(server.url()), milliseconds(60'000));
  HttpRequest request;
  request.expected_prefix = "model";
  const auto reply = http.exchange(request);
  REQUIRE(reply);
  CHECK(reply->body.starts_with("x"));
  CHECK(reply->body.size() < 1000);
}

TEST_CASE("a body that is received in pieces is compared with the prefix and may be refused", "[ctl]") {
  DrippingServer server;
  HttpClient http(*parse_http_url(server.url()), milliseconds(60'000));
  std::string received;
  std::size_t before_last = 0;  // bytes before the last piece
  HttpRequest request;
  const std::string prefix = std::string(60, 'x') + "y";  // arrives in several pieces
  request.expected_prefix = prefix;
  request.receive_body = [&](std::string_view bytes) {
    before_last = received.size();
    received += bytes;
    return true;
  };
  SECTION("compared") {
    const auto reply = http.exchange(request);
    REQUIRE(reply);
    CHECK(reply->body.empty());
    CHECK((received.size() > 60 && before_last <= 60));
  }
  SECTION("refused") {
    request.receive_body = [](std::string_view) { return false; };
    CHECK(freshet::test::error_of(http.exchange(request)).reason == "no_reply");
  }
}

TEST_CASE("a body whose reply is lost is not sent again", "[ctl]") {
  ClosingServer server;
  HttpClient http(*parse_http_url(server.url()), milliseconds(60'000));
  const HttpRequest request{"POST", "/", "0123456789"};
  CHECK(http.exchange(request));
  CHECK(freshet::test::error_of(http.exchange(request)).reason == "no_reply");
  CHECK(server.requests() == 2);
  CHECK(http.exchange(request));  // over a new connection
  server.stop();
}

TEST_CASE("a service that does not run has received nothing", "[ctl]") {
  HttpClient tcp(*parse_http_url("http://127.0.0.1:1"), milliseconds(60'000));
  const auto refused = freshet::test::error_of(tcp.exchange({}));
  CHECK(refused.reason == "no_connection");
  CHECK(refused.detail == "http://127.0.0.1:1: Connection refused");
  HttpClient local(*parse_http_url("unix:///nonexistent/socket"), milliseconds(60'000));
  const auto absent = freshet::test::error_of(local.exchange({}));
  CHECK(absent.reason == "no_connection");
  CHECK(absent.detail == "unix:///nonexistent/socket: No such file or directory");
}

TEST_CASE("a unix socket with a full backlog is waited for", "[ctl]") {
  const std::string path = "/tmp/freshet-http-client-test-" + std::to_string(getpid());
  asio::io_context io;
  asio::local::stream_protocol::acceptor acceptor(io);
  acceptor.open();
  acceptor.bind(path);
  acceptor.listen(0);
  asio::local::stream_protocol::socket waiting(io);
  waiting.connect(path);  // fills the backlog
  const pid_t client = gettid();
  std::atomic<bool> ended = false;
  std::thread server([&] {
    while (!ended && !is_sleeping(client)) std::this_thread::yield();
    if (ended) return;  // it did not wait
    for (int number = 0; number < 2; ++number) {
      asio::local::stream_protocol::socket peer(io);
      acceptor.accept(peer);
      if (number == 0) continue;
      std::string request;
      boost::system::error_code error;
      asio::read_until(peer, asio::dynamic_buffer(request), "\r\n\r\n", error);
      asio::write(peer, asio::buffer(std::string("HTTP/1.1 204 No Content\r\n\r\n")));
    }
  });
  HttpClient http(*parse_http_url("unix://" + path), milliseconds(60'000));
  const auto reply = http.exchange({});
  ended = true;
  server.join();
  unlink(path.c_str());
  REQUIRE(reply);
  CHECK(reply->status == 204);
}
