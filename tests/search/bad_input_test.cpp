// Texts and queries that are meant to be expensive: a document's terms and positions stay within a
// multiple of its text, and every query has a result.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/search/corpus.h"

using namespace freshet;
using namespace freshet::test;

namespace {

constexpr std::size_t kTextBytes = 256UL * 1024, kMaxTermBytes = 245;

std::string repeated(std::string_view text, std::size_t bytes) {
  std::string out;
  while (out.size() + text.size() <= bytes) out += text;
  return out;
}

std::string to_utf8(char32_t c) {
  std::string out;
  if (c < 0x80) return {static_cast<char>(c)};
  if (c >= 0x800) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
  } else {
    out += static_cast<char>(0xC0 | (c >> 6));
  }
  return out += static_cast<char>(0x80 | (c & 0x3F));
}

// Characters of a range, at random.
std::string any_of(char32_t first, char32_t last, std::size_t bytes) {
  std::mt19937 random(5);
  std::string out;
  while (out.size() + 3 <= bytes)
    out += to_utf8(first + static_cast<char32_t>(random() % (last - first + 1)));
  return out;
}

struct BadText {
  const char* name;
  std::string text;
  double terms;  // distinct ones per byte, at most; 0: only a few
};

std::vector<BadText> bad_texts() {
  return {{"Han", any_of(0x4E00, 0x9FA5, kTextBytes), 0.45},
          {"Hangul", any_of(0xAC00, 0xD7A3, kTextBytes), 0.45},
          {"Thai", any_of(0xE01, 0xE2E, kTextBytes), 0.3},
          {"Burmese", any_of(0x1000, 0x109F, kTextBytes), 0.3},
          {"Latin", any_of('a', 'z', kTextBytes), 0},
          {"Cyrillic", any_of(0x430, 0x44F, kTextBytes), 0},
          {"one Han character", repeated("北", kTextBytes), 0},
          {"combining marks", any_of(0x300, 0x36F, kTextBytes), 0},
          {"a letter with marks", "a" + any_of(0x300, 0x36F, kTextBytes - 1), 0},
          {"letters with marks", repeated("e\u0301\u0323", kTextBytes), 0},
          {"overrides", repeated("\u202E", kTextBytes), 0},
          {"overrides in a word", repeated("a\u202Eb\u202D", kTextBytes), 0},
          {"alternating scripts", repeated("a北б한", kTextBytes), 0},
          {"long compatibility forms", repeated("\uFDFA", kTextBytes), 0},
          {"apostrophes", repeated("a'", kTextBytes), 0},
          {"emoji", repeated("👩‍💻🇯🇵", kTextBytes), 0},
          {"short words", repeated("a b ", kTextBytes), 0}};
}

}  // namespace

TEST_CASE("the terms of 256 KiB are within bounds, whatever they are made of", "[search]") {
  for (const BadText& each : bad_texts()) {
    INFO(each.name);
    items::Item bad = item("bad", "title");
    bad.text = each.text;
    const Xapian::Document document = search::make_document(bad, Xapian::Stem());
    std::size_t terms = 0, positions = 0, longest = 0;
    for (auto term = document.termlist_begin(); term != document.termlist_end(); ++term) {
      ++terms;
      positions += term.positionlist_count();
      longest = std::max(longest, (*term).size());
    }
    CHECK(longest <= kMaxTermBytes);
    CHECK(static_cast<double>(terms) <= 10 + each.terms * static_cast<double>(each.text.size()));
    CHECK(positions <= each.text.size() + each.text.size() / 16);
  }
}

TEST_CASE("a query is never an error, and finds only what it names", "[search]") {
  TemporaryFolder folder;
  Settings settings;
  settings.search.index = folder / "index";
  write_index(settings, {item("fox", "red fox"), item("weather", "北京天气")});
  for (const char* text :
       {"-", "+", "\"", "+-\"", "-\"", "\"\"", "--", "- -", "\" \"", "+ -", "()", "*", "\u0301", "\u202E"}) {
    INFO(text);
    CHECK(search_ids(settings, text).empty());
  }
  for (const char* text : {"\"red fox", "red\" fox", "+-\"red", "fox \"", "((fox", "fox:", "fox -", "+fox \"",
                           "-+-fox", "fox AND", "NOT fox", "fox NEAR/", "fo\u00ADx"}) {
    INFO(text);
    CHECK(search_ids(settings, text) == std::vector<std::string>{"fox"});
  }
  for (const char* sign : {"-", "+", "\"", "- ", "+ ", "\" ", "-\"", "+\"a", "-a ", "(", "a OR "}) {
    INFO(sign);
    const auto found = search_ids(settings, repeated(sign, 506) + " 天气");
    CHECK(found.size() <= 1);
  }
  std::vector<BadText> texts = bad_texts();
  for (const BadText& each : texts) {
    INFO(each.name);
    CHECK(search_ids(settings, each.text).size() <= 1);
  }
}
