#include "fcgi/http/problem.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <regex>
#include <set>

#include "core/base/json.h"
#include "tests/support/shared_files.h"

using namespace freshet;
using namespace freshet::http;

namespace {

std::string member(const Response& response, std::string_view name) {
  std::string text = response.body;
  json::Document document;
  REQUIRE(document.parse(text));
  const auto value = document.root()[name];
  if (value.is_string()) return std::string(value.text());
  return value.is_missing() ? "(absent)" : std::to_string(value.integer().value());
}

bool has_line(const Response& response, const std::string& line) {
  return response.headers.find(line + "\r\n") != std::string::npos;
}

}  // namespace

TEST_CASE("an invalid request gets an explanation and the member at fault", "[problem]") {
  const Response response =
      problem({ErrorCode::kInvalid, "bad_id", "articleId", "an id must not contain white space"});
  CHECK(response.status == 400);
  CHECK(response.content_type == "application/problem+json");
  CHECK(
      response.body ==
      R"({"type":"urn:freshet:problem:bad_id","title":"An id is missing or malformed","status":400,)"
      R"("detail":"an id must not contain white space","code":"bad_id","msg":"articleId: an id must not contain white space",)"
      R"("member":"articleId"})");
  CHECK(has_line(response, "Cache-Control: no-store"));
}

TEST_CASE("each error code has its HTTP status", "[problem]") {
  CHECK(http_status(ErrorCode::kInvalid) == 400);
  CHECK(http_status(ErrorCode::kUnauthorised) == 401);
  CHECK(http_status(ErrorCode::kForbidden) == 403);
  CHECK(http_status(ErrorCode::kNotFound) == 404);
  CHECK(http_status(ErrorCode::kConflict) == 409);
  CHECK(http_status(ErrorCode::kTooLarge) == 413);
  CHECK(http_status(ErrorCode::kRateLimited) == 429);
  CHECK(http_status(ErrorCode::kUnavailable) == 503);
  CHECK(http_status(ErrorCode::kUnknownOutcome) == 503);
  CHECK(http_status(ErrorCode::kInternal) == 500);
}

TEST_CASE("a body of the wrong type is 415, also in the document", "[problem]") {
  const Response response = problem({ErrorCode::kInvalid, "bad_content_type", {}, "application/json"});
  CHECK(response.status == 415);
  CHECK(response.body.find(R"("status":415,"detail":"application/json","code":"bad_content_type")") !=
        std::string::npos);
}

TEST_CASE("503 and 429 say when to retry, 401 how to authenticate", "[problem]") {
  CHECK(has_line(problem({ErrorCode::kUnavailable, "redis_unavailable", {}, {}}), "Retry-After: 1"));
  CHECK(has_line(problem({ErrorCode::kUnknownOutcome, "redis_timeout", {}, {}}), "Retry-After: 1"));
  CHECK(has_line(problem({ErrorCode::kRateLimited, "rate_limited", {}, {}}, seconds{30}), "Retry-After: 30"));
  CHECK(has_line(problem({ErrorCode::kUnavailable, "busy", {}, {}}, seconds{0}), "Retry-After: 1"));
  CHECK(has_line(problem({ErrorCode::kUnauthorised, "bad_token", {}, {}}), "WWW-Authenticate: Bearer"));
  for (const char* reason : {"bad_signature", "stale_signature"})
    CHECK(has_line(problem({ErrorCode::kUnauthorised, reason, {}, {}}),
                   "WWW-Authenticate: Freshet-HMAC-SHA256"));
  CHECK_FALSE(has_line(problem({ErrorCode::kInvalid, "bad_id", {}, {}}), "Retry-After: 1"));
}

TEST_CASE("details for the log are not served", "[problem]") {
  for (const ErrorCode code :
       {ErrorCode::kInternal, ErrorCode::kUnavailable, ErrorCode::kUnknownOutcome, ErrorCode::kRateLimited}) {
    const Response response = problem({code, "bad_id", "secret_member", "secret detail"});
    CHECK(response.body.find("secret") == std::string::npos);
  }
  CHECK(member(problem({ErrorCode::kInternal, "redis_type", {}, {}}), "code") == "internal");
  CHECK(member(problem({ErrorCode::kInternal, "bad_id", {}, {}}), "code") == "internal");
  CHECK(member(problem({ErrorCode::kUnavailable, "redis_noauth", {}, {}}), "code") == "unavailable");
  CHECK(member(problem({ErrorCode::kUnavailable, "spool_full", {}, {}}), "code") == "spool_full");
}

TEST_CASE("untrusted text is escaped", "[problem]") {
  const Response response = problem({ErrorCode::kInvalid, "bad_string", "a\"b\n\xFF", "x\\\r\ny"});
  CHECK(member(response, "detail") == "x\\\r\ny");
  CHECK(member(response, "member") == "a\"b\n\uFFFD");
  CHECK(response.headers == "Cache-Control: no-store\r\n");
}

TEST_CASE("the router's 404 and 405 are problems, too", "[problem]") {
  CHECK(no_such_route().status == 404);
  CHECK(member(no_such_route(), "code") == "no_route");
  const Response response = method_not_allowed("GET, HEAD");
  CHECK(response.status == 405);
  CHECK(member(response, "code") == "method_not_allowed");
  CHECK(has_line(response, "Allow: GET, HEAD"));
}

TEST_CASE("the codes are sorted and unique", "[problem]") {
  CHECK(std::ranges::adjacent_find(problem_types(), std::greater_equal<>{}, &ProblemType::code) ==
        problem_types().end());
}

// Codes that occur only at startup or in tools are defined elsewhere: core/config, fcgi/process,
// core/redis.
TEST_CASE("every code that a client can receive is in the table", "[problem]") {
  const std::regex given(
      R"re((?:ErrorCode::k(?:Invalid|Unauthorised|Forbidden|NotFound|Conflict|TooLarge), |invalid\()"([a-z_]+)")re");
  const std::set<std::string> at_start{"weak_key", "bad_key_id", "bad_pattern", "bad_clients"};
  const std::filesystem::path root(FRESHET_SOURCE_DIR);
  std::vector<std::filesystem::path> files{root / "core/base/ids.cpp", root / "core/base/json.cpp",
                                           root / "core/base/json_members.cpp", root / "core/base/time.cpp"};
  for (const char* folder : {"fcgi/http", "fcgi/handlers", "core/hot", "core/feed", "core/items",
                             "core/readers", "core/recommend", "core/timeline", "core/search"}) {
    for (const auto& file : test::files_in(root / folder)) {
      if (file.extension() == ".cpp" || file.extension() == ".h") files.push_back(file);
    }
  }
  std::size_t count = 0;
  for (const auto& file : files) {
    const std::string text = test::read_file(file);
    for (auto at = std::sregex_iterator(text.begin(), text.end(), given); at != std::sregex_iterator();
         ++at) {
      const std::string reason = (*at)[1];
      if (at_start.count(reason) == 1) continue;
      INFO(file << ": " << reason);
      ++count;
      CHECK(std::ranges::count(problem_types(), reason, &ProblemType::code) == 1);
    }
  }
  CHECK(count > 10);
}
