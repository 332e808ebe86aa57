#include "fcgi/http/router.h"

#include <array>
#include <catch2/catch.hpp>

#include "fcgi/http/cors.h"
#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;
using namespace freshet::http;
using Outcome = Match::Outcome;

namespace {

constexpr std::array kRoutes{
    Route{Method::kPost, "/api/track", Zone::kPublic, 16384, 0},
    Route{Method::kGet, "/api/hot", Zone::kPublic, 0, 1},
    Route{Method::kGet, "/api/items/{id}", Zone::kInternal, 0, 2},
    Route{Method::kPut, "/api/items/{id}", Zone::kInternal, 16384, 3},
    Route{Method::kGet, "/api/items/{id}/similar", Zone::kPublic, 0, 4},
    Route{Method::kGet, "/api/waterfall/{channel}", Zone::kPublic, 0, 5},
    Route{Method::kPost, "/api/waterfall/{channel}", Zone::kInternal, 16384, 6},
    Route{Method::kDelete, "/api/waterfall/{channel}/{itemId}", Zone::kInternal, 0, 7},
    Route{Method::kGet, "/api/items/new", Zone::kPublic, 0, 8},
    Route{Method::kGet, "/ping", Zone::kInternal, 0, 9},
};

const Router& router() {
  static const Router instance(kRoutes);
  return instance;
}

Match match_route(Method method, std::string_view path, Zone zone = Zone::kPublic) {
  INFO(path);
  auto match = router().match(method, path, zone);
  REQUIRE(match);
  return *match;
}

int handler_of(const Match& match) {
  return match.outcome == Outcome::kRoute ? kRoutes[match.route].handler : -1;
}

Response preflight(std::string_view origin, std::string_view path, std::vector<std::string> origins) {
  const Request request{.method = Method::kOptions, .origin = origin};
  return Cors(std::move(origins)).options_response(request, match_route(Method::kOptions, path));
}

}  // namespace

TEST_CASE("method and path select a route", "[router]") {
  CHECK(handler_of(match_route(Method::kPost, "/api/track")) == 0);
  CHECK(handler_of(match_route(Method::kGet, "/api/hot")) == 1);
  CHECK(handler_of(match_route(Method::kPut, "/api/items/7", Zone::kInternal)) == 3);
  CHECK(handler_of(match_route(Method::kGet, "/api/items/7/similar")) == 4);
  CHECK(handler_of(match_route(Method::kGet, "/ping", Zone::kInternal)) == 9);
}

TEST_CASE("a path is split at raw slashes, then its parameters are decoded once", "[router]") {
  const Match slash = match_route(Method::kGet, "/api/items/a%2Fb/similar");
  CHECK(handler_of(slash) == 4);
  CHECK(slash.parameters[0] == "a/b");
  CHECK(match_route(Method::kGet, "/api/items/a%252Fb/similar").parameters[0] == "a%2Fb");
  CHECK(match_route(Method::kGet, "/api/items/a+b/similar").parameters[0] == "a+b");
  CHECK(match_route(Method::kGet, "/api/items/文/similar").parameters[0] == "文");
  CHECK(match_route(Method::kGet, "/api/items/../similar").parameters[0] == "..");
  const Match two = match_route(Method::kDelete, "/api/waterfall/news/42", Zone::kInternal);
  CHECK(handler_of(two) == 7);
  CHECK(two.parameters[0] == "news");
  CHECK(two.parameters[1] == "42");
}

TEST_CASE("an escape in a literal segment equals the character it encodes", "[router]") {
  CHECK(handler_of(match_route(Method::kGet, "/api/%68ot")) == 1);
  CHECK(handler_of(match_route(Method::kGet, "/%61pi/items/7/similar")) == 4);
  CHECK(match_route(Method::kGet, "/api%2Fhot").outcome == Outcome::kNotFound);
}

TEST_CASE("a bad escape in a path is an error", "[router]") {
  for (const char* path : {"/api/items/%/similar", "/api/items/%4/similar", "/api/%zzot", "/api/items/%gg"}) {
    INFO(path);
    const auto match = router().match(Method::kGet, path, Zone::kInternal);
    REQUIRE_FALSE(match);
    CHECK(error_of(match).reason == "bad_target");
  }
}

TEST_CASE("a path that is not in the table is not found", "[router]") {
  for (const char* path :
       {"/", "", "api/hot", "/api", "/api/", "/api/hot/", "/api//hot", "//api/hot", "/api/hotter", "/API/HOT",
        "/api/items//similar", "/api/items/7/similar/x", "/api/items/7/other", "/api/waterfall/"})
    CHECK(match_route(Method::kGet, path, Zone::kInternal).outcome == Outcome::kNotFound);
}

TEST_CASE("a literal segment beats a parameter, regardless of their order in the table", "[router]") {
  CHECK(handler_of(match_route(Method::kGet, "/api/items/new")) == 8);
  CHECK(handler_of(match_route(Method::kGet, "/api/items/ne%77")) == 8);
  CHECK(handler_of(match_route(Method::kGet, "/api/items/newer", Zone::kInternal)) == 2);
}

TEST_CASE("an internal route does not exist for public requests", "[router]") {
  CHECK(match_route(Method::kGet, "/ping").outcome == Outcome::kNotFound);
  CHECK(match_route(Method::kGet, "/api/items/7").outcome == Outcome::kNotFound);
  CHECK(match_route(Method::kOptions, "/api/items/7").outcome == Outcome::kNotFound);
  CHECK(match_route(Method::kDelete, "/api/waterfall/news/42").outcome == Outcome::kNotFound);
}

TEST_CASE("a wrong method gets the list of those that this server allows", "[router]") {
  const Match post = match_route(Method::kPost, "/api/waterfall/news");
  CHECK(post.outcome == Outcome::kMethodNotAllowed);
  CHECK(post.allow == "GET, HEAD, OPTIONS");
  CHECK(handler_of(match_route(Method::kPost, "/api/waterfall/news", Zone::kInternal)) == 6);
  const Match del = match_route(Method::kDelete, "/api/waterfall/news", Zone::kInternal);
  CHECK(del.outcome == Outcome::kMethodNotAllowed);
  CHECK(del.allow == "GET, HEAD, POST, OPTIONS");
  CHECK(match_route(Method::kGet, "/api/track").allow == "POST, OPTIONS");
  CHECK(match_route(Method::kOther, "/api/hot").outcome == Outcome::kMethodNotAllowed);
}

TEST_CASE("HEAD works where GET does, and nowhere else", "[router]") {
  CHECK(handler_of(match_route(Method::kHead, "/api/hot")) == 1);
  CHECK(handler_of(match_route(Method::kHead, "/api/items/7/similar")) == 4);
  CHECK(match_route(Method::kHead, "/api/track").outcome == Outcome::kMethodNotAllowed);
}

TEST_CASE("a preflight from a listed origin is 204 with the allowed methods", "[cors]") {
  const Response response = preflight("https://www.example.org", "/api/track", {"https://www.example.org"});
  CHECK(response.status == 204);
  CHECK(response.body.empty());
  CHECK(response.headers.find("Access-Control-Allow-Methods: POST, OPTIONS\r\n") != std::string::npos);
  CHECK(response.headers.find("Access-Control-Allow-Origin") == std::string::npos);  // add_cors_headers()
}

TEST_CASE("a preflight from another origin is 403 and allows no origin", "[cors]") {
  for (const char* origin : {"https://evil.example", "https://www.example.org.evil.example",
                             "http://www.example.org", "null", "*", "https://www.example.org:8443"}) {
    INFO(origin);
    const Response response = preflight(origin, "/api/track", {"https://www.example.org", "*", "null"});
    CHECK(response.status == 403);
    CHECK(response.headers.find("Access-Control") == std::string::npos);
  }
  CHECK(preflight("https://www.example.org", "/api/track", {}).status == 403);
}

TEST_CASE("OPTIONS without an origin lists the methods", "[cors]") {
  const Response response = preflight("", "/api/hot", {});
  CHECK(response.status == 204);
  CHECK(response.headers == "Allow: GET, HEAD, OPTIONS\r\n");
}

TEST_CASE("only pages of listed origins can read a reply, and Vary tells caches", "[cors]") {
  const Cors cors({"https://www.example.org"});
  const auto decorated = [&](std::string_view origin) {
    Response response;
    cors.add_cors_headers(Request{.origin = origin}, response);
    return response.headers;
  };
  CHECK(decorated("https://WWW.example.org").find("Access-Control-Allow-Origin") != std::string::npos);
  CHECK(decorated("https://evil.example") == "Vary: Origin\r\n");
  CHECK(decorated("") == "Vary: Origin\r\n");
  Response plain;
  Cors({}).add_cors_headers(Request{.origin = "https://www.example.org"}, plain);
  CHECK(plain.headers.empty());
}

TEST_CASE("the error about a foreign page names both origins that were compared", "[cors]") {
  const Request behind_proxy{
      .origin = "https://www.example.org", .site = "http://backend:8080", .forwarded_proto = "https"};
  CHECK(describe_origins(behind_proxy, false) ==
        "the page's origin is https://www.example.org, but the request's is http://backend:8080");
  CHECK(describe_origins(behind_proxy, true) ==
        "the page's origin is https://www.example.org, but the request's is https://backend:8080");
  for (const auto& [origin, site] : {std::pair{"https://www.example.org", "http://www.example.org"},
                                     {"https://www.example.org:443", "http://www.example.org:80"},
                                     {"https://[::1]:8443", "http://[::1]:8443"},
                                     {"http://www.example.org", "https://WWW.example.org"}})
    CHECK(origin_advice({.origin = origin, .site = site}).find("X-Forwarded-Proto") != std::string::npos);
  CHECK(origin_advice(behind_proxy) == "a proxy must pass Host");
  CHECK(origin_advice({.origin = "null", .site = "http://a"}) == "a proxy must pass Host");
  CHECK(describe_origins({.origin = "null", .site = "http://"}, false) ==
        "the page's origin is null, but the request's is unknown (no Host)");
  const std::string long_host(5000, 'a');
  const std::string origin = "http://" + long_host;
  CHECK(describe_origins({.origin = origin, .site = origin}, false).size() < 500);
}

TEST_CASE("a header value cannot split its line", "[response]") {
  Response response;
  response.add_header("X-A", "b\r\nSet-Cookie: c\x7f\0");
  CHECK(response.headers == "X-A: bSet-Cookie: c\r\n");
}

TEST_CASE("a page of this site or of a listed origin is not foreign, any other page is", "[cors]") {
  const Cors cors({"https://www.example.org"}), behind_proxy({}, true);
  const auto foreign = [&](std::string_view origin, std::string_view site) {
    INFO(origin << " at " << site);
    return cors.is_foreign({.origin = origin, .site = site});
  };
  const auto foreign_behind_proxy = [&](std::string_view origin, std::string_view forwarded_proto) {
    return behind_proxy.is_foreign(
        {.origin = origin, .site = "http://hot.example", .forwarded_proto = forwarded_proto});
  };
  CHECK_FALSE(foreign("", "https://hot.example"));
  CHECK_FALSE(foreign("https://www.example.org", "https://hot.example"));
  // A default port may be written or not.
  for (const char* site : {"http://hot.example", "http://HOT.example:80"}) {
    for (const char* origin : {"http://hot.example", "http://hot.example:80"})
      CHECK_FALSE(foreign(origin, site));
    for (const char* origin : {"https://hot.example", "https://hot.example:443", "https://hot.example:80"})
      CHECK(foreign(origin, site));
  }
  // TLS may end at a trusted proxy.
  CHECK_FALSE(foreign_behind_proxy("https://hot.example", "https"));
  CHECK(foreign_behind_proxy("http://hot.example", "https"));
  CHECK_FALSE(foreign_behind_proxy("http://hot.example", "http"));
  CHECK(foreign_behind_proxy("https://hot.example", "http"));
  CHECK(cors.is_foreign(
      {.origin = "https://hot.example", .site = "http://hot.example", .forwarded_proto = "https"}));
  for (const char* site : {"https://hot.example", "https://HOT.example:443"}) {
    for (const char* origin : {"https://hot.example", "https://hot.example:443"})
      CHECK_FALSE(foreign(origin, site));
    CHECK(foreign("http://hot.example", site));
    for (const char* origin :
         {"null", "https://evil.example", "https://hot.example.evil.example", "https://hot.example:8443",
          "https://xhot.example", "hot.example", "https://", "://hot.example", "https://hot.example:80",
          "https://hot.example/", "https://hot.example@evil.example"})
      CHECK(foreign(origin, site));
  }
  CHECK_FALSE(foreign("http://127.0.0.1:8080", "http://127.0.0.1:8080"));
  CHECK_FALSE(foreign("http://[::1]:8080", "http://[::1]:8080"));
  CHECK(foreign("http://127.0.0.1:8080", "http://127.0.0.1:8081"));
  CHECK(foreign("http://127.0.0.1:8080", "http://127.0.0.1"));
  // nginx without FRESHET_SITE, or a request without Host.
  CHECK(foreign("https://hot.example", ""));
  CHECK(foreign("http://", "http://"));
}

TEST_CASE("each method has its name", "[router]") {
  CHECK(method_name(Method::kGet) == "GET");
  CHECK(method_name(Method::kHead) == "HEAD");
  CHECK(method_name(Method::kPost) == "POST");
  CHECK(method_name(Method::kPut) == "PUT");
  CHECK(method_name(Method::kDelete) == "DELETE");
  CHECK(method_name(Method::kOther).empty());
}
