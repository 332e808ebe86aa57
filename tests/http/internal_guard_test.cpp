#include "fcgi/http/internal_guard.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace freshet;
using namespace freshet::http;

namespace {

const std::vector<std::string> kHosts{"localhost", "feed.internal"};

std::string_view rejection_reason(const Request& request,
                                  InternalResource resource = InternalResource::kData) {
  const auto checked = check_internal_request(request, kHosts, resource);
  return checked ? "" : checked.error().reason;
}

Request request_to(std::string_view site, std::string_view origin = {}, std::string_view fetch = {}) {
  Request request;
  request.zone = Zone::kInternal;
  request.remote_addr = "127.0.0.1";
  request.site = site;
  request.origin = origin;
  request.sec_fetch_site = fetch;
  return request;
}

}  // namespace

TEST_CASE("the internal server accepts its listed names, IP addresses and unix sockets", "[internal_guard]") {
  for (const char* site :
       {"http://localhost", "http://localhost:8081", "http://LOCALHOST:8081", "http://feed.internal:80",
        "http://127.0.0.1:8081", "http://127.7.8.9", "http://192.0.2.7:8081", "http://[::1]:8081",
        "http://[2001:db8::1]", "http://", ""})
    CHECK(rejection_reason(request_to(site)) == "");
  for (const char* site : {"http://evil.example",
                           "http://evil.example:8081",
                           "http://localhost.evil.example",
                           "http://127.0.0.1.evil.example:8081",
                           "http://feed",
                           "http://127.1",
                           "http://[evil]",
                           "http://[::1].evil.example",
                           "http://[::1]evil.example",
                           "http://[::1",
                           "http://[",
                           "http://[]",
                           "http://[localhost]",
                           "http://[127.0.0.1]",
                           "http://127.0.0.1:@evil.example",
                           "http://127.0.0.1:80@evil.example",
                           "http://127.0.0.1:",
                           "http://127.0.0.1:123456",
                           "http://localhost:8081:8081",
                           "http://:8081",
                           "http://::1",
                           "http://localhost:-1"})
    CHECK(rejection_reason(request_to(site)) == "unknown_host");
  Request through_socket = request_to("http://anything", "http://evil.example", "cross-site");
  through_socket.remote_addr = "unix:";
  CHECK(rejection_reason(through_socket) == "");
}

TEST_CASE("health checks are answered under any host name, the status page is not", "[internal_guard]") {
  CHECK(rejection_reason(request_to("http://balancer"), InternalResource::kHealth) == "");
  CHECK(rejection_reason(request_to("http://balancer"), InternalResource::kPage) == "unknown_host");
}

TEST_CASE("pages of other sites get nothing from the internal server, its own pages do", "[internal_guard]") {
  constexpr std::string_view kSite = "http://127.0.0.1:8081";
  CHECK(rejection_reason(request_to(kSite, kSite, "same-origin")) == "");
  for (const char* origin : {"https://evil.example", "http://127.0.0.1:8080", "http://localhost:8081",
                             "https://127.0.0.1:8081", "null"}) {
    CHECK(rejection_reason(request_to(kSite, origin)) == "foreign_origin");
    CHECK(rejection_reason(request_to(kSite, origin), InternalResource::kPage) == "foreign_origin");
  }
  CHECK(rejection_reason(request_to(kSite, {}, "cross-site")) == "foreign_origin");
  for (const char* fetch : {"none", "same-origin", "same-site"})
    CHECK(rejection_reason(request_to(kSite, {}, fetch)) == "");
}

TEST_CASE("a link on another site may lead to the status page", "[internal_guard]") {
  CHECK(rejection_reason(request_to("http://127.0.0.1:8081", {}, "cross-site"), InternalResource::kPage) ==
        "");
}
