// Counts how often a query finds the passage that it was made from among its first ten results:
//   search_quality <passages
//
// Reads one passage per line, which becomes an item: its title is the beginning, its text the
// whole, and all have the same date. Makes up to 300 queries of each kind, from different passages,
// and searches with the recall of the workers:
//   two words     two words of the passage, in any order, without a space between them. ICU finds
//                 the words: of two or more Chinese characters, in at most 5 % of the passages
//   beginning     the first six characters and 怎么样, if they are all Chinese and no other passage
//                 begins with them
//   full width    a Latin word or number of at most ten passages, in full-width letters
// Prints the share found of each kind, and exits with 1 if one is below 0.95. The same input gives
// the same output.
#include <stdlib.h>
#include <unicode/brkiter.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/uscript.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/feed/recall.h"
#include "core/search/search_index.h"

using namespace freshet;

namespace {

constexpr std::size_t kQueries = 300, kResults = 10, kBeginning = 6, kTitle = 24;
constexpr double kGoal = 0.95;
const UnixSeconds kNow{seconds{1770000000}};

std::string to_utf8(const icu::UnicodeString& text) {
  std::string out;
  text.toUTF8String(out);
  return out;
}

icu::UnicodeString prefix_of(const icu::UnicodeString& text, std::size_t characters) {
  return text.tempSubString(0, text.moveIndex32(0, static_cast<std::int32_t>(characters)));
}

bool is_all(const icu::UnicodeString& word, UBool (*holds)(UChar32)) {
  for (std::int32_t i = 0; i < word.length(); i = word.moveIndex32(i, 1)) {
    if (holds(word.char32At(i)) == 0) return false;
  }
  return true;
}

UBool is_han(UChar32 c) {
  UErrorCode status = U_ZERO_ERROR;
  return static_cast<UBool>(uscript_getScript(c, &status) == USCRIPT_HAN);
}
UBool is_ascii_alphanumeric(UChar32 c) { return static_cast<UBool>(c < 0x80 && u_isalnum(c) != 0); }

struct Passage {
  std::string id;
  icu::UnicodeString text;
  std::set<icu::UnicodeString> han_words, latin_words;
};

std::vector<Passage> read_passages(std::istream& in) {
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<icu::BreakIterator> breaks(
      icu::BreakIterator::createWordInstance(icu::Locale::getChinese(), status));
  if (U_FAILURE(status)) return {};
  std::vector<Passage> out;
  for (std::string line; std::getline(in, line);) {
    Passage& passage = out.emplace_back();
    passage.id = "p" + std::to_string(out.size());
    passage.text = icu::UnicodeString::fromUTF8(line);
    breaks->setText(passage.text);
    for (std::int32_t begin = 0, end = breaks->next(); end != icu::BreakIterator::DONE;
         begin = end, end = breaks->next()) {
      const icu::UnicodeString word(passage.text, begin, end - begin);
      if (word.countChar32() >= 2 && is_all(word, is_han)) passage.han_words.insert(word);
      if (word.countChar32() >= 3 && is_all(word, is_ascii_alphanumeric))
        passage.latin_words.insert(icu::UnicodeString(word).toLower());
    }
  }
  return out;
}

void exit_on_error(const Result<void>& result) {
  if (result) return;
  std::fprintf(stderr, "search_quality: %s\n", result.error().detail.c_str());
  std::exit(2);
}

void write_index(const SearchSettings& settings, const std::vector<Passage>& passages) {
  const auto index = search::SearchIndex::open(settings).value();
  for (const Passage& each : passages) {
    items::Item item;
    item.id = ItemId::trusted(each.id);
    item.title = to_utf8(prefix_of(each.text, kTitle));
    item.text = to_utf8(each.text);
    item.published_at = kNow;
    exit_on_error(index->put(item));
  }
  exit_on_error(index->commit());
}

// Makes the queries. The order of words in sets and maps is that of their code units.
class Queries {
 public:
  explicit Queries(const std::vector<Passage>& passages) : passages_(passages) {
    for (const Passage& each : passages) {
      for (const auto* words : {&each.han_words, &each.latin_words}) {
        for (const icu::UnicodeString& word : *words) ++passages_with_[word];
      }
      ++passages_beginning_[prefix_of(each.text, kBeginning)];
    }
  }

  // Each of these returns an empty string for a passage that offers no query.
  std::string two_words(const Passage& passage) {
    auto words = words_in_at_most(passage.han_words, passages_.size() / 20);
    if (words.size() < 2) return {};
    const std::size_t first = random_() % words.size();
    const std::size_t second = (first + 1 + random_() % (words.size() - 1)) % words.size();
    return to_utf8(words[first] + words[second]);
  }
  std::string beginning(const Passage& passage) {
    const icu::UnicodeString six = prefix_of(passage.text, kBeginning);
    if (!is_all(six, is_han) || passages_beginning_.at(six) > 1) return {};
    return to_utf8(six) + "怎么样";
  }
  std::string full_width(const Passage& passage) {
    constexpr UChar kShift = 0xFF01 - 0x21;
    auto words = words_in_at_most(passage.latin_words, kResults);
    if (words.empty()) return {};
    icu::UnicodeString word = words[random_() % words.size()];
    for (std::int32_t i = 0; i < word.length(); ++i) word.setCharAt(i, static_cast<UChar>(word[i] + kShift));
    return to_utf8(word);
  }

 private:
  std::vector<icu::UnicodeString> words_in_at_most(const std::set<icu::UnicodeString>& words,
                                                   std::size_t most) const {
    std::vector<icu::UnicodeString> out;
    std::copy_if(words.begin(), words.end(), std::back_inserter(out),
                 [&](const icu::UnicodeString& word) { return passages_with_.at(word) <= most; });
    return out;
  }

  const std::vector<Passage>& passages_;
  std::map<icu::UnicodeString, std::size_t> passages_with_, passages_beginning_;
  std::mt19937_64 random_{37};
};

bool finds(feed::BlockingRecall& recall, const std::string& query, const std::string& id) {
  const auto found = recall.search({query, {}, kNow, kResults}).value();
  return std::ranges::any_of(found.candidates,
                             [&](const feed::Candidate& each) { return each.item.view() == id; });
}

// Returns whether the goal is met. With FRESHET_VERBOSE in the environment, prints what was missed.
bool measure(const char* name, const std::vector<Passage>& passages, feed::BlockingRecall& recall,
             const std::function<std::string(const Passage&)>& make_query) {
  std::size_t tried = 0, found = 0;
  // A stride that is coprime to the number of passages visits all, far from each other.
  for (std::size_t i = 0, at = 0; i < passages.size() && tried < kQueries;
       ++i, at = (at + 7919) % passages.size()) {
    const std::string query = make_query(passages[at]);
    if (query.empty()) continue;
    ++tried;
    if (finds(recall, query, passages[at].id)) {
      ++found;
    } else if (std::getenv("FRESHET_VERBOSE") != nullptr) {
      std::printf("  %s: %s: %s\n", name, query.c_str(), to_utf8(passages[at].text).c_str());
    }
  }
  const double share = tried == 0 ? 0 : static_cast<double>(found) / static_cast<double>(tried);
  std::printf("%-12s %8zu %8zu %10.3f\n", name, tried, found, share);
  return share >= kGoal;
}

}  // namespace

int main() {
  const std::vector<Passage> passages = read_passages(std::cin);
  char temporary[] = "/tmp/search_quality.XXXXXX";
  if (mkdtemp(temporary) == nullptr || passages.empty()) {
    std::fprintf(stderr, "search_quality: no passages, or no folder in /tmp\n");
    return 2;
  }
  Settings settings;
  settings.search.index = std::string(temporary) + "/index";
  write_index(settings.search, passages);
  std::printf("%zu passages\n%-12s %8s %8s %10s\n", passages.size(), "", "queries", "found", "success@10");
  bool good = true;
  {
    feed::BlockingRecall recall(settings);
    Queries queries(passages);
    good &= measure("two words", passages, recall, [&](const Passage& p) { return queries.two_words(p); });
    good &= measure("beginning", passages, recall, [&](const Passage& p) { return queries.beginning(p); });
    good &= measure("full width", passages, recall, [&](const Passage& p) { return queries.full_width(p); });
  }
  std::filesystem::remove_all(temporary);
  return good ? 0 : 1;
}
