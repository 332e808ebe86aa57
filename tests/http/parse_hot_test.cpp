// Parameters of GET /api/hot, and the members of an item.
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
  return handlers::parse_hot(*target, wall_now(), Settings());
}

constexpr UnixSeconds kPublished{seconds{1700000000}};

// An item with these members next to those that are required.
Result<items::Item> parse_item(const std::string& members) {
  std::string text =
      R"({"title":"t","published_at":1700000000)" + (members.empty() ? "" : "," + members) + "}";
  INFO(text);
  json::Document document;
  REQUIRE(document.parse(text));
  return handlers::parse_item(document.root(), ItemId::trusted("a"), wall_now());
}

void check_rejected(const std::string& members, std::string_view reason, const std::string& member) {
  INFO(members);
  const auto item = parse_item(members);
  REQUIRE_FALSE(item);
  CHECK(test::error_of(item).reason == reason);
  CHECK(test::error_of(item).member == member);
}

}  // namespace

TEST_CASE("a past moment is accepted for 14 days where it is supported", "[hot]") {
  const UnixSeconds now{seconds{1'700'000'000}};
  const auto parse_at = [&](std::int64_t offset, handlers::PastMoments past) {
    const std::string uri = "/api/hot?model=views&at=" + std::to_string(unix_s(now) + offset);
    const auto target = http::Target::parse(uri);
    REQUIRE(target);
    return handlers::parse_hot(*target, now, Settings(), past);
  };
  using enum handlers::PastMoments;
  CHECK(test::error_of(parse_at(-3600, kReject)).reason == "bad_time");
  const auto past = parse_at(-3600, kAccept);
  REQUIRE(past);
  CHECK(past->is_past);
  CHECK(past->at == now - seconds{3600});
  CHECK(parse_at(-14 * 86400, kAccept)->is_past);
  CHECK(test::error_of(parse_at(-14 * 86400 - 1, kAccept)).reason == "bad_time");
  CHECK(test::error_of(parse_at(-3, kAccept)).member == "at");  // now: not with accumulated scores
  CHECK(test::error_of(parse_at(3600, kAccept)).reason == "bad_parameter");
}

TEST_CASE("ids are repeated parameters, which may contain commas, or a list", "[hot]") {
  const auto parse_ids = [](const std::string& query) {
    const std::string uri = "/api/stats?" + query;
    const auto target = http::Target::parse(uri);
    REQUIRE(target);
    return handlers::parse_ids(*target);
  };
  const auto ids = [](std::initializer_list<const char*> texts) {
    std::vector<ItemId> out;
    for (const char* text : texts) out.push_back(ItemId::trusted(text));
    return out;
  };
  CHECK(parse_ids("ids=a,b,a") == ids({"a", "b"}));
  CHECK(parse_ids("id=a%2Cb&id=c") == ids({"a,b", "c"}));
  CHECK(parse_ids("id=a,b&ids=a,b&id=b") == ids({"a", "b", "a,b"}));
  std::string hundred;
  for (int i = 0; i < 100; ++i) hundred += "id=" + std::to_string(i) + "&";
  CHECK(parse_ids(hundred)->size() == 100);
  for (const auto& [query, member] : {std::pair{std::string("ids="), "ids"},
                                      {"", "ids"},
                                      {"ids=a,", "ids"},
                                      {"ids=,a", "ids"},
                                      {"id=", "id"},
                                      {hundred + "id=x", "id"}}) {
    INFO(query);
    CHECK(test::error_of(parse_ids(query)).member == member);
  }
}

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

TEST_CASE("white space in tags is cleaned as it is in titles, rather than refused", "[items]") {
  const auto item = parse_body(R"("tags":["New\u00a0York","東京\u3000大学"," News","New York"])");
  REQUIRE(item);
  CHECK(item->tags ==
        std::vector{TagName::trusted("New York"), TagName::trusted("東京 大学"), TagName::trusted("News")});
  CHECK(parse("tag=New%C2%A0York")->query.tag.str() == "new york");
}

TEST_CASE("every author that an item may have can be followed under the name shown", "[items]") {
  for (const std::string name : {"東京\u3000太郎", "Ann\u00a0Lee", "\u200eAnn", "Donau\u00addampf", " Ann ",
                                 R"(Ann\tLee)", "Ann\u2028Lee", "\u00a8x"}) {
    INFO(name);
    const auto item = parse_body(R"("author":")" + name + "\"");
    REQUIRE(item);
    const auto followed = AuthorId::parse(item->author, "author");
    REQUIRE(followed);
    std::string buffer;
    CHECK(author_key(item->author_id, item->author, buffer) == followed->view());
  }
  for (const char* none :
       {R"("author":"  ")", R"("author":"\u200b")", R"("author":"\u3000","author_id":"u1")"})
    CHECK(parse_body(none)->author.empty());
  // 170 letters that fold to 33 bytes each.
  std::string grows;
  for (int i = 0; i < 170; ++i) grows += "\xEF\xB7\xBA";
  CHECK(test::error_of(parse_body(R"("author":")" + grows + "\"")).member == "author");
  CHECK(parse_body(R"("author_id":"u1","author":")" + grows + "\"")->author == grows);
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

TEST_CASE("the optional members of an item are parsed, and absent ones have their defaults", "[items]") {
  const auto full =
      parse_item(R"("section":"Sp\u00f6rt\tnews","language":"pt-BR","story":17,"text_format":"html",)"
                 R"("expires_at":"2023-11-15","weight":2.5)");
  REQUIRE(full);
  CHECK(full->section == "Spört news");
  CHECK(full->language == "pt-BR");
  CHECK(full->story.view() == "17");
  CHECK(full->text_format == items::TextFormat::kHtml);
  CHECK(full->expires_at == UnixSeconds{seconds{1700006400}});
  CHECK(full->weight == 2.5);
  for (
      const char* members :
      {"",
       R"("section":null,"language":null,"story":null,"text_format":null,"expires_at":null,"weight":null)",
       R"("section":"","language":"","story":"","text_format":"plain","expires_at":"0000-00-00 00:00:00")"}) {
    items::Item plain;
    plain.id = ItemId::trusted("a");
    plain.title = "t";
    plain.published_at = kPublished;
    CHECK(parse_item(members).value() == plain);
  }
}

TEST_CASE("a section has at most 64 characters, however long they are in bytes", "[items]") {
  for (const std::string letter : {"x", "é", "文", "🙂"}) {
    std::string text;
    for (int i = 0; i < 64; ++i) text += letter;
    CHECK(parse_item(R"("section":")" + text + "\"")->section == text);
    check_rejected(R"("section":")" + text + letter + "\"", "bad_string", "section");
  }
  check_rejected(R"("section":"a\u0007")", "bad_string", "section");
  check_rejected(R"("section":7)", "bad_string", "section");
}

TEST_CASE("a language is a well-formed BCP 47 tag", "[items]") {
  for (const std::string tag : {"en", "EN", "de-CH", "zh-Hant-TW", "es-419", "sl-rozaj-biske-1994", "gsw",
                                "de-CH-x-phonebk", "en-a-bbb-x-a-ccc"})
    CHECK(parse_item(R"("language":")" + tag + "\"")->language == tag);
  for (const std::string text :
       {"e", "e-US", "en_US", "en-", "-en", "en--US", "12", "e1", "english (US)", "abcdefghi", "en-abcdefghi",
        "en US", "日本", "en-aaaaaaaa-bbbbbbbb-cccccccc-dddddddd"})
    check_rejected(R"("language":")" + text + "\"", "bad_string", "language");
  check_rejected(R"("language":["en"])", "bad_string", "language");
}

TEST_CASE("an item's format, end, weight and story are checked", "[items]") {
  for (const char* value : {R"("HTML")", R"("rich")", "1", "[]"})
    check_rejected(std::string(R"("text_format":)") + value, "bad_string", "text_format");
  for (const char* value : {"1700000000", "1699999999", R"("soon")", "1.5"})
    check_rejected(std::string(R"("expires_at":)") + value, "bad_time", "expires_at");
  CHECK(parse_item(R"("expires_at":1700000001)"));
  for (const char* value : {"-0.001", "10.001", R"("1")", "true", "[]"})
    check_rejected(std::string(R"("weight":)") + value, "bad_number", "weight");
  for (const char* value : {"0", "10", "1e-5"})
    CHECK(parse_item(std::string(R"("weight":)") + value)->weight.has_value());
  for (const char* value : {"1.5", "[]", R"("\u0007")"})
    check_rejected(std::string(R"("story":)") + value, "bad_id", "story");
}
