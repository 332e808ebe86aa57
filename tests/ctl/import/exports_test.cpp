#include <malloc.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <streambuf>

#include "scripts/ctl/import/csv_reader.h"
#include "scripts/ctl/import/ghost_reader.h"
#include "scripts/ctl/import/outbox_reader.h"
#include "scripts/ctl/import/sitemap_reader.h"
#include "scripts/ctl/import/wxr_reader.h"
#include "tests/ctl/import/collect.h"

using namespace freshet;
using namespace freshet::test;
using namespace freshet::ctl;

namespace {

Result<SitemapLinks> read_example_sitemap(std::istream& in, const SourceSink& sink) {
  return read_sitemap(in, "https://example.org/sitemap.xml", sink);
}

Result<void> read_table(std::istream& in, const SourceSink& sink) { return read_csv_items(in, sink); }

// A text that is made while it is read: a head, `count` parts and a tail.
class GeneratedText : public std::streambuf {
 public:
  GeneratedText(std::string head, std::size_t count, std::function<std::string(std::size_t)> part,
                std::string tail)
      : piece_(std::move(head)), count_(count), part_(std::move(part)), tail_(std::move(tail)) {
    setg(piece_.data(), piece_.data(), piece_.data() + piece_.size());
  }

 private:
  int_type underflow() override {
    if (next_ > count_) return traits_type::eof();
    piece_ = next_ == count_ ? tail_ : part_(next_);
    ++next_;
    setg(piece_.data(), piece_.data(), piece_.data() + piece_.size());
    return traits_type::to_int_type(piece_.front());
  }

  std::string piece_;
  std::size_t count_, next_ = 0;
  std::function<std::string(std::size_t)> part_;
  std::string tail_;
};

// Bytes on the heap.
std::size_t heap_bytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Reads a generated text, and returns the number of items and how far the heap grew at most while
// there were more than `warm_up`.
struct Streamed {
  std::size_t items = 0;
  std::size_t growth = 0;
};
template <class Read>
Streamed stream(GeneratedText& text, std::size_t warm_up, Read read) {
  std::istream in(&text);
  Streamed out;
  std::size_t before = 0;
  const SourceSink sink{.item =
                            [&](const SourceItem&) {
                              if (++out.items == warm_up) before = heap_bytes();
                              if (out.items > warm_up && out.items % 500 == 0)
                                out.growth =
                                    std::max(out.growth, heap_bytes() - std::min(heap_bytes(), before));
                              return true;
                            },
                        .skipped = [](std::string_view, std::string_view) {}};
  const auto done = read(in, sink);
  CHECK(error_of(done).detail == "(a value)");
  return out;
}

constexpr std::size_t kMegabyte = 1024UL * 1024;

}  // namespace

TEST_CASE("sitemap with news", "[import]") {
  const Collected sitemap = collect_fixture("news_sitemap.xml", read_example_sitemap);
  CHECK(sitemap.error.empty());
  CHECK(sitemap.skipped ==
        std::vector<std::pair<std::string, std::string>>{{"entry 3", "has no usable <loc>"}});
  REQUIRE(sitemap.items.size() == 2);
  CHECK(sitemap.items[0].url == "https://example.org/a?b=1&c=2");
  CHECK(sitemap.items[0].title == "News & more");
  CHECK(sitemap.items[0].tags == Strings{"business", "small merger"});
  CHECK(sitemap.items[0].language == "en");
  CHECK(unix_or_zero(sitemap.items[0].published_at) == 1795593600);
  CHECK(unix_or_zero(sitemap.items[0].updated_at) == 1795651200);
  CHECK(sitemap.items[1].url == "https://example.org/2026/hello-big_world.html");
  CHECK(sitemap.items[1].title == "Hello big world");
  CHECK_FALSE(sitemap.items[1].published_at);
}

TEST_CASE("sitemap index", "[import]") {
  std::ifstream in(fixture("sitemap_index.xml"));
  Collected collected;
  const auto links = read_example_sitemap(in, collected.sink());
  REQUIRE(links);
  CHECK(links->sitemaps == Strings{"https://example.org/posts.xml.gz", "https://example.org/pages.xml"});
  CHECK(collected.items.empty());
}

TEST_CASE("a sitemap that is none is one sentence", "[import]") {
  CHECK(collect_text("<rss/>", read_example_sitemap).error == "is not a sitemap: its root is <rss>");
}

TEST_CASE("WordPress export: posts and pages, their authors, categories and states", "[import]") {
  const Collected posts = collect_fixture("wordpress.xml", read_wxr);
  CHECK(posts.error.empty());
  CHECK(posts.titles() ==
        Strings{"Salt & vinegar", "A draft without a title.", "Secret", "Trashed", "Later"});
  REQUIRE(posts.items.size() == 5);
  const SourceItem& salt = posts.items[0];
  CHECK(salt.guid == "https://example.org/?p=12");
  CHECK(salt.slug == "salt");
  CHECK(salt.url == "https://example.org/2026/11/salt/");
  CHECK(salt.author == "Ann O'Neill");
  CHECK(salt.author_id == "3");
  CHECK(salt.section == "Food & drink");
  CHECK(salt.tags == Strings{"Food & drink", "sea salt"});
  CHECK(salt.text == "<!-- wp:paragraph --><p>Body]]></p>");
  CHECK(salt.text_format == items::TextFormat::kHtml);
  CHECK(salt.language == "en-US");
  CHECK(unix_or_zero(salt.published_at) == 1795681800);
  CHECK(unix_or_zero(salt.updated_at) == 1795768200);
  CHECK_FALSE(salt.hidden);
  CHECK(posts.items[1].hidden);
  CHECK(unix_or_zero(posts.items[1].published_at) == 1795168800);
  CHECK(posts.items[2].hidden);
  CHECK(posts.items[3].hidden);
  CHECK_FALSE(posts.items[4].hidden);
  CHECK(unix_or_zero(posts.items[4].published_at) == 2114380800);
}

TEST_CASE("a feed is no WordPress export", "[import]") {
  CHECK(collect_fixture("rss.xml", read_wxr).error == "is a feed, not a WordPress export");
  CHECK(collect_fixture("atom.xml", read_wxr).error == "is not a WordPress export: its root is <feed>");
}

TEST_CASE("a WordPress export of 50,000 posts needs no more memory than one of 1,000", "[import]") {
  const std::string body(2000, 'x');
  GeneratedText text(
      "<rss xmlns:wp='http://wordpress.org/export/1.2/' "
      "xmlns:content='http://purl.org/rss/1.0/modules/content/'><channel><wp:wxr_version>1.2</"
      "wp:wxr_version>",
      50'000,
      [&](std::size_t i) {
        return "<item><title>Post " + std::to_string(i) + "</title><content:encoded><![CDATA[" + body +
               "]]></content:encoded><wp:post_type>post</wp:post_type><wp:comment><wp:comment_content>" +
               body + "</wp:comment_content></wp:comment></item>\n";
      },
      "</channel></rss>");
  const Streamed read = stream(text, 1000, read_wxr);
  CHECK(read.items == 50'000);
  CHECK(read.growth < kMegabyte);
}

TEST_CASE("one post of 100 MB is cut, and the next is read", "[import]") {
  std::string chunk(kMegabyte, 'y');
  GeneratedText text(
      "<rss "
      "xmlns:wp='http://wordpress.org/export/1.2/'><channel><wp:wxr_version>1.2</"
      "wp:wxr_version><item><title>big</title><wp:post_type>post</"
      "wp:post_type><description>",
      100, [&](std::size_t) { return chunk; },
      "</description></item><item><title>small</title><wp:post_type>post</wp:post_type></item></channel></"
      "rss>");
  std::istream in(&text);
  const Collected posts = collect(in, read_wxr);
  CHECK(posts.titles() == Strings{"big", "small"});
  CHECK(posts.error == "");
}

TEST_CASE("Ghost export: tags and authors are joined in their order", "[import]") {
  const Collected posts = collect_fixture("ghost.json", read_ghost);
  CHECK(posts.error.empty());
  CHECK(posts.titles() == Strings{"Salt & vinegar", "Draft", "Later"});
  REQUIRE(posts.items.size() == 3);
  const SourceItem& salt = posts.items[0];
  CHECK(salt.guid == "u-1");
  CHECK(salt.slug == "salt");
  CHECK(salt.url == "/salt/");
  CHECK(salt.author == "Ann");
  CHECK(salt.author_id == "a1");
  CHECK(salt.tags == Strings{"Food & drink", "salt"});
  CHECK(salt.section == "Food & drink");
  CHECK(salt.text == "<p>Body</p>");
  CHECK(salt.text_format == items::TextFormat::kHtml);
  CHECK(salt.language == "en");
  CHECK(unix_or_zero(salt.published_at) == 1795681800);
  CHECK_FALSE(salt.hidden);
  CHECK(posts.items[1].hidden);
  CHECK(posts.items[1].text == "Words");
  CHECK(posts.items[1].text_format == items::TextFormat::kPlain);
  CHECK(unix_or_zero(posts.items[1].published_at) == 1795600000);
  CHECK_FALSE(posts.items[2].hidden);
}

TEST_CASE("bad Ghost exports are one sentence each", "[import]") {
  CHECK(collect_text("[]", read_ghost).error == "does not start with {");
  CHECK(collect_text("{\"db\": [{\"data\": {}}]}", read_ghost).error ==
        "is not a Ghost export: it has no \"posts\"");
  const Collected truncated = collect_text(
      R"({"db": [{"data": {"posts": [{"title": "one"}, {"title": nonsense}, {"title": "two"}, {"ti)",
      read_ghost);
  CHECK(truncated.titles() == Strings{"one", "two"});
  REQUIRE(truncated.skipped.size() == 1);
  CHECK(truncated.skipped[0].first == "entry 2");
  CHECK(truncated.skipped[0].second.starts_with("is not valid JSON: "));
  CHECK(truncated.error == "ends early, in entry 4 of \"posts\"");
  CHECK(collect_text(R"({"posts": [)" + std::string(100'000, '['), read_ghost).error ==
        "ends early, in entry 1 of \"posts\"");
  CHECK(collect_text(R"({"a": )" + std::string(100'000, '['), read_ghost).error == "is nested too deeply");
}

TEST_CASE("an entry of JSON that is too large is skipped, and the next is read", "[import]") {
  GeneratedText text(R"({"orderedItems": [{"x": ")", 20,
                     [](std::size_t) { return std::string(kMegabyte, 'y'); },
                     R"("}, {"type": "Create", "object": {"name": "small", "to": "as:Public"}}]})");
  std::istream in(&text);
  const Collected posts = collect(in, read_outbox);
  CHECK(posts.titles() == Strings{"small"});
  CHECK(posts.skipped ==
        std::vector<std::pair<std::string, std::string>>{{"entry 1", "is larger than 16 MiB"}});
}

TEST_CASE("CSV: synonyms, separators, quotes and rows that cannot be read", "[import]") {
  const Collected rows = collect_fixture("items.csv", read_table);
  CHECK(rows.error.empty());
  CHECK(rows.skipped ==
        std::vector<std::pair<std::string, std::string>>{{"line 6", "has 9 fields, the header has 8"},
                                                         {"line 7", "has no title, no text and no link"}});
  REQUIRE(rows.items.size() == 2);
  CHECK(rows.items[0].position == "line 2");
  CHECK(rows.items[0].guid == "12");
  CHECK(rows.items[0].title == "Salt; \"vinegar\"");
  CHECK(rows.items[0].text == "<p>Two\nlines</p>");
  CHECK(rows.items[0].text_format == items::TextFormat::kHtml);
  CHECK(rows.items[0].tags == Strings{"sea salt", "salt", "Food"});
  CHECK(rows.items[0].section == "Food");
  CHECK(unix_or_zero(rows.items[0].published_at) == 1795681800);
  CHECK_FALSE(rows.items[0].hidden);
  CHECK(rows.items[1].title == "Only a text");
  CHECK(rows.items[1].url == "/thirteen");
  CHECK(rows.items[1].tags == Strings{"a", "b"});
  CHECK(rows.items[1].hidden);
  CHECK(unix_or_zero(rows.items[1].published_at) == 1793869500);
}

TEST_CASE("CSV with quoted fields and Windows line ends", "[import]") {
  const Collected rows = collect_text("id,title\r\n\"1\",\"one\"\r\n2,two\r\n", read_table);
  CHECK(rows.skipped.empty());
  CHECK(rows.titles() == Strings{"one", "two"});
}

TEST_CASE("CSV: the column of the ids", "[import]") {
  const auto ids = [](const std::string& text, std::string_view column) {
    const Collected rows = collect_text(
        text, [&](std::istream& in, const SourceSink& sink) { return read_csv_items(in, sink, column); });
    Strings out;
    for (const SourceItem& item : rows.items) out.push_back(item.table_id);
    return rows.error.empty() ? out : Strings{rows.error};
  };
  CHECK(ids("id,title,published_at\n7,Seven,2026-11-20\n", "") == Strings{"7"});
  CHECK(ids("\xEF\xBB\xBF\"ID\",title\n7,Seven\n", "") == Strings{"7"});
  CHECK(ids("title,guid\nSeven,g7\n", "") == Strings{""});
  CHECK(ids("id;title;Artikel-Nr\n7;Seven;A 7\n8;Eight\n", "artikel nr") == Strings{"A 7", ""});
  CHECK(ids("title,größe\nSeven,7\n", "größe") == Strings{"7"});
  CHECK(ids("id,title\n7,Seven\n", "sku") == Strings{"has no column \"sku\", which --id names"});
}

TEST_CASE("bad CSV is one sentence", "[import]") {
  CHECK(collect_text("", read_table).error == "is empty");
  CHECK(collect_text("1,2\n3,4\n", read_table).error ==
        "has no header row that names a column \"title\", \"text\" or \"url\"");
  CHECK(collect_text("title\n\"one\n", read_table).error == "line 2: a quoted field does not end");
  const Collected latin = collect_text("title\none\nCaf\xE9\nthree\n", read_table);
  CHECK(latin.titles() == Strings{"one", "three"});
  CHECK(latin.skipped == std::vector<std::pair<std::string, std::string>>{{"line 3", "is not UTF-8"}});
  GeneratedText endless(
      "title\n\"", 20, [](std::size_t) { return std::string(kMegabyte, 'y'); }, "x");
  std::istream in(&endless);
  CHECK(collect(in, read_table).error == "line 2 is longer than 4 MiB; is a quote missing?");
}

TEST_CASE("Mastodon outbox: public posts of one's own", "[import]") {
  const Collected posts = collect_fixture("outbox.json", read_outbox);
  CHECK(posts.error.empty());
  CHECK(posts.skipped.empty());
  REQUIRE(posts.items.size() == 1);
  CHECK(posts.items[0].title == "Fresh #bread & salt");
  CHECK(posts.items[0].url == "https://social.example/@ann/1");
  CHECK(posts.items[0].guid == "https://social.example/users/ann/statuses/1");
  CHECK(posts.items[0].tags == Strings{"bread"});
  CHECK(posts.items[0].language == "en");
  CHECK(unix_or_zero(posts.items[0].published_at) == 1795681800);
  CHECK(collect_text("{}", read_outbox).error == "is not an outbox: it has no \"orderedItems\"");
}
