// The query language: operators, phrases, and text that only looks like them.
#include "core/search/query_parser.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

using namespace freshet;
using search::parse_query;
using search::Presence;

namespace {

// Clauses as text: "+[a b] -c", where [] is a phrase and words stand for themselves.
std::string parsed(std::string_view text) {
  std::string out;
  for (const search::QueryClause& clause : parse_query(text)) {
    if (!out.empty()) out += ' ';
    if (clause.presence != Presence::kOptional) out += clause.presence == Presence::kRequired ? '+' : '-';
    std::string words;
    for (const search::QueryToken& token : clause.tokens) {
      if (token.form != text::Form::kWord && token.form != text::Form::kPair) continue;
      if (!words.empty()) words += clause.is_phrase ? " " : "/";
      words += token.term;
    }
    out += clause.is_phrase ? "[" + words + "]" : words;
  }
  return out;
}

std::size_t count_words(const std::vector<search::QueryClause>& clauses) {
  std::size_t words = 0;
  for (const search::QueryClause& clause : clauses) {
    std::int64_t last_run = -1;
    for (const search::QueryToken& token : clause.tokens) {
      if (token.form == text::Form::kWord || (token.form == text::Form::kPair && token.run != last_run))
        ++words;
      if (token.form != text::Form::kCharacter) last_run = token.run;
    }
  }
  return words;
}

std::string any_query() {
  static const std::vector<std::string> pieces{
      "\"",      "+",   "-",     " ", "　", "word", "東京", "求人",    "派遣社員", "Django",
      "ภาษาไทย", "😀",   "צה\"ל", "'", "(",  "\xFF", "c++",  "e\u0301", "\u202E",   "*",
      "AND",     "NOT", "~",     ":", "／", "＋",   "“",    "”"};
  std::string out;
  const auto count = *rc::gen::inRange(0, 80);
  for (int i = 0; i < count; ++i) out += *rc::gen::elementOf(pieces);
  return out;
}

}  // namespace

TEST_CASE("words, required words, excluded words and phrases are told apart", "[query]") {
  CHECK(parsed("red fox") == "red fox");
  CHECK(parsed("+red -fox") == "+red -fox");
  CHECK(parsed("\"red fox\" hen") == "[red fox] hen");
  CHECK(parsed("+\"red fox\" -\"a hen\" b") == "+[red fox] -[a hen] b");
  CHECK(parsed("  \t red　fox\n") == "red fox");
  CHECK(parsed("wi-fi c-d") == "wi/fi c/d");
}

TEST_CASE("operators hold in any mix of scripts", "[query]") {
  CHECK(parsed("東京 Python 求人 Django -派遣") == "东京 python 求人 django -派遣");
  CHECK(parsed("+한국 -시장 a") == "+한국 -시장 a");
  CHECK(parsed("北京\"天气预报\"华为") == "北京 [天气 气预 预报] 华为");
  CHECK(parsed("+ภาษาไทย -😀 x") == "+ภาษา/ไทย -😀 x");
  CHECK(parsed("手机 a 价格 b") == "手机 a 价格 b");
  CHECK(parsed("北京-上海") == "北京/上海");
}

TEST_CASE("invalid syntax is text", "[query]") {
  for (const char* nothing : {"", "\"", "-", "+", "+-\"", "\"\"", "!?…", "- +", "\"\"\"", "+\"", "-\"\""}) {
    INFO(nothing);
    CHECK(parse_query(nothing).empty());
  }
  CHECK(parsed("\"red") == "red");
  CHECK(parsed("red\"") == "red");
  CHECK(parsed("--red +-fox") == "red fox");
  CHECK(parsed("- red") == "red");
  CHECK(parsed("c++ a+b") == "c a/b");
  CHECK(parsed("(red OR fox) NEAR/ x:y*") == "red or fox near x/y");
  CHECK(parsed("15\" and 17\" wide") == "15 and 17 wide");
  CHECK(parsed("צה\"ל ארה\"ב") == "צה/ל ארה/ב");
  CHECK(parsed("\"צה\"ל חזק\" x") == "[צה ל חזק] x");
}

TEST_CASE("without anything to exclude from, excluded words are searched for", "[query]") {
  CHECK(parsed("-red") == "red");
  CHECK(parsed("-red -fox") == "red fox");
  CHECK(parsed("-red +fox") == "-red +fox");
}

TEST_CASE("512 bytes and 32 words are read", "[query]") {
  std::string words;
  for (int i = 0; i < 100; ++i) words += "w" + std::to_string(i) + " ";
  CHECK(count_words(parse_query(words)) == 32);
  CHECK(parse_query(words + "x").back().tokens.front().term == "w31");
  CHECK(parsed(std::string(511, ' ') + "ab") == "a");
  CHECK(parsed(std::string(511, ' ') + "文") == "");
  CHECK(parse_query(std::string(512, '+')).empty());
  CHECK(parse_query(std::string(512, '-')).empty());
  CHECK(parse_query(std::string(512, '"')).empty());
}

TEST_CASE("any text is a query within the limits", "[query]") {
  CHECK(rc::check([] {
    const std::string text = any_query();
    const auto clauses = parse_query(text);
    RC_ASSERT(count_words(clauses) <= search::kMaxQueryWords);
    for (const search::QueryClause& each : clauses) RC_ASSERT(!each.tokens.empty());
    const auto is_excluded = [](const search::QueryClause& each) {
      return each.presence == Presence::kExcluded;
    };
    RC_ASSERT(clauses.empty() || !std::all_of(clauses.begin(), clauses.end(), is_excluded));
  }));
}

TEST_CASE("an operator holds wherever its word stands in the query", "[query]") {
  CHECK(rc::check([] {
    const std::string before = any_query(), after = any_query();
    if (before.find('"') != std::string::npos || before.size() + after.size() > 400) return;
    const auto clauses = parse_query(before + " +needed -unwanted " + after);
    if (count_words(parse_query(before)) > 30) return;
    const auto has = [&](const char* word, Presence presence) {
      return std::any_of(clauses.begin(), clauses.end(), [&](const search::QueryClause& each) {
        return each.presence == presence && each.tokens.front().term == word;
      });
    };
    RC_ASSERT(has("needed", Presence::kRequired));
    RC_ASSERT(has("unwanted", Presence::kExcluded));
  }));
}
