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

TEST_CASE("a list's tag is its key", "[hot]") {
  CHECK(parse("tag=Machine%20Learning")->query.tag.str() == "machine learning");
  CHECK(parse("tag=lang%3AEN")->query.tag.str() == "lang:en");
  CHECK(test::error_of(parse("tag=" + std::string(65, 'a'))).member == "tag");
}

namespace {

Result<items::Item> parse_body(const std::string& members) {
  std::string text = R"({"title":"t","published_at":1,)" + members + "}";
  json::Document document;
  REQUIRE(document.parse(text));
  return handlers::parse_item(*json::root_object(document), ItemId::trusted("i"), wall_now());
}

std::string list_of(int count, const std::string& tag) {
  std::string out = R"("tags":[)";
  for (int i = 0; i < count; ++i) out += (i > 0 ? ",\"" : "\"") + std::to_string(i) + tag + "\"";
  return out + "]";
}

}  // namespace

TEST_CASE("tags that are equal when folded are one tag, as it was put first", "[items]") {
  const auto item = parse_body(R"("tags":["Machine Learning","machine learning","Ｍachine Learning","Go"])");
  REQUIRE(item);
  CHECK(item->tags == std::vector{TagName::trusted("Machine Learning"), TagName::trusted("Go")});
}

TEST_CASE("an item has up to a hundred tags of 2 KiB together", "[items]") {
  CHECK(parse_body(list_of(100, ""))->tags.size() == 100);
  CHECK(test::error_of(parse_body(list_of(101, ""))).reason == "bad_list");
  CHECK(parse_body(list_of(40, std::string(48, 'a')))->tags.size() == 40);
  const auto large = parse_body(list_of(42, std::string(48, 'a')));
  CHECK(test::error_of(large).reason == "bad_list");
  CHECK(test::error_of(large).member == "tags");
}

TEST_CASE("an author's id is kept as it was put and must have a key", "[items]") {
  CHECK(parse_body(R"("author":"Ann","author_id":"U:1")")->author_id == "U:1");
  CHECK(parse_body(R"("author_id":7)")->author_id == "7");
  for (const char* unset : {R"("author_id":null)", R"("author_id":"")", R"("author":"Ann")"})
    CHECK(parse_body(unset)->author_id.empty());
  for (const char* bad : {R"("author_id":" a")", R"("author_id":"\u200d")", R"("author_id":[])"})
    CHECK(test::error_of(parse_body(bad)).member == "author_id");
}

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
