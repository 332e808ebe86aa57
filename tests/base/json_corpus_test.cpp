// Tests the parser's guards with collected inputs: JSONTestSuite, the Big List of Naughty Strings
// and the project's hostile inputs.
#include <catch2/catch.hpp>
#include <set>

#include "core/base/json.h"
#include "tests/support/error_of.h"
#include "tests/support/shared_files.h"

using namespace freshet;
using namespace freshet::test;
using test::files_in;
using test::read_file;
using test::shared_path;

namespace {

constexpr json::Limits kLarge{.max_depth = 32, .max_nodes = 100000};

bool accepts(std::string text) {
  json::Document document;
  return document.parse(text).has_value();
}

// The strings stored in hostile.json under `name`.
std::vector<std::string> hostile_inputs(const std::string& name) {
  std::vector<std::string> result;
  const auto path = shared_path("corpora/hostile/hostile.json");
  if (!path) return result;
  std::string text = read_file(*path);
  json::Document document;
  REQUIRE(document.parse(text, kLarge));
  for (const auto value : document.root()[name].elements()) result.emplace_back(value.text());
  REQUIRE_FALSE(result.empty());
  return result;
}

}  // namespace

TEST_CASE("JSONTestSuite: every y_ file is accepted and rewriting is idempotent", "[json][corpus]") {
  const auto folder = shared_path("corpora/JSONTestSuite/test_parsing");
  if (!folder) return;
  std::size_t count = 0;
  for (const auto& file : files_in(*folder)) {
    if (!file.filename().string().starts_with("y_")) continue;
    INFO(file.filename());
    ++count;
    std::string text = read_file(file);
    json::Document document;
    REQUIRE(document.parse(text));
    std::string once, twice;
    json::Writer(once).value(document.root());
    std::string again = once;
    json::Document second;
    REQUIRE(second.parse(again));
    json::Writer(twice).value(second.root());
    CHECK(once == twice);
  }
  CHECK(count == 95);
}

TEST_CASE("JSONTestSuite: every n_ file is rejected", "[json][corpus]") {
  const auto folder = shared_path("corpora/JSONTestSuite/test_parsing");
  if (!folder) return;
  std::size_t count = 0;
  for (const auto& file : files_in(*folder)) {
    if (!file.filename().string().starts_with("n_")) continue;
    INFO(file.filename());
    ++count;
    CHECK_FALSE(accepts(read_file(file)));
  }
  CHECK(count == 188);
}

TEST_CASE("JSONTestSuite: the only i_ files accepted are large integers and escapes of lone surrogates",
          "[json][corpus]") {
  const auto folder = shared_path("corpora/JSONTestSuite/test_parsing");
  if (!folder) return;
  std::set<std::string> accepted;
  for (const auto& file : files_in(*folder)) {
    if (file.filename().string().starts_with("i_") && accepts(read_file(file))) accepted.insert(file.stem());
  }
  CHECK(accepted == std::set<std::string>{
                        "i_number_too_big_neg_int", "i_number_too_big_pos_int",
                        "i_number_very_big_negative_int", "i_object_key_lone_2nd_surrogate",
                        "i_string_1st_surrogate_but_2nd_missing", "i_string_1st_valid_surrogate_2nd_invalid",
                        "i_string_incomplete_surrogate_and_escape_valid",
                        "i_string_incomplete_surrogate_pair", "i_string_incomplete_surrogates_escape_valid",
                        "i_string_invalid_lonely_surrogate", "i_string_invalid_surrogate",
                        "i_string_inverted_surrogates_U+1D11E", "i_string_lone_second_surrogate"});
}

TEST_CASE("JSONTestSuite: no test_transform file crashes the parser", "[json][corpus]") {
  const auto folder = shared_path("corpora/JSONTestSuite/test_transform");
  if (!folder) return;
  const auto files = files_in(*folder);
  CHECK(files.size() > 20);
  for (const auto& file : files) accepts(read_file(file));
}

TEST_CASE("naughty strings survive writing and parsing byte for byte", "[json][corpus]") {
  const auto path = shared_path("corpora/BLNS/blns.json");
  if (!path) return;
  std::string text = read_file(*path);
  json::Document list;
  REQUIRE(list.parse(text, kLarge));
  const auto strings = list.root().elements();
  CHECK(strings.size() > 500);
  for (const auto value : strings) {
    const std::string naughty(value.text());
    INFO(naughty);
    std::string out;
    json::Writer(out).begin_object().key(naughty).string(naughty).end_object();
    json::Document document;
    REQUIRE(document.parse(out));
    CHECK(document.root()[naughty].text() == naughty);
  }
}

TEST_CASE("hostile ids are rejected, or kept byte for byte", "[json][corpus]") {
  const std::set<std::string> good{"a{b}",
                                   "}{",
                                   "]] redis.call('FLUSHALL') --",
                                   "hot:rank",
                                   "feed:cache:1",
                                   std::string(129, 'A'),
                                   "%s%n",
                                   "é",
                                   "0",
                                   "1e3",
                                   "0x10",
                                   "undefined",
                                   "*",
                                   "[a-z]",
                                   "<script>",
                                   "a;b",
                                   "a/b",
                                   "a?b=c"};
  for (const auto& id : hostile_inputs("ids")) {
    INFO(id.substr(0, 60));
    std::string out;
    json::Writer(out).begin_object().key("articleId").string(id).end_object();
    json::Document document;
    REQUIRE(document.parse(out));
    const auto parsed = json::required_id<ItemId>(document.root(), "articleId");
    CHECK(parsed.has_value() == (good.count(id) == 1));
    if (parsed) {
      CHECK(parsed->str() == id);
    } else {
      CHECK(error_of(parsed).member == "articleId");
    }
  }
}

TEST_CASE("hostile numbers are rejected as a dwell time", "[json][corpus]") {
  for (const auto& number : hostile_inputs("numbers_raw")) {
    INFO(number.substr(0, 60));
    std::string text = "{\"dwellMs\":" + number + "}";
    json::Document document;
    if (!document.parse(text)) continue;
    const auto value = json::required_integer(document.root(), "dwellMs", 0, 180000);
    REQUIRE_FALSE(value);
    CHECK(error_of(value).member == "dwellMs");
  }
}

TEST_CASE("hostile times are rejected, except 1970, null, \"\" and times without a zone", "[json][corpus]") {
  const std::set<std::string> good{"0", "null", "\"\"", "\"2026-01-01T00:00:00\"", "\"2026-01-01\"",
                                   // Dates in the future are the handlers' responsibility.
                                   "\"2099-01-01T00:00:00Z\""};
  for (const auto& time : hostile_inputs("timestamps_raw")) {
    INFO(time);
    std::string text = "{\"publishedAt\":" + time + "}";
    json::Document document;
    REQUIRE(document.parse(text));
    CHECK(json::optional_time(document.root(), "publishedAt").has_value() == (good.count(time) == 1));
  }
}

TEST_CASE("hostile bodies give an error or an object without an article id", "[json][corpus]") {
  for (const auto& body : hostile_inputs("bodies_raw")) {
    INFO(body.substr(0, 60));
    std::string text = body;
    json::Document document;
    if (!document.parse(text)) continue;
    const auto object = json::root_object(document);
    if (!object) continue;
    CHECK_FALSE(json::required_id<ItemId>(*object, "articleId"));
  }
}
