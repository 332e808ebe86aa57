// Entity tags, and when a request gets 304.
#include "fcgi/http/etag.h"

#include <catch2/catch.hpp>

using namespace freshet;
using http::compute_etag;
using http::matches_etag;

namespace {

Response reply(std::string body, std::string headers = "Cache-Control: private, no-store\r\n") {
  Response response;
  response.headers = std::move(headers);
  response.body = std::move(body);
  return response;
}

Response conditional_reply(Response response, std::string_view if_none_match = {}) {
  Request request;
  request.if_none_match = if_none_match;
  http::apply_if_none_match(request, response);
  return response;
}

}  // namespace

TEST_CASE("a tag is strong and differs for every body", "[etag]") {
  CHECK(compute_etag("a") == compute_etag("a"));
  CHECK(compute_etag("a") != compute_etag("b"));
  CHECK(compute_etag({}) == "\"99aa06d3014798d86001c324468d497f\"");  // the value of xxh128sum, on any host
}

TEST_CASE("If-None-Match matches a tag alone, in a list, weak, or as *", "[etag]") {
  for (const char* const matching :
       {"\"x\"", "W/\"x\"", "\"a\", \"x\"", "\"a\",W/\"x\" , \"b\"", "*", "x\"x\""})
    CHECK(matches_etag(matching, "\"x\""));
  for (const char* const other :
       {"", "x", "\"", "\"x", "x\"", "\"xx\"", "\"a,x\"", "\"a\"x\"b\"", "**", "\"*\""})
    CHECK_FALSE(matches_etag(other, "\"x\""));
}

TEST_CASE("a complete reply gets the tag of its body, and is 304 for a client that has it", "[etag]") {
  const Response complete = conditional_reply(reply("{}"));
  CHECK(complete.status == 200);
  CHECK(complete.body == "{}");
  CHECK(complete.headers == "Cache-Control: private, no-store\r\nETag: " + compute_etag("{}") + "\r\n");

  const Response same = conditional_reply(reply("{}"), compute_etag("{}"));
  CHECK(same.status == 304);
  CHECK(same.body.empty());
  CHECK(same.headers == complete.headers);
  CHECK(conditional_reply(reply("{}"), compute_etag("[]")).status == 200);
}

TEST_CASE("a tag set by the handler is kept, also while degraded", "[etag]") {
  const std::string headers = "ETag: \"own\"\r\nFreshet-Degraded: true\r\n";
  CHECK(conditional_reply(reply("[]", headers)).headers == headers);
  CHECK(conditional_reply(reply("[]", headers), "W/\"own\"").status == 304);
  CHECK(conditional_reply(reply("[]", headers), compute_etag("[]")).status == 200);
}

TEST_CASE("an incomplete reply has no tag and is never 304", "[etag]") {
  const std::string degraded = "Freshet-Degraded: true\r\n";
  CHECK(conditional_reply(reply("[]", degraded), "*").status == 200);
  CHECK(conditional_reply(reply("[]", degraded)).headers == degraded);
  CHECK(conditional_reply(reply({}), "*").headers == "Cache-Control: private, no-store\r\n");
  Response queued = reply("{}");
  queued.status = 202;
  CHECK(conditional_reply(queued, "*").headers == queued.headers);
  CHECK(conditional_reply(queued, "*").status == 202);
}
