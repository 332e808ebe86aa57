#include "scripts/ctl/import/feed_reader.h"

#include <catch2/catch.hpp>

#include "core/items/item_limits.h"
#include "tests/ctl/import/collect.h"

using namespace freshet;
using namespace freshet::test;
using namespace freshet::ctl;

namespace {

constexpr std::string_view kFeedAddress = "https://example.org/feeds/all.xml";

auto reading(std::string_view base = kFeedAddress) {
  return [base](std::istream& in, const SourceSink& sink) { return read_feed(in, base, sink); };
}

std::string rss(const std::string& entries) {
  return "<rss version=\"2.0\"><channel><link>https://example.org/</link>" + entries + "</channel></rss>";
}
Collected read_rss(const std::string& entries) { return collect_text(rss(entries), reading("")); }

}  // namespace

TEST_CASE("RSS: namespaces, CDATA, entities, dates and relative links", "[import]") {
  const Collected feed = collect_fixture("rss.xml", reading());
  CHECK(feed.error.empty());
  CHECK(feed.skipped.empty());
  REQUIRE(feed.items.size() == 3);
  const SourceItem& salt = feed.items[0];
  CHECK(salt.position == "entry 1");
  CHECK(salt.title == "Salt & vinegar");
  CHECK(salt.url == "https://example.org/2026/11/salt/");
  CHECK(salt.guid == "https://example.org/?p=12");
  CHECK(salt.author == "Ann O’Neill");
  CHECK(salt.tags == Strings{"Food & drink", "salt"});
  CHECK(salt.text == "<p>All of <b>it</b>.</p>");
  CHECK(salt.text_format == items::TextFormat::kHtml);
  CHECK(salt.language == "en-us");
  CHECK(unix_or_zero(salt.published_at) == 1795681800);
  const SourceItem& untitled = feed.items[1];
  CHECK(untitled.title ==
        "One two three four five six seven eight nine ten eleven twelve thirteen fourteen…");
  CHECK(untitled.url == "https://example.org/untitled");
  CHECK(untitled.author == "Bob");
  CHECK(unix_or_zero(untitled.published_at) == 1793865900);
  const SourceItem& undated = feed.items[2];
  CHECK(undated.title == "No date and 60 tags");
  CHECK(undated.url.empty());
  CHECK_FALSE(undated.published_at);
}

TEST_CASE("RSS: at most as many tags as the service takes", "[import]") {
  std::string categories;
  for (int i = 0; i < 120; ++i) categories += "<category>tag " + std::to_string(i) + "</category>";
  const Collected feed =
      read_rss("<item><title>x</title>" + categories + "</item><item><title>y</title><category>" +
               std::string(65, 'a') + "</category><category> a  b </category><category/></item>");
  REQUIRE(feed.items.size() == 2);
  CHECK(feed.items[0].tags.size() == items::kMaxTags);
  CHECK(feed.items[0].tags[99] == "tag 99");
  CHECK(feed.items[1].tags == Strings{"a b"});
}

TEST_CASE("RSS: a long text is cut at a character", "[import]") {
  std::string text = "ab";
  while (text.size() < items::kMaxTextBytes + 100) text += "é";
  const Collected feed = read_rss("<item><title>x</title><description>x" + text + "</description></item>");
  REQUIRE(feed.items.size() == 1);
  CHECK(feed.items[0].text.size() == items::kMaxTextBytes - 1);
  CHECK(feed.items[0].text.ends_with("é"));
}

TEST_CASE("RSS 1.0 in ISO-8859-1", "[import]") {
  const Collected feed = collect_fixture("rdf.xml", reading(""));
  REQUIRE(feed.items.size() == 1);
  CHECK(feed.items[0].title == "Café");
  CHECK(feed.items[0].guid == "https://example.org/caf");
  CHECK(feed.items[0].tags == Strings{"two words"});
  CHECK(unix_or_zero(feed.items[0].published_at) == 1795685400);
}

TEST_CASE("RSS in UTF-16", "[import]") {
  std::string wide = "\xFF\xFE";
  for (const char c : rss("<item><title>wide</title></item>")) wide += {c, '\0'};
  CHECK(collect_text(wide, reading()).titles() == Strings{"wide"});
}

TEST_CASE("encodings of feeds", "[import]") {
  const auto read = [](const std::string& encoding, const std::string& title) {
    const std::string declaration = "<?xml version=\"1.0\" encoding=\"" + encoding + "\"?>";
    return collect_text(
        declaration + rss("<item><title>one</title></item><item><title>" + title + "</title></item>"),
        reading());
  };
  CHECK(read("windows-1252", "\x93quoted\x94").titles() == Strings{"one", "“quoted”"});
  CHECK(read("GBK", "\xC4\xE3\xBA\xC3").titles() == Strings{"one", "你好"});
  CHECK(read("Shift_JIS", "\x83\x65\x83\x58\x83\x67").titles() == Strings{"one", "テスト"});
  CHECK(read("x-unknown", "two").error == "line 1: Unsupported encoding x-unknown");
  const Collected latin = read("UTF-8", "Caf\xE9");
  CHECK(latin.titles() == Strings{"one"});
  CHECK(latin.error.starts_with("line 1: Input is not proper UTF-8"));
  CHECK_FALSE(read("EUC-JP", "\xFF\xFF\xFF\xFF").error.empty());
}

TEST_CASE("Atom: types of texts, xml:base, the link to the page and the feed's author", "[import]") {
  const Collected feed = collect_fixture("atom.xml", reading());
  CHECK(feed.error.empty());
  REQUIRE(feed.items.size() == 2);
  const SourceItem& one = feed.items[0];
  CHECK(one.guid == "tag:example.org,2026:1");
  CHECK(one.title == "Eins & zwei");
  CHECK(one.url == "https://example.org/blog/2026/eins.html");
  CHECK(one.text == "<div>a &lt; b <b class=\"x\">fett</b><br></br>danach</div>");
  CHECK(one.text_format == items::TextFormat::kHtml);
  CHECK(one.author == "The editors");
  CHECK(one.tags == Strings{"Land & Leute", "zwei worte"});
  CHECK(one.language == "de");
  CHECK(unix_or_zero(one.published_at) == 1793523600);
  CHECK(unix_or_zero(one.updated_at) == 1793613600);
  const SourceItem& two = feed.items[1];
  CHECK(two.title == "Plain: 1 < 2 &amp; more");
  CHECK(two.text == "plain <b> summary");
  CHECK(two.text_format == items::TextFormat::kPlain);
  CHECK(two.url == "https://example.org/two");
  CHECK(two.author == "Ann");
  CHECK(two.language == "en");
  CHECK_FALSE(two.published_at);
}

TEST_CASE("JSON Feed", "[import]") {
  const Collected feed = collect_fixture("feed.json", reading("https://example.org/feed.json"));
  CHECK(feed.error.empty());
  CHECK(feed.skipped == std::vector<std::pair<std::string, std::string>>{{"entry 2", "is not an object"}});
  REQUIRE(feed.items.size() == 2);
  CHECK(feed.items[0].guid == "7");
  CHECK(feed.items[0].title == "Seven < eight");
  CHECK(feed.items[0].url == "https://example.org/seven");
  CHECK(feed.items[0].author == "Ann");
  CHECK(feed.items[0].tags == Strings{"a b", "c"});
  CHECK(unix_or_zero(feed.items[0].published_at) == 1795703400);
  CHECK(feed.items[1].title == "Half an emoji � and } ] a brace");
  CHECK(feed.items[1].url == "https://example.org/eight");
  CHECK(feed.items[1].text_format == items::TextFormat::kPlain);
  CHECK(feed.items[1].language == "fr");
}

TEST_CASE("a feed that is none is one sentence", "[import]") {
  const auto error = [](const std::string& text) { return collect_text(text, reading()).error; };
  CHECK(error("") == "is empty");
  CHECK(error("\n<!DOCTYPE HTML><html><p>Not found") == "is an HTML page");
  CHECK(error("<opml version=\"2.0\"></opml>") == "is not a feed: its root is <opml>");
  CHECK(error("Internal error") == "is not XML");
  CHECK(error(std::string("\x1f\x8b\x08\0\1\2\3\4", 8)) == "is not XML");
  CHECK(error("{\"a\": 1}") == "is not a JSON Feed: it has no \"items\"");
}

TEST_CASE("a truncated feed delivers what is complete", "[import]") {
  const std::string whole = rss("<item><title>one</title></item><item><title>two</title></item>");
  const Collected feed = collect_text(whole.substr(0, whole.find("two") + 2), reading());
  CHECK(feed.titles() == Strings{"one"});
  CHECK(feed.error.starts_with("line 1: "));
  const Collected json = collect_text(R"({"items": [{"title": "one"}, {"title": "tw)", reading());
  CHECK(json.titles() == Strings{"one"});
  CHECK(json.error == "ends early, in entry 2 of \"items\"");
}

TEST_CASE("entities that a feed declares are not expanded", "[import]") {
  const std::string bomb =
      "<!DOCTYPE rss [<!ENTITY a \"aaaaaaaaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\">"
      "<!ENTITY x SYSTEM \"file:///etc/passwd\">]>";
  const Collected feed =
      collect_text(bomb + rss("<item><title>one</title></item><item><title>&b;</title></item>"), reading());
  CHECK(feed.titles() == Strings{"one"});
  CHECK(feed.error == "line 1: Entity 'b' not defined");
  const Collected external =
      collect_text(bomb + rss("<item><title>one</title></item><item><title>&x;</title></item>"), reading());
  CHECK(external.titles() == Strings{"one"});
  CHECK(external.error == "line 1: Entity 'x' not defined");
  const Collected parameter = collect_text("<!DOCTYPE rss [<!ENTITY % p SYSTEM \"file:///etc/passwd\">%p;]>" +
                                               rss("<item><title>one</title></item>"),
                                           reading());
  CHECK(parameter.error == "line 1: PEReference: %p; not found");
  const Collected old = collect_text("<!DOCTYPE rss SYSTEM \"http://127.0.0.1:9/rss-0.91.dtd\">" +
                                         rss("<item><title>a &unknown; b &eacute;</title></item>"),
                                     reading());
  CHECK(old.titles() == Strings{"a b é"});
  const Collected defaults = collect_text(
      "<!DOCTYPE rss [<!ATTLIST item a CDATA \"aaaa\">]>" + rss("<item><title>one</title></item>"),
      reading());
  CHECK(defaults.items.empty());
  CHECK(defaults.error == "line 1: declares attributes in its DOCTYPE");
}

TEST_CASE("a feed with common faults is read", "[import]") {
  CHECK(read_rss("<item><x:title>other</x:title><title>undeclared prefix</title></item>").titles() ==
        Strings{"undeclared prefix"});
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "<item><x:y/><title>of many chunks</title></item>";
  CHECK(read_rss(many).items.size() == 1000);
  CHECK(read_rss("<item><title>control\x0B character</title></item>").titles() ==
        Strings{"control character"});
  CHECK(read_rss("<item><title>1 &lt; 2 &amp;lt; 3</title></item>").titles() == Strings{"1 < 2 < 3"});
  CHECK(read_rss("<item><title>x</title><category>a &unknown b</category></item>")
            .error.starts_with("line 1: "));
  CHECK(read_rss("<item><description>&lt;img src=x&gt;</description></item>").skipped.size() == 1);
}

TEST_CASE("reading ends when the sink wants no more", "[import]") {
  std::istringstream in(rss("<item><title>one</title></item><item><title>two</title></item>") + "garbage");
  int count = 0;
  const SourceSink sink{.item = [&](const SourceItem&) { return ++count < 1; },
                        .skipped = [](std::string_view, std::string_view) {}};
  CHECK(read_feed(in, "", sink));
  CHECK(count == 1);
}

TEST_CASE("deep, wide and endless XML is refused", "[import]") {
  std::string deep, attributes, spaces;
  for (int i = 0; i < 10'000; ++i) deep += "<a>";
  for (int i = 0; i < 100'000; ++i) attributes += " a" + std::to_string(i) + "=''";
  for (int i = 0; i < 20'000; ++i) spaces += " xmlns:a" + std::to_string(i) + "='u'";
  CHECK(read_rss("<item>" + deep).error == "line 1: is nested too deeply");
  CHECK(read_rss("<item><title" + attributes + ">x</title></item>").error == "line 1: has too many names");
  CHECK(read_rss("<item><title" + attributes.substr(0, attributes.find(" a2000=")) + ">x</title></item>")
            .error == "line 1: has too many attributes");
  CHECK(read_rss("<item><title>x</title></item><!--" + std::string(11'000'000, 'x')).error ==
        "line 1: a tag, comment or CDATA section is larger than 10 MB");
  CHECK(read_rss("<item><title" + spaces + ">x</title></item>").error == "line 1: has too many attributes");
}
