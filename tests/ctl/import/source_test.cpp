#include <catch2/catch.hpp>

#include "scripts/ctl/import/permalink.h"
#include "scripts/ctl/import/source_dates.h"
#include "scripts/ctl/import/source_format.h"
#include "scripts/ctl/import/source_text.h"
#include "tests/ctl/import/collect.h"

using namespace freshet;
using namespace freshet::test;
using namespace freshet::ctl;

namespace {

std::int64_t date(std::string_view text) { return unix_or_zero(parse_source_date(text)); }

std::optional<SourceFormat> format_of(const std::string& name) {
  std::ifstream in(fixture(name), std::ios::binary);
  std::string beginning(4096, '\0');
  in.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  beginning.resize(static_cast<std::size_t>(in.gcount()));
  return detect_format(beginning);
}

}  // namespace

TEST_CASE("dates of sources", "[import]") {
  for (const std::string_view text :
       {"2026-11-26T08:30:00Z", "2026-11-26T08:30:00.123Z", "2026-11-26 08:30:00", "2026-11-26T08:30",
        "2026/11/26 8:30", "2026-11-26 09:30:00 +0100", "2026-11-26T09:30:00+01:00",
        "Thu, 26 Nov 2026 08:30:00 GMT", "Thursday, 26 November 2026 08:30:00 +0000",
        " Thu,  26 Nov 2026\n08:30:00 UT ", "26 Nov 2026 09:30 CET", "Thu, 26 Nov 2026 03:30:00 EST",
        "1795681800", "1795681800000", "2026-11-26t08:30:00z"}) {
    INFO(text);
    CHECK(date(text) == 1795681800);
  }
  CHECK(date("2026-11-26") == 1795651200);
  CHECK(date("2026-1-5") == 1767571200);
  for (const std::string_view text :
       {"", "  ", "0000-00-00", "0000-00-00 00:00:00", "Mon, 30 Nov -0001 00:00:00 +0000", "soon",
        "2026-13-01", "12", "99999999999999999999", "1969-12-31"}) {
    INFO(text);
    CHECK(date(text) == 0);
  }
  CHECK(date(std::string(100'000, '1')) == 0);
}

TEST_CASE("links are resolved, and only those of pages are kept", "[import]") {
  CHECK(resolve_url("https://example.org/a/b", "c d") == "https://example.org/a/c%20d");
  CHECK(resolve_url("https://example.org/a/b", "/é?x=1#f") == "https://example.org/%C3%A9?x=1#f");
  CHECK(resolve_url("https://example.org/a", "//cdn.example.org/x") == "https://cdn.example.org/x");
  CHECK(resolve_url("https://example.org/a", "HTTP://Other.example/") == "HTTP://Other.example/");
  CHECK(resolve_url("", "/a/b") == "/a/b");
  for (const std::string_view text :
       {"javascript:alert(1)", "mailto:a@example.org", "tag:example.org,2026:1", "", "file:///etc/passwd"}) {
    INFO(text);
    CHECK(resolve_url("https://example.org/", text).empty());
  }
  CHECK(resolve_url("", "a/b").empty());
  CHECK(resolve_url("", "//example.org/a").empty());
  CHECK(resolve_url("", "https://example.org/" + std::string(3000, 'a')).empty());
}

TEST_CASE("an item is brought within the limits", "[import]") {
  Collected out;
  const SourceSink sink = out.sink();
  CHECK(deliver({.title = std::string(2000, 't'), .language = "en_US"}, sink));
  CHECK(deliver({.title = " two\n lines\t", .section = std::string(80, 's'), .language = "english (US)"},
                sink));
  CHECK(deliver({.url = "https://example.org/a/h%C3%A9llo-world/?x=1#y"}, sink));
  CHECK(deliver({.url = "https://example.org/"}, sink));
  CHECK(deliver({.text = "你好世界" + std::string(200, 'x')}, sink));
  CHECK(deliver({.position = "line 9"}, sink));
  CHECK(out.skipped ==
        std::vector<std::pair<std::string, std::string>>{{"line 9", "has no title, no text and no link"}});
  REQUIRE(out.items.size() == 5);
  CHECK(out.items[0].title.size() == 1024);
  CHECK(out.items[0].language == "en-US");
  CHECK(out.items[1].title == "two lines");
  CHECK(out.items[1].section.size() == 64);
  CHECK(out.items[1].language.empty());
  CHECK(out.items[2].title == "Héllo world");
  CHECK(out.items[3].title == "Example.org");
  CHECK(out.items[4].title == "你好世界" + std::string(76, 'x') + "…");
}

TEST_CASE("formats are detected by their beginning", "[import]") {
  CHECK(format_of("rss.xml") == SourceFormat::kFeed);
  CHECK(format_of("atom.xml") == SourceFormat::kFeed);
  CHECK(format_of("rdf.xml") == SourceFormat::kFeed);
  CHECK(detect_format(R"({"version": "https://jsonfeed.org/version/1", "items": [)") == SourceFormat::kFeed);
  CHECK(format_of("news_sitemap.xml") == SourceFormat::kSitemap);
  CHECK(format_of("sitemap_index.xml") == SourceFormat::kSitemap);
  CHECK(format_of("wordpress.xml") == SourceFormat::kWxr);
  CHECK(format_of("ghost.json") == SourceFormat::kGhost);
  CHECK(format_of("items.csv") == SourceFormat::kCsv);
  CHECK(format_of("outbox.json") == SourceFormat::kOutbox);
  CHECK(detect_format("{\"id\": \"1\", \"title\": \"x\"}\n{\"id\": \"2\"}\n") == SourceFormat::kNdjson);
  for (const std::string_view text :
       {"", "<", "<!--", "<!DOCTYPE html><html>", "<html>", "hello, world", "\x1f\x8b", "1,2,3\n"}) {
    INFO(text);
    CHECK_FALSE(detect_format(text));
  }
}

TEST_CASE("permalinks", "[import]") {
  PermalinkParts parts = date_parts("2026-01-05 10:00");
  parts["title"] = "salt";
  parts["categories"] = "";
  CHECK(expand_permalink("/:categories/:year/:i_month/:i_day/:title/", parts) == "/2026/1/5/salt/");
  CHECK(expand_permalink(":short_year/:month-:day/:title.html", parts) == "/26/01-05/salt.html");
  CHECK(expand_permalink("/:unknown/:title", parts).empty());
  CHECK(date_parts("05.01.2026").empty());
}
