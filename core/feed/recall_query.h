// What recall looks for: a reader's words, or the like of items that they engaged with, as a Xapian
// query.
#pragma once

#include <xapian.h>

#include <chrono>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/result.h"
#include "core/feed/ports.h"

namespace freshet::feed {

// Longer texts are refused: each word is a term of the search.
inline constexpr std::size_t kMaxQueryBytes = 512;
// What counts of a shorter one: so many words, so many phrases, and so many words of each. A phrase
// is looked for in every item that has its words, which for frequent ones is most of the index.
inline constexpr std::size_t kMaxQueryWords = 32, kMaxPhrases = 2, kMaxPhraseWords = 6;

// Words are alternatives; "a phrase", +must and -not mean what they usually mean, all else is plain
// text. What does not parse is plain text too. Words joined by a point or a hyphen are a phrase; of
// a further one all words must be there, in any order. Empty when there is no word in it. Errors:
// kInvalid "bad_query", member "query": longer than kMaxQueryBytes.
Result<Xapian::Query> text_query(const std::string& text, const Xapian::Stem& stemmer);

// Makes queries of interests: the tags and title words of the items, each worth (sum of the weights
// of its items) × idf, the best kTerms of them. Remembers the items it has read for some seconds.
// One per thread.
class InterestTerms {
 public:
  static constexpr std::size_t kMaxTerms = 13;
  static constexpr std::size_t kMaxInterests = 32;  // the first, which are the newest

  // Empty when the index knows none of the items. Throws Xapian::Error.
  Xapian::Query build_query(const Xapian::Database& database, const std::vector<Interest>& interests);
  void clear_cache();

 private:
  using Clock = std::chrono::steady_clock;
  const std::vector<std::string>& item_terms(const Xapian::Database& database, const ItemId& item);
  double idf(const Xapian::Database& database, const std::string& term);

  std::unordered_map<ItemId, std::vector<std::string>> terms_;
  std::unordered_map<std::string, double> idf_;
  Clock::time_point cache_expires_at_;
};

}  // namespace freshet::feed
