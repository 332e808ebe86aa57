#include "scripts/ctl/replay/import.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;
using namespace freshet::ctl;

TEST_CASE("chunks respect both limits and keep every line with its number in the file", "[ctl]") {
  CHECK(rc::check("chunks", [] {
    const auto lengths = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 12));
    std::string text;
    std::vector<std::string> wanted;
    std::vector<std::size_t> numbers, too_long;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const std::string line(static_cast<std::size_t>(lengths[i]), 'x');
      text += line + "\n";
      if (line.empty()) continue;
      if (line.size() + 1 > 10) {
        too_long.push_back(i + 1);
        continue;
      }
      wanted.push_back(line);
      numbers.push_back(i + 1);
    }
    const Chunks cut = split_into_chunks(text, 3, 10);
    RC_ASSERT(cut.too_long == too_long);
    std::string joined, all;
    std::size_t before = 0;
    std::vector<std::size_t> seen;
    for (const Chunk& each : cut.chunks) {
      RC_ASSERT(each.body.size() <= 10U);
      RC_ASSERT(each.lines.size() <= 3U);
      RC_ASSERT(each.lines.size() > 0U);
      joined += each.body;
      // The file up to the chunk's end contains exactly the lines up to its last one.
      RC_ASSERT(each.end_offset > before);
      const auto lines =
          std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(each.end_offset), '\n');
      RC_ASSERT(static_cast<std::size_t>(lines) == each.lines.back());
      before = each.end_offset;
      seen.insert(seen.end(), each.lines.begin(), each.lines.end());
    }
    for (const std::string& line : wanted) all += line + "\n";
    RC_ASSERT(joined == all);
    RC_ASSERT(seen == numbers);
  }));
}

TEST_CASE("a file with a byte order mark and without a final line break is read completely", "[ctl]") {
  const Chunks cut = split_into_chunks("\xEF\xBB\xBF{\"id\":1}\n{\"id\":2}");
  REQUIRE(cut.chunks.size() == 1);
  CHECK(cut.chunks[0].body == "{\"id\":1}\n{\"id\":2}\n");
  CHECK(cut.chunks[0].end_offset == 20);
}

TEST_CASE("shifting an item changes its times only", "[ctl]") {
  const auto moved = shift_item(
      R"({"id":18446744073709551615,"title":"a \"b\" ü","tags":["x","y"],"n":{"deep":[1.5,null,true]},"published_at":"2018-03-12T17:00:45Z","update_time":100,"expires_at":"2018-03-13"})",
      seconds{10});
  REQUIRE(moved);
  CHECK(
      *moved ==
      R"({"id":"18446744073709551615","title":"a \"b\" ü","tags":["x","y"],"n":{"deep":[1.5,null,true]},"published_at":1520874055,"update_time":110,"expires_at":1520899210})");
  CHECK(error_of(shift_item("[1]", seconds{1})).detail == "not an object");
  CHECK(error_of(shift_item(R"({"id":1,"published_at":"soon"})", seconds{1})).member == "published_at");
  CHECK_FALSE(shift_item(R"({"id":1,"published_at":5})", seconds{-6}));
}

TEST_CASE("shifted chunks keep their line numbers and a bad line is reported", "[ctl]") {
  Chunks cut = split_into_chunks("\n{\"id\":1,\"published_at\":5}\n\n{\"id\":2}\n");
  REQUIRE(shift_chunks(cut.chunks, seconds{10}));
  CHECK(cut.chunks[0].body == "{\"id\":\"1\",\"published_at\":15}\n{\"id\":\"2\"}\n");
  CHECK(cut.chunks[0].lines == std::vector<std::size_t>{2, 4});
  Chunks bad = split_into_chunks("{\"id\":1}\n\n{\"id\":2,\"published_at\":\"soon\"}\n");
  const auto moved = shift_chunks(bad.chunks, seconds{10});
  REQUIRE_FALSE(moved);
  CHECK(error_of(moved).detail.starts_with("line 3: published_at"));
}

TEST_CASE("a file of another format is recognized by its beginning", "[ctl]") {
  for (const char* text : {"[{\"id\":1}]", "\xEF\xBB\xBF[\n  {}\n]", " \r\n["})
    CHECK(other_format(text) == "a JSON array");
  for (const char* text : {"<?xml version=\"1.0\"?>\n<rss>", "<rss version=\"2.0\">", "\n\t<feed>"})
    CHECK(other_format(text) == "XML");
  for (const char* text : {"id,title\n1,One\n", "\"id\";\"title\"", "id\ttitle", "\xEF\xBB\xBFid,title"})
    CHECK(other_format(text) == "CSV");
  for (const char* text :
       {"INSERT INTO posts VALUES (1, 'a');\n", "-- MySQL dump 10.19, for Linux\n\nCREATE TABLE",
        "/*!40101 SET NAMES utf8 */;", "create table a (b int, c int);"})
    CHECK(other_format(text) == "an SQL dump");
  for (const char* text : {"{\n \"id\": \"p\",\n \"title\": \"P\"\n}\n",
                           "\n{\"id\": \"p\", \r\n\"title\": \"P\"}", "{\"tags\": ["})
    CHECK(other_format(text) == "JSON on several lines");
  for (const std::string& text : {std::string("\xFF\xFE{\0\"\0", 6), std::string("\xFE\xFF\0{\0\"", 6),
                                  std::string("{\0\"\0", 4), std::string("\0{\0\"", 4)})
    CHECK(other_format(text) == "text in UTF-16");
  for (const char* text :
       {"", "\n", "{\"id\":1,\"title\":\"a\"}", "\xEF\xBB\xBF{}", "{broken, line", "nonsense\na,b"})
    CHECK(other_format(text).empty());
}

TEST_CASE("a bulk reply lists the rejected lines", "[ctl]") {
  const auto reply = parse_bulk_reply(
      R"({"accepted":2,"rejected":[{"line":3,"code":"bad_json","detail":"invalid JSON at byte 1"},
          {"line":5,"id":"a","code":"bad_time","member":"published_at","detail":"is missing or a zero date"}]})");
  REQUIRE(reply);
  CHECK(reply->accepted == 2);
  REQUIRE(reply->rejected.size() == 2);
  const auto text_of = [](const RejectedLine& each) {
    return std::to_string(each.line) + "|" + each.id + "|" + each.code + "|" + each.member + "|" +
           each.detail;
  };
  CHECK(text_of(reply->rejected[0]) == "3||bad_json||invalid JSON at byte 1");
  CHECK(text_of(reply->rejected[1]) == "5|a|bad_time|published_at|is missing or a zero date");
  CHECK(reply->ignored.empty());
  const auto lenient = parse_bulk_reply(R"({"accepted":2,"rejected":[],"ignored":{"tag":2}})");
  REQUIRE(lenient);
  CHECK(lenient->ignored == std::map<std::string, std::int64_t>{{"tag", 2}});
  CHECK_FALSE(parse_bulk_reply("<html>"));
  CHECK_FALSE(parse_bulk_reply("{}"));
}
