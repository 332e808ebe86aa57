#include "fcgi/gateway/gateway.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <catch2/catch.hpp>
#include <coroutine>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "tests/support/fcgi_bytes.h"
#include "tests/support/loop_thread.h"
#include "tests/support/unix_socket.h"

using namespace freshet;
using namespace freshet::test;
using gateway::Gateway;
using gateway::GatewayOptions;
using std::chrono::milliseconds;

namespace {

// Suspends handlers until the test opens it.
struct Gate {
  std::vector<std::coroutine_handle<>> waiting;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) { waiting.push_back(h); }
  void await_resume() const noexcept {}
  void open() {
    for (auto h : std::exchange(waiting, {})) h.resume();
  }
};

// Records what the gateway reports.
struct RecordingObserver final : gateway::Observer {
  std::vector<std::pair<std::string, int>> answers;  // URI, status
  std::vector<std::string> slow_requests;
  void on_answered(const Request& request, const Response& response,
                   std::chrono::steady_clock::time_point now) override {
    CHECK(now >= request.first_byte_at);
    answers.emplace_back(request.uri, response.status);
  }
  void on_slow(const Request& request, std::chrono::steady_clock::duration elapsed) override {
    CHECK(elapsed >= milliseconds(20));
    slow_requests.emplace_back(request.uri);
  }
};

GatewayOptions with_budget(milliseconds budget) {
  GatewayOptions options;
  options.request_budget = budget;
  return options;
}
GatewayOptions with_slow_log() {
  GatewayOptions options;
  options.slow_timeout = milliseconds(200);
  options.request_budget = std::chrono::minutes(10);
  return options;
}

// A gateway whose application echoes the URI and the body's size. /big replies with 3 MB, /wait and
// /patient wait at the gate, /hold blocks the loop, /throw throws.
class Fixture {
 public:
  explicit Fixture(GatewayOptions options = {.read_timeout = milliseconds(300),
                                             .write_timeout = milliseconds(300)})
      : path_((directory_.path() / "s").string()), listen_fd_(listen_unix(path_)) {
    thread_.run_on_loop([&] {
      gateway_ = std::make_unique<Gateway>(
          thread_.loop(), std::move(options), [this](Request& q, Response& r) { return answer(q, r); },
          [](const Request& request, gateway::RefusalReason why, Response& response) {
            response.status = 503;
            response.body = why == gateway::RefusalReason::kOverloaded
                                ? "overloaded"
                                : "over budget " + std::string(request.uri);
          },
          &observer_);
      gateway_->listen(listen_fd_);
    });
  }
  ~Fixture() {
    thread_.stop();
    ::close(listen_fd_);
  }

  UnixClient client() { return UnixClient(path_); }
  LoopThread& thread() { return thread_; }
  Gateway& gateway() { return *gateway_; }
  Gate& gate() { return gate_; }
  RecordingObserver observer() {
    return thread_.run_on_loop([&] { return observer_; });
  }
  gateway::GatewayCounters counters() {
    return thread_.run_on_loop([&] { return gateway_->counters(); });
  }
  std::size_t connections() {
    return thread_.run_on_loop([&] { return gateway_->connections(); });
  }
  // Waits at most 10 s until `predicate` holds.
  template <class Predicate>
  bool eventually(Predicate predicate) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < deadline) {
      if (predicate()) return true;
      std::this_thread::yield();
    }
    return false;
  }

 private:
  Task<void> answer(Request& request, Response& response) {
    if (request.uri == "/throw") throw std::runtime_error("a handler's mistake");
    if (request.uri.starts_with("/patient")) request.budget = Budget::kNone;
    if (request.uri.starts_with("/wait") || request.uri.starts_with("/patient")) co_await gate_;
    if (request.uri == "/hold") std::this_thread::sleep_for(milliseconds(300));  // blocks the loop
    if (request.uri == "/wait/and-throw") throw std::runtime_error("a handler's mistake, later");
    if (request.uri == "/big") {
      response.body.assign(3'000'000, 'b');
    } else {
      response.body = std::string(request.uri) + " " + std::to_string(request.body.size());
    }
  }

  TemporaryDirectory directory_;
  std::string path_;
  int listen_fd_;
  Gate gate_;
  RecordingObserver observer_;
  LoopThread thread_;
  std::unique_ptr<Gateway> gateway_;
};

std::string body_of(const std::string& out) { return out.substr(out.find("\r\n\r\n") + 4); }

// Sends a request and returns the body of its reply; "" if the connection was closed instead.
std::string fetch_body(UnixClient& client, const std::string& request) {
  if (!client.send(request)) return {};
  std::string received;
  while (parse_reply(received).bytes == 0) {
    if (!client.receive(received)) return {};
  }
  return body_of(parse_reply(received).out);
}

std::filesystem::path shared_directory() {
  const char* from_environment = std::getenv("FRESHET_SHARED");
  return from_environment ? from_environment : FRESHET_SOURCE_DIR "/../shared";
}

}  // namespace

TEST_CASE("A request over its budget is answered, and its connection serves the next one", "[gateway]") {
  Fixture fixture(with_budget(milliseconds(30)));
  auto client = fixture.client();
  CHECK(fetch_body(client, get_request("/wait/first")) == "over budget /wait/first");
  CHECK(fixture.counters().over_budget == 1);
  CHECK(fixture.counters().detached == 1);
  CHECK(fixture.counters().in_flight == 1);
  CHECK(fetch_body(client, get_request("/second")) == "/second 0");
  CHECK(fetch_body(client, get_request("/wait/third")) == "over budget /wait/third");

  // The results of detached requests are discarded.
  fixture.thread().run_on_loop([&] { fixture.gate().open(); });
  CHECK(fixture.eventually([&] { return fixture.counters().detached == 0; }));
  CHECK(fixture.counters().in_flight == 0);
  CHECK(fetch_body(client, get_request("/fourth")) == "/fourth 0");
  CHECK(fixture.counters().requests == 4);
  const std::vector<std::pair<std::string, int>> expected{
      {"/wait/first", 503}, {"/second", 200}, {"/wait/third", 503}, {"/fourth", 200}};
  CHECK(fixture.observer().answers == expected);
}

TEST_CASE("A detached request that throws has no effect", "[gateway]") {
  Fixture fixture(with_budget(milliseconds(30)));
  auto client = fixture.client();
  CHECK(fetch_body(client, get_request("/wait/and-throw")) == "over budget /wait/and-throw");
  fixture.thread().run_on_loop([&] { fixture.gate().open(); });
  CHECK(fixture.eventually([&] { return fixture.counters().detached == 0; }));
  CHECK(fetch_body(client, get_request("/next")) == "/next 0");
}

TEST_CASE("A client that disconnects before its detached request has ended is forgotten", "[gateway]") {
  Fixture fixture(with_budget(milliseconds(30)));
  {
    auto client = fixture.client();
    CHECK(fetch_body(client, get_request("/wait")) == "over budget /wait");
  }
  CHECK(fixture.eventually([&] { return fixture.connections() == 0; }));
  CHECK(fixture.counters().detached == 1);
  fixture.thread().run_on_loop([&] { fixture.gate().open(); });
  CHECK(fixture.eventually([&] { return fixture.counters().detached == 0; }));
}

TEST_CASE("A request without a budget may take any time", "[gateway]") {
  Fixture fixture(with_budget(milliseconds(1)));
  auto client = fixture.client(), other = fixture.client();
  REQUIRE(client.send(get_request("/patient")));
  CHECK(fetch_body(other, get_request("/wait")) ==
        "over budget /wait");  // over its budget; /patient has none
  fixture.thread().run_on_loop([&] { fixture.gate().open(); });
  std::string received;
  while (parse_reply(received).bytes == 0) REQUIRE(client.receive(received));
  CHECK(body_of(parse_reply(received).out) == "/patient 0");
  CHECK(fixture.counters().over_budget == 1);
}

TEST_CASE("A drain waits for detached requests", "[gateway]") {
  Fixture fixture(with_budget(milliseconds(30)));
  std::atomic<bool> drained{false};
  {
    auto client = fixture.client();
    CHECK(fetch_body(client, get_request("/wait")) == "over budget /wait");
  }
  CHECK(fixture.eventually([&] { return fixture.connections() == 0; }));
  fixture.thread().run_on_loop(
      [&] { fixture.gateway().drain(std::chrono::steady_clock::now(), [&] { drained = true; }); });
  CHECK_FALSE(drained);
  fixture.thread().run_on_loop([&] { fixture.gate().open(); });
  CHECK(fixture.eventually([&] { return drained.load(); }));
}

TEST_CASE("A slow request is reported once: while it waits, or at its end if it blocked the loop",
          "[gateway]") {
  Fixture fixture(with_slow_log());
  auto client = fixture.client();
  REQUIRE(client.send(get_request("/wait")));
  CHECK(fixture.eventually([&] { return fixture.observer().slow_requests.size() == 1; }));
  CHECK(fixture.observer().answers.empty());
  fixture.thread().run_on_loop([&] { fixture.gate().open(); });
  std::string received;
  while (parse_reply(received).bytes == 0) REQUIRE(client.receive(received));
  received.clear();
  CHECK(fetch_body(client, get_request("/hold")) == "/hold 0");
  CHECK(fetch_body(client, get_request("/fast")) == "/fast 0");
  CHECK(fixture.observer().slow_requests == std::vector<std::string>{"/wait", "/hold"});
}

TEST_CASE("A keep-alive connection serves one request after another", "[gateway]") {
  Fixture fixture;
  auto client = fixture.client();
  for (int i = 0; i < 100; ++i) {
    CHECK(fetch_body(client, post_request("/a" + std::to_string(i), "12345")) ==
          "/a" + std::to_string(i) + " 5");
  }
  CHECK(fixture.counters().accepted == 1);
  CHECK(fixture.counters().requests == 100);
  CHECK(fixture.counters().in_flight == 0);
}

TEST_CASE("A connection without keep-alive is closed after the reply", "[gateway]") {
  Fixture fixture;
  auto client = fixture.client();
  CHECK(fetch_body(client, get_request("/once", false)) == "/once 0");
  CHECK(client.is_closed_by_peer());
}

TEST_CASE("A request may arrive byte by byte", "[gateway]") {
  Fixture fixture({.read_timeout = milliseconds(10000)});
  auto client = fixture.client();
  const std::string request = post_request("/slow", "{}");
  for (std::size_t i = 0; i + 1 < request.size(); ++i) REQUIRE(client.send(request.substr(i, 1)));
  CHECK(fetch_body(client, request.substr(request.size() - 1)) == "/slow 2");
}

TEST_CASE("A body of eight megabytes arrives complete", "[gateway]") {
  Fixture fixture({.read_timeout = milliseconds(10000), .write_timeout = milliseconds(10000)});
  auto client = fixture.client();
  CHECK(fetch_body(client, post_request("/bulk", std::string(8 << 20, 'x'))) == "/bulk 8388608");
}

TEST_CASE("Hundreds of idle connections stay open and do not delay a busy one", "[gateway]") {
  Fixture fixture;
  std::vector<UnixClient> idle;
  for (int i = 0; i < 300; ++i) idle.push_back(fixture.client());
  for (auto& client : idle) CHECK(fetch_body(client, get_request("/i")) == "/i 0");
  auto busy = fixture.client();
  for (int i = 0; i < 500; ++i) REQUIRE(fetch_body(busy, get_request("/b")) == "/b 0");
  // Idle connections have no deadline: they still answer after a half-sent request timed out.
  auto half = fixture.client();
  REQUIRE(half.send(get_request("/half").substr(0, 20)));
  CHECK(half.is_closed_by_peer());
  for (auto& client : idle) CHECK(fetch_body(client, get_request("/i")) == "/i 0");
}

TEST_CASE("A half-sent request is dropped at its deadline, even if it trickles, and delays no other",
          "[gateway]") {
  Fixture fixture;
  auto half = fixture.client();
  const std::string request = post_request("/half", std::string(1000, 'x'));
  REQUIRE(half.send(request.substr(0, 50)));
  auto other = fixture.client();
  std::size_t sent = 50;
  while (half.send(request.substr(sent, 1))) {
    REQUIRE(++sent < request.size());
    REQUIRE(fetch_body(other, get_request("/other")) == "/other 0");
    pollfd gone{half.fd(), POLLIN, 0};
    if (poll(&gone, 1, 5) > 0) break;
  }
  CHECK(half.is_closed_by_peer());
  CHECK(fixture.counters().read_timeouts == 1);
}

TEST_CASE("A peer that does not read its reply is dropped at its deadline, and delays no other",
          "[gateway]") {
  Fixture fixture;
  auto stalled = fixture.client();
  REQUIRE(stalled.send(get_request("/big")));
  auto other = fixture.client();
  REQUIRE(fixture.eventually([&] {
    REQUIRE(fetch_body(other, get_request("/other")) == "/other 0");
    return fixture.counters().write_timeouts == 1;
  }));
  CHECK(fixture.eventually([&] { return fixture.connections() == 1; }));
}

TEST_CASE("A reply larger than the socket's buffer reaches a peer that reads", "[gateway]") {
  Fixture fixture({.write_timeout = milliseconds(60000)});
  auto client = fixture.client();
  for (int i = 0; i < 3; ++i) CHECK(fetch_body(client, get_request("/big")).size() == 3'000'000);
}

TEST_CASE("A peer that disconnects while its request is served leaves nothing behind", "[gateway]") {
  Fixture fixture;
  for (int i = 0; i < 200; ++i) {
    auto client = fixture.client();
    REQUIRE(client.send(get_request("/wait")));
  }
  REQUIRE(fixture.eventually([&] { return fixture.counters().in_flight == 200; }));
  fixture.thread().run_on_loop([&] { fixture.gate().open(); });
  CHECK(fixture.eventually([&] { return fixture.connections() == 0; }));
  CHECK(fixture.counters().in_flight == 0);
  auto client = fixture.client();
  CHECK(fetch_body(client, get_request("/after")) == "/after 0");
}

TEST_CASE("A peer that closes its side right after a request is answered and forgotten", "[gateway]") {
  Fixture fixture({.read_timeout = milliseconds(30000)});
  for (const bool whole : {true, false}) {
    UnixClient client = fixture.client();
    const std::string request = get_request("/bye");
    // Keep the loop busy, so that it sees both in one event.
    fixture.thread().run_on_loop([&] {
      REQUIRE(client.send(whole ? request : request.substr(0, 30)));
      REQUIRE(shutdown(client.fd(), SHUT_WR) == 0);
    });
    if (whole) {
      std::string received;
      while (parse_reply(received).bytes == 0) REQUIRE(client.receive(received));
    }
    CHECK(client.is_closed_by_peer(milliseconds(5000)));  // shorter than the read deadline
  }
  CHECK(fixture.eventually([&] { return fixture.connections() == 0; }));
}

TEST_CASE("Requests beyond max_in_flight are refused at once and counted", "[gateway]") {
  Fixture fixture({.max_in_flight = 2});
  auto a = fixture.client();
  auto b = fixture.client();
  auto c = fixture.client();
  REQUIRE(a.send(get_request("/wait")));
  REQUIRE(b.send(get_request("/wait")));
  REQUIRE(fixture.eventually([&] { return fixture.counters().in_flight == 2; }));
  std::string received;
  REQUIRE(c.send(get_request("/c")));
  while (parse_reply(received).bytes == 0) REQUIRE(c.receive(received));
  CHECK(parse_reply(received).out.starts_with("Status: 503"));
  CHECK(fixture.counters().overloaded == 1);
  fixture.thread().run_on_loop([&] { fixture.gate().open(); });
  CHECK(fetch_body(c, get_request("/c")) == "/c 0");
}

TEST_CASE("A handler that throws closes its connection and nothing else", "[gateway]") {
  Fixture fixture;
  auto bad = fixture.client();
  REQUIRE(bad.send(get_request("/throw")));
  CHECK(bad.is_closed_by_peer());
  auto good = fixture.client();
  CHECK(fetch_body(good, get_request("/good")) == "/good 0");
}

TEST_CASE("Draining accepts no connections and closes no idle one before its deadline", "[gateway]") {
  Fixture fixture;
  auto client = fixture.client();
  REQUIRE(fetch_body(client, get_request("/1")) == "/1 0");
  std::promise<void> drained;
  fixture.thread().run_on_loop([&] {
    fixture.gateway().drain(std::chrono::steady_clock::now() + std::chrono::seconds(60),
                            [&] { drained.set_value(); });
  });
  CHECK(fetch_body(client, get_request("/2")) == "/2 0");
  auto new_client = fixture.client();  // waits in the backlog, for another worker
  REQUIRE(new_client.send(get_request("/late")));
  CHECK(fetch_body(client, get_request("/3")) == "/3 0");
  auto done = drained.get_future();
  CHECK(done.wait_for(milliseconds(0)) == std::future_status::timeout);
  CHECK(fixture.connections() == 1);
  client.close();  // the peer closes first
  CHECK(done.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
}

TEST_CASE("At the deadline of a drain, idle connections are closed and busy ones get their reply",
          "[gateway]") {
  Fixture fixture;
  auto idle = fixture.client();
  REQUIRE(fetch_body(idle, get_request("/1")) == "/1 0");
  auto busy = fixture.client();
  REQUIRE(busy.send(get_request("/wait/busy")));
  REQUIRE(fixture.eventually([&] { return fixture.counters().in_flight == 1; }));
  std::promise<void> drained;
  fixture.thread().run_on_loop([&] {
    fixture.gateway().drain(std::chrono::steady_clock::now() + milliseconds(50),
                            [&] { drained.set_value(); });
  });
  CHECK(idle.is_closed_by_peer());
  fixture.thread().run_on_loop([&] { fixture.gate().open(); });
  std::string received;
  while (parse_reply(received).bytes == 0) REQUIRE(busy.receive(received));
  CHECK(body_of(parse_reply(received).out) == "/wait/busy 0");
  CHECK(busy.is_closed_by_peer());
  CHECK(drained.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready);
}

TEST_CASE("Only clients of the allowed addresses and networks are served over TCP", "[gateway]") {
  GatewayOptions options;
  options.allowed_clients = NetworkSet::parse({"127.0.0.2", "127.1.0.0/16"}).value();
  Fixture fixture(std::move(options));
  const auto address = [](const char* text) {
    sockaddr_in out{};
    out.sin_family = AF_INET;
    inet_pton(AF_INET, text, &out.sin_addr);
    return out;
  };
  const auto bind_to = [](int fd, const sockaddr_in& to) {
    return bind(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  };
  const int listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in server = address("127.0.0.1");
  REQUIRE(bind_to(listen_fd, server));
  REQUIRE(listen(listen_fd, 16) == 0);
  socklen_t size = sizeof server;
  REQUIRE(getsockname(listen_fd, reinterpret_cast<sockaddr*>(&server), &size) == 0);
  fixture.thread().run_on_loop([&] { fixture.gateway().listen(listen_fd); });
  const auto is_served = [&](const char* from) {
    UnixClient client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(bind_to(client.fd(), address(from)));
    REQUIRE(connect(client.fd(), reinterpret_cast<const sockaddr*>(&server), sizeof server) == 0);
    return fetch_body(client, get_request("/1")) == "/1 0";
  };
  CHECK(is_served("127.0.0.2"));
  CHECK(is_served("127.1.255.3"));
  CHECK_FALSE(is_served("127.0.0.1"));
  CHECK_FALSE(is_served("127.2.0.1"));
  fixture.thread().stop();
  ::close(listen_fd);
}

TEST_CASE("Malformed streams leave the gateway available", "[gateway]") {
  const auto corpus = shared_directory() / "corpora" / "fcgi-malformed";
  if (!std::filesystem::exists(corpus)) {
    std::cout << "SKIPPED: no " << corpus << " (set FRESHET_SHARED)\n";
    return;
  }
  Fixture fixture;
  std::size_t streams = 0;
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
    if (entry.path().extension() != ".bin") continue;
    ++streams;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const std::string name = entry.path().filename().string();
    CAPTURE(name);
    auto hostile = fixture.client();
    hostile.send(bytes);
    auto other = fixture.client();
    CHECK(fetch_body(other, get_request("/alive")) == "/alive 0");
    const bool is_request = name == "00_ok.bin" || name == "10_get_values.bin" || name == "16_pad_255.bin";
    if (is_request) {
      std::string received;
      while (parse_reply(received).bytes == 0) REQUIRE(hostile.receive(received));
      CHECK(parse_reply(received).out.starts_with("Status: 200"));
    } else if (!bytes.empty()) {
      CHECK(hostile.is_closed_by_peer());  // at once, or at the read deadline
    }
  }
  CHECK(streams == 18);
}
