#include "scripts/ctl/replay/replay.h"

#include <poll.h>

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <thread>

#include "scripts/ctl/replay/http_client.h"
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

UnixSeconds at(std::int64_t s) { return UnixSeconds{seconds{s}}; }
}  // namespace

TEST_CASE("a report has the members of its route", "[ctl]") {
  const LogEvent event{at(100), "VIEW", "-34", "7", "s", "agent", 1200};
  CHECK(report_body(Route::kTrack, event, 90, 1, "") ==
        R"({"articleId":"-34","userId":"7","dwellMs":1200,"sessionId":"s","publishedAt":90})");
  CHECK(
      report_body(Route::kTrack, event, 90, 2, "e1") ==
      R"({"articleId":"-34","userId":"7","dwellMs":1200,"sessionId":"s-r2","publishedAt":90,"eventId":"e1"})");
  CHECK(report_body(Route::kViews, event, 90, 1, "e1") ==
        R"({"articleId":"-34","fingerprint":"7","publishedAt":90,"eventId":"e1"})");
}

TEST_CASE("a pause of half an hour ends a derived session, and sessions of the log are kept", "[ctl]") {
  std::vector<LogEvent> events;
  for (const auto& [t, user, session] :
       {std::tuple{0, "a", ""}, {1799, "a", ""}, {1800, "b", ""}, {3599, "a", ""}, {3601, "c", "theirs"}}) {
    events.push_back({at(t), "", "i", user, session, "", 0});
  }
  derive_sessions(events);
  std::vector<std::string> sessions;
  for (const LogEvent& each : events) sessions.push_back(each.session);
  CHECK(sessions == std::vector<std::string>{"a-1", "a-1", "b-1", "a-2", "theirs"});
}

TEST_CASE("the outcome of an event is read from the reply", "[ctl]") {
  CHECK(outcome_of(200, R"({"pv":1,"uv":1,"avg_dwell_ms":0,"score":4})") == ReportOutcome::kCounted);
  CHECK(outcome_of(200, R"({"ok":true,"dedup":true})") == ReportOutcome::kDedup);
  CHECK(outcome_of(200, R"({"pv":0,"counted":false})") == ReportOutcome::kBot);
  CHECK(outcome_of(202, R"({"ok":true,"queued":true})") == ReportOutcome::kQueued);
  CHECK(outcome_of(429, "") == ReportOutcome::kRefused);
  CHECK(outcome_of(503, "") == ReportOutcome::kFailed);
  CHECK(outcome_of(302, "") == ReportOutcome::kFailed);
  CHECK(outcome_of(200, "<html>") == ReportOutcome::kFailed);
}

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
  BlockingHttp http(*parse_http_url(server.url()), milliseconds(200));
  CHECK(freshet::test::error_of(http.exchange({})).detail ==
        server.url() + ": the reply did not arrive in time");
}

TEST_CASE("a reply that does not begin as expected is not received any further", "[ctl]") {
  DrippingServer server;
  BlockingHttp http(*parse_http_url(server.url()), milliseconds(60'000));
  HttpRequest request;
  request.expected_prefix = "model";
  const auto reply = http.exchange(request);
  REQUIRE(reply);
  CHECK(reply->body.starts_with("x"));
  CHECK(reply->body.size() < 1000);
}
