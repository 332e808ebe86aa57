// Parameters of GET /api/hot.
#include "fcgi/handlers/parse_hot.h"

#include <catch2/catch.hpp>

#include "core/base/time.h"
#include "fcgi/http/target.h"
#include "tests/support/error_of.h"

using namespace freshet;

namespace {

Result<handlers::HotListRequest> parse(const std::string& query) {
  const std::string uri = "/api/hot?" + query;
  const auto target = http::Target::parse(uri);
  REQUIRE(target);
  return handlers::parse_hot(*target, wall_now());
}

}  // namespace

TEST_CASE("a window has the length that its name says", "[hot]") {
  for (const auto& [name, length] : {std::pair{"all", std::chrono::hours{0}},
                                     {"24h", std::chrono::hours{24}},
                                     {"72h", std::chrono::hours{72}},
                                     {"7d", std::chrono::hours{7 * 24}}}) {
    const auto request = parse(std::string("window=") + name);
    INFO(name);
    REQUIRE(request);
    CHECK(request->query.window == length);
  }
  CHECK(parse("")->query.window == seconds{0});
  CHECK(test::error_of(parse("window=48h")).member == "window");
}
