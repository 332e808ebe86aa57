#include "fcgi/observe/access_line.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "fcgi/observe/line_file.h"
#include "fcgi/observe/request_observer.h"
#include "tests/support/error_of.h"
#include "tests/support/unix_socket.h"

using namespace freshet;
using namespace freshet::test;
using namespace freshet::observe;
using namespace std::chrono_literals;

namespace {

std::string render_line(const char* format, const Request& request, const Response& response = {}) {
  const auto pieces = parse_access_format(format);
  REQUIRE(pieces);
  const auto at = std::chrono::system_clock::from_time_t(1'772'798'400);  // 2026-03-06T12:00:00Z
  std::string line;
  append_access_line(line, *pieces,
                     {.request = request,
                      .response = response,
                      .received = at,
                      .written = at + 2s,
                      .duration = 12'345us,
                      .pid = 7,
                      .parent = 3,
                      .peak_memory = 3 * 1024 * 1024,
                      .route = "GET /api/hot"});
  return line;
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("access format letters have PHP-FPM's meaning", "[access]") {
  setenv("TZ", "UTC", 1);
  Request request;
  request.method = Method::kPost;
  request.uri = "/api/hot?limit=5";
  request.remote_addr = "203.0.113.77";
  request.body_bytes = 12;
  request.verified_user = "alice";
  Response response;
  response.status = 202;
  response.headers = "Retry-After: 3\r\nSet-Cookie: secret\r\n";
  CHECK(render_line("%R - %u %t \"%m %r\" %s", request, response) ==
        "203.0.113.0 - - 06/Mar/2026:12:00:00 +0000 \"POST /api/hot\" 202");
  CHECK(render_line("%d %{milli}d %{micro}d", request) == "0.012 12.345 12345");
  CHECK(render_line("%{seconds}d %{milliseconds}d %{microseconds}d", request) == "0.012 12.345 12345");
  CHECK(render_line("%M %{kilo}M %{mega}M", request) == "3145728 3072 3");
  CHECK(render_line("%r%Q%q %l %n %p %P %%", request) == "/api/hot?limit=5 12 freshet 7 3 %");
  CHECK(render_line("%{%H:%M:%S}t %{%S}T", request) == "12:00:00 02");
  CHECK(render_line("%C %f", request) == "- -");
  CHECK(render_line("%{Retry-After}o %{retry-after}o %{X-None}o %{Content-Type}o", request, response) ==
        "3 3 - application/json");
  CHECK(render_line("%{REQUEST_METHOD}e %{QUERY_STRING}e %{REMOTE_ADDR}e %{NONE}e", request) ==
        "POST limit=5 203.0.113.0 -");
  request.uri = "/plain";
  CHECK(render_line("%r|%Q|%q", request) == "/plain||");
}

TEST_CASE("Freshet's own letters show time in Redis and which request it was", "[access]") {
  Request request;
  request.trace.redis_time = 1500us;
  request.trace.round_trips = 2;
  request.request_id = "abc";
  request.zone = Zone::kInternal;
  CHECK(render_line("%{redis_ms}x %{round_trips}x %{route}x %{request_id}x %{zone}x", request) ==
        "1.500 2 GET /api/hot abc internal");
}

TEST_CASE("reader names are logged only if the format asks for them, and secrets never", "[access]") {
  Request request;
  request.verified_user = "alice";
  request.uri = "/api/feed?userId=alice";
  Response response;
  response.headers = "Set-Cookie: alice\r\n";
  CHECK(render_line("%u %r %{Set-Cookie}o", request, response) == "- /api/feed -");
  CHECK(render_line("%{id}u", request) == "alice");
  CHECK_FALSE(parse_access_format("%{HTTP_COOKIE}e"));
  CHECK_FALSE(parse_access_format("%{HTTP_AUTHORIZATION}e"));
}

TEST_CASE("addresses are truncated to networks", "[access]") {
  CHECK(truncate_address("203.0.113.77") == "203.0.113.0");
  CHECK(truncate_address("2001:db8:aaaa:bbbb:cccc::1") == "2001:db8:aaaa::");
  CHECK(truncate_address("::ffff:203.0.113.77") == "::ffff:203.0.113.0");
  CHECK(truncate_address("unix:") == "-");
  CHECK(truncate_address("") == "-");
}

TEST_CASE("a client cannot end a line or a quoted field", "[access]") {
  Request request;
  request.uri = "/a\nb\"c\\d\x7f\xc3\xa9";
  request.user_agent = "x\r\ny";
  CHECK(render_line("\"%r\" %{HTTP_USER_AGENT}e", request) ==
        "\"/a\\x0Ab\\x22c\\x5Cd\\x7F\\xC3\\xA9\" x\\x0D\\x0Ay");
}

TEST_CASE("an unknown letter in a format is refused with a reason", "[access]") {
  for (const char* format :
       {"%y", "%", "%{", "%{a", "%{}t", "%e", "%o", "%{fast}d", "%{none}x", "%x", "%{a}m", "%{a}%"}) {
    CAPTURE(format);
    const auto parsed = parse_access_format(format);
    REQUIRE_FALSE(parsed);
    CHECK(error_of(parsed).reason == "bad_access_format");
    CHECK_FALSE(error_of(parsed).detail.empty());
  }
  CHECK(parse_access_format(""));
  CHECK(parse_access_format("no letters"));
}

TEST_CASE("a log file contains whole lines, and a new file is started after rotation", "[access]") {
  test::TemporaryDirectory directory;
  const auto path = directory.path() / "access.log";
  LineFile file(path.string(), LineFile::Buffering::kLines);
  REQUIRE(file.is_open());
  file.append("one");
  CHECK(contents(path).empty());
  file.flush();
  CHECK(contents(path) == "one\n");
  file.append("two");
  std::filesystem::rename(path, directory.path() / "old");
  file.reopen();
  file.append("three");
  file.flush();
  CHECK(contents(directory.path() / "old") == "one\ntwo\n");
  CHECK(contents(path) == "three\n");
  const std::string long_line(40'000, 'x');
  file.append(long_line);
  file.append(long_line);  // the first one is written when both do not fit
  CHECK(contents(path) == "three\n" + long_line + "\n");
}

TEST_CASE("a log file that cannot be opened affects no request", "[access]") {
  LineFile file("/nonexistent/folder/access.log", LineFile::Buffering::kNone);
  CHECK_FALSE(file.is_open());
  file.append("lost");
  file.reopen();
  CHECK_FALSE(file.is_open());
}

TEST_CASE("an access line has its request's times and the worker's process ids", "[access]") {
  const test::TemporaryDirectory directory;
  RequestLogSettings settings;
  settings.access_log = (directory.path() / "access.log").string();
  settings.access_format = "%{%s}t %{%s}T %d %p %P %M %{route}x";
  Scoreboard board(1);
  board.set_route_name(1, "GET /api/hot");
  board.slots()[0].state = WorkerState::kReady;
  board.slots()[0].peak_rss_bytes = 4242;
  RequestObserver observer(settings, board, board.slots()[0], {});
  Request request;
  request.first_byte_at = RequestObserver::Clock::now();
  request.trace.route = 1;
  observer.on_answered(request, Response(), request.first_byte_at + 5s);
  observer.flush();
  std::istringstream line(contents(settings.access_log));
  long long received = 0, written = 0;
  std::string rest;
  line >> received >> written;
  std::getline(line, rest);
  CHECK(written - received == 5);
  CHECK(rest ==
        " 5.000 " + std::to_string(getpid()) + " " + std::to_string(getppid()) + " 4242 GET /api/hot");
  CHECK(board.totals().routes[1].status[1] == 1);
  CHECK(board.totals().routes[1].latency.count() == 1);
}
