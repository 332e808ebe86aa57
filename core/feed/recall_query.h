// Builds recall's Xapian queries, from a reader's text or from the items they interacted with.
#pragma once

#include <xapian.h>

#include <chrono>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/feed/ports.h"

namespace freshet::feed {

// Only the beginning of a longer text is used, since each word is a term of the search.
inline constexpr std::size_t kMaxQueryBytes = 512;
// Limits within that text: words, phrases, and words per phrase; the rest is ignored. A
// phrase is checked in every item that contains all its words, which for frequent words is most of
// the index.
inline constexpr std::size_t kMaxQueryWords = 32, kMaxPhrases = 2, kMaxPhraseWords = 6;

// Words are alternatives. "a phrase", +must and -not have their usual meaning; everything else,
// including invalid syntax, is plain text. Words joined by a dot or a hyphen are a phrase; beyond
// kMaxPhrases all words of a phrase must match, in any order. Empty if the text contains no words.
Xapian::Query text_query(std::string_view whole, const Xapian::Stem& stemmer);

// Builds queries from interests: the best kMaxTerms of the items' tags and title words, ranked by
// (sum of the weights of the items that have it) × idf. Their weights are scaled so that Σ weight ×
// idf over the query's terms is `total`, however many interests there are. Caches the terms of
// items for kCacheTtl. One per thread.
class InterestTerms {
 public:
  static constexpr std::size_t kMaxTerms = 13;
  static constexpr std::size_t kMaxInterests = 32;  // only the first are used, which are the newest

  // Empty if the index has none of the items. Throws Xapian::Error.
  Xapian::Query build_query(const Xapian::Database& database, const std::vector<Interest>& interests,
                            double total = 1);
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
