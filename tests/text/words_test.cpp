// The words of a text, in every script.
#include "core/text/words.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "core/base/utf8.h"

using namespace freshet;
using text::Form;
using Words = std::vector<std::string>;

namespace {

Words terms(std::string_view text, std::vector<Form> forms = {Form::kWord, Form::kPair}) {
  Words out;
  text::for_each_token(text, [&](const text::Token& token) {
    if (std::find(forms.begin(), forms.end(), token.form) != forms.end()) out.emplace_back(token.term);
  });
  return out;
}

Words compounds(std::string_view text) { return terms(text, {Form::kCompound}); }

bool contains(const Words& all, const std::string& word) {
  return std::find(all.begin(), all.end(), word) != all.end();
}

std::string repeated(std::string_view unit, std::size_t bytes) {
  std::string out;
  while (out.size() + unit.size() <= bytes) out += unit;
  return out;
}

// Texts that have every class of characters, ill-formed bytes included.
std::string any_text() {
  static const Words pieces{"word", "Été",     "北京天气", "東京タワー",  "한국",   "ภาษาไทย",  "ລາວ",
                            "ខ្មែរ", "မြန်မာ",   "😀",        "👩‍💻", "🇫🇷",     "👍🏽", "1️⃣",
                            "שָׁלוֹם", "صـلاة",   "L'été",    "c++",         "U.S.A.", "3.14",     "\"",
                            "+",    "-",       " ",        "　",          "\xFF",   "\xE4\xB8", "ﷺ",
                            "ﬁ",    "e\u0301", "\u202E",   "_",           ".",      "'"};
  std::string out;
  const auto count = *rc::gen::inRange(0, 40);
  for (int i = 0; i < count; ++i) out += *rc::gen::elementOf(pieces);
  return out;
}

}  // namespace

TEST_CASE("words are split at other characters, and case, width and ligatures do not matter", "[text]") {
  CHECK(terms("Hello, World! snake_case") == Words{"hello", "world", "snake", "case"});
  CHECK(terms("Ａ股") == terms("A股"));
  CHECK(terms("Ａ股三大") == Words{"a", "股三", "三大"});
  CHECK(terms("ＵＳＢ") == Words{"usb"});
  CHECK(terms("ﾃﾞｰﾀ") == terms("データ"));
  CHECK(terms("データ") == Words{"デー", "ータ"});
  CHECK(terms("ﬁnance") == Words{"finance"});
  CHECK(terms("straße") == Words{"strasse"});
  CHECK(terms("ΟΔΟΣ") == terms("οδος"));
  CHECK(terms("caf\u00e9") == terms("cafe\u0301"));
  CHECK(terms("İstanbul") == Words{"istanbul"});
  CHECK(terms("… — !? 　").empty());
  CHECK(terms("").empty());
}

TEST_CASE("a run of Han, kana or Hangul is its pairs of characters, and one character is a word", "[text]") {
  CHECK(terms("北京天气") == Words{"北京", "京天", "天气"});
  CHECK(terms("北京天气", {Form::kCharacter}) == Words{"北", "京", "天", "气"});
  CHECK(terms("看 news") == Words{"看", "news"});
  CHECK(terms("看", {Form::kCharacter}).empty());
  CHECK(terms("東京タワーの夜景").size() == 7);
  CHECK(terms("한국시장") == Words{"한국", "국시", "시장"});
  CHECK(terms("华为Mate90发布会") == Words{"华为", "mate90", "发布", "布会"});
  CHECK(terms("電腦") == terms("电脑"));
  CHECK(terms("\U00020000\U00020001").size() == 1);
}

TEST_CASE("words inside a run of Thai, Lao, Khmer and Burmese are found", "[text]") {
  CHECK(contains(terms("ฉันชอบเรียนภาษาไทย"), "ภาษา"));
  CHECK(contains(terms("ฉันชอบเรียนภาษาไทย"), "เรียน"));
  CHECK(contains(terms("ฉันทำงานที่บ้าน"), "ทำงาน"));  // NFKC decomposes a vowel of this word
  CHECK(contains(terms("ຂ້ອຍມັກອ່ານຫນັງສືພິມ"), "ອ່ານ"));
  CHECK(contains(terms("ខ្ញុំចូលចិត្តអានសៀវភៅ"), "សៀវភៅ"));
  CHECK(contains(terms("ကျွန်တော်စာအုပ်ဖတ်နေသည်"), "စာအုပ်"));
  const std::string fragment = terms("ภาษาไทย", {Form::kFragment}).front();
  CHECK(contains(terms("ฉันชอบเรียนภาษาไทย", {Form::kFragment}), fragment));
  CHECK(terms("ไทย", {Form::kFragment}).size() == 1);
}

TEST_CASE("an emoji is a word, without its color, and so is a flag", "[text]") {
  CHECK(terms("party🎉time 😀") == Words{"party", "🎉", "time", "😀"});
  CHECK(terms("👍🏽") == terms("👍"));
  CHECK(terms("🇫🇷🇩🇪") == Words{"🇫🇷", "🇩🇪"});
  CHECK(terms("❤️") == terms("❤"));
}

TEST_CASE("a word with an apostrophe is found whole and by its parts", "[text]") {
  CHECK(terms("L'été") == Words{"l", "été"});
  CHECK(compounds("L'été") == Words{"l'été"});
  CHECK(compounds("don’t") == compounds("don't"));
  CHECK(compounds("AT&T c++ C#, צה״ל צה\"ל") == Words{"at&t", "c++", "c#", "צה\"ל", "צה\"ל"});
  CHECK(compounds("U.S.A. and e.g. nothing") == Words{"usa", "eg"});
  CHECK(compounds("3.14 and 1,000") == Words{"3.14", "1,000"});
  CHECK(compounds("end. Next a.word word.b 'quoted' a'' &c a+b").empty());
}

TEST_CASE("words in a row have consecutive positions", "[text]") {
  std::map<std::string, std::uint32_t> at;
  const std::uint32_t count = text::for_each_token(
      "L'été 北京天 end", [&](const text::Token& token) { at[std::string(token.term)] = token.position; });
  CHECK(at == std::map<std::string, std::uint32_t>{{"l", 0},
                                                   {"l'été", 0},
                                                   {"été", 1},
                                                   {"北", 2},
                                                   {"北京", 2},
                                                   {"京", 3},
                                                   {"京天", 3},
                                                   {"天", 4},
                                                   {"end", 5}});
  CHECK(count == 6);
}

TEST_CASE("accents, vowel points and tatweel are left out, vowel signs of Indic scripts are not", "[text]") {
  const std::map<std::string, std::string> pairs{
      {"münchen", "munchen"}, {"phở", "pho"},     {"élection", "election"}, {"ёж", "еж"},
      {"οδός", "οδος"},       {"ısı", "isi"},     {"đường", "duong"},       {"smørrebrød", "smorrebrod"},
      {"שָׁלוֹם", "שלום"},       {"كِتَاب", "كتاب"},   {"صـــلاة", "صلاة"},      {"फ़िल्म", "फिल्म"},
      {"किताब", "किताब"},     {"plain", "plain"}, {"한국", "한국"},         {"ไทย", "ไทย"}};
  for (const auto& [word, expected] : pairs) {
    INFO(word);
    CHECK(text::without_accents(terms(word).front()) == terms(expected).front());
  }
  CHECK(text::without_accents("\u0301") == "\u0301");  // never empty
}

TEST_CASE("words of more than 64 characters are left out", "[text]") {
  CHECK(terms(std::string(64, 'a')).size() == 1);
  CHECK(terms(std::string(65, 'a') + " b") == Words{"b"});
  CHECK(terms(repeated("ж", 128)).size() == 1);
}

TEST_CASE("any text gives normalized terms within their bounds, the same again when they are split",
          "[text]") {
  CHECK(rc::check([] {
    const std::string text = any_text();
    std::uint32_t last = 0;
    const std::uint32_t count = text::for_each_token(text, [&](const text::Token& token) {
      RC_ASSERT(!token.term.empty());
      RC_ASSERT(token.term.size() <= text::kMaxTermBytes);
      RC_ASSERT(utf8::is_valid(token.term));
      last = std::max(last, token.position + 1);
      if (token.form != Form::kWord) return;
      const Words again = terms(token.term);
      RC_ASSERT(contains(again, std::string(token.term)));
      const std::string unaccented = text::without_accents(token.term);
      RC_ASSERT(!unaccented.empty() && unaccented.size() <= text::kMaxTermBytes);
    });
    RC_ASSERT(last <= count);
  }));
}

TEST_CASE("a text gives the same words in NFC and NFD, in upper case, and in the middle of another",
          "[text]") {
  CHECK(rc::check([] {
    const std::string text = any_text();
    if (utf8::is_valid(text)) RC_ASSERT(terms(utf8::to_nfc(text)) == terms(text));
    Words around = terms(text);
    around.insert(around.begin(), "before");
    around.emplace_back("after");
    RC_ASSERT(terms("before . " + text + " . after") == around);
  }));
}

TEST_CASE("the cost of 256 KiB grows with its length, whatever it contains", "[text]") {
  constexpr std::size_t kMost = 256 * 1024;
  for (const std::string_view unit :
       {"a",      "a'",    "a.", "1,", "北",   "ก",  "ภาษาไทย", "ຂ", "ខ្មែរ", "မြန်မာ", "\u0301",
        "\u202E", "a北ก😀", "ﷺ",  "🇫",  "\xFF", "\"", "+",       "#", "a+",   "ู",      "က္"}) {
    const auto cost = [&](std::size_t bytes) {
      const std::string text = repeated(unit, bytes);
      std::size_t tokens = 0;
      text::for_each_token(text, [&](const text::Token&) { ++tokens; });
      return tokens;
    };
    INFO(unit);
    const std::size_t eighth = cost(kMost / 8), whole = cost(kMost);
    CHECK(whole <= 8 * eighth + 100);
    CHECK(whole <= 3 * kMost);
  }
}
