#include "scripts/ctl/import/item_id.h"

#include <catch2/catch.hpp>

#include "core/base/json.h"
#include "scripts/ctl/replay/event_log.h"
#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::ctl;

namespace {

std::optional<std::string> id_by(const std::string& rule, const SourceItem& item) {
  const auto id = IdRule::parse(rule)->id_of(item);
  return id ? std::optional(*id) : std::nullopt;
}

}  // namespace

TEST_CASE("the id of a URL is its path, as in the tag", "[import]") {
  auto text = read_file(FRESHET_SOURCE_DIR "/tests/ctl/import/item_paths.json");
  REQUIRE(text);
  json::Document vectors;
  REQUIRE(vectors.parse(*text));
  const auto all = vectors.root().elements();
  CHECK(all.size() >= 20);
  for (const json::Value& each : all) {
    CAPTURE(each["url"].text());
    CHECK(path_id(std::string(each["url"].text())) == std::string(each["path"].text()));
  }
}

TEST_CASE("only http and https URLs have a path", "[import]") {
  for (const char* other : {"", "/relative", "mailto:a@example.org", "tag:example.org,2026:1", "urn:uuid:1",
                            "ftp://example.org/a", "file:///etc/passwd", "http://"}) {
    CAPTURE(other);
    CHECK_FALSE(path_id(other));
  }
}

TEST_CASE("a path that cannot be decoded is encoded throughout", "[import]") {
  CHECK(path_id("https://example.org/café/%FF") == "/caf%C3%A9/%FF");
  CHECK(path_id("https://example.org/a b/%") == "/a%20b/%");
}

TEST_CASE("an id is what its rule names", "[import]") {
  SourceItem item;
  item.guid = "tag:example.org,2026:7";
  item.url = "https://example.org/posts/7-title/?a=1";
  item.slug = "title";
  CHECK(id_by("guid", item) == "tag:example.org,2026:7");
  CHECK(id_by("url", item) == item.url);
  CHECK(id_by("path", item) == "/posts/7-title");
  CHECK(id_by("slug", item) == "title");
  CHECK(id_by("/posts/([0-9]+)-", item) == "7");
  CHECK_FALSE(id_by("/topics/([0-9]+)", item));
  CHECK_FALSE(id_by("guid", {}));
  CHECK_FALSE(id_by("slug", {}));
  CHECK_FALSE(id_by("path", {}));
  item.url = "/posts/7-title/";  // of a folder without the address of its site
  CHECK(id_by("path", item) == "/posts/7-title");
}

TEST_CASE("a table's id is in the column that the rule names, by default in the column id", "[import]") {
  SourceItem row;
  row.table_id = "7";
  row.url = "https://example.org/seven";
  CHECK(id_by("", row) == "7");
  CHECK(id_by("path", row) == "/seven");
  CHECK(id_by("sku", row) == "7");
  CHECK(IdRule::parse("Artikel Nr")->column() == "Artikel Nr");
  CHECK(IdRule::parse("path")->column().empty());
  row.table_id.clear();
  CHECK(id_by("", row) == "/seven");
  CHECK_FALSE(id_by("sku", row));
  row.url.clear();
  CHECK(freshet::test::error_of(IdRule::parse("")->id_of(row)).detail ==
        "has no id by the rule path; choose another --id, in a table the name of a column");
}

TEST_CASE("a URL whose path is not its own is no id", "[import]") {
  SourceItem item;
  for (const char* url :
       {"https://example.org/?p=14", "https://example.org?p=14", "/?p=14", "https://example.org/blog/?p=14",
        "https://example.org/blog/?page_id=2&preview=true"}) {
    CAPTURE(url);
    item.url = url;
    CHECK(freshet::test::error_of(IdRule::parse("path")->id_of(item)).detail ==
          "has its id only in the query of its URL; choose another --id, such as guid");
    CHECK(id_by("url", item) == url);
  }
  item.url = "https://example.org/";
  CHECK(id_by("path", item) == "/");
  item.url = "https://example.org/hello/?utm_source=feed";
  CHECK(id_by("path", item) == "/hello");
  item.url = "https://example.org/hello?p=2";
  CHECK(id_by("path", item) == "/hello");
}

TEST_CASE("a rule is a name or an expression with a group", "[import]") {
  for (const char* wrong : {"[0-9]+", "(", "a.b", "/x"}) {
    CAPTURE(wrong);
    CHECK(freshet::test::error_of(IdRule::parse(wrong)).reason == "bad_option");
  }
}
