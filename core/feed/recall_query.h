// Builds recall's Xapian queries, from a reader's text or from the items they interacted with.
#pragma once

#include <xapian.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/feed/ports.h"

namespace freshet::feed {

// Limits besides those of search::parse_query(): terms of the search, phrases, and words per
// phrase. A phrase is checked in every item that contains all its words, which for frequent words
// is most of the index.
inline constexpr std::size_t kMaxQueryTerms = 96, kMaxPhrases = 2, kMaxPhraseWords = 6;

// Terms of a reader's text that were written without a space between them.
struct QueryRun {
  struct Term {
    std::string name;
    std::uint32_t position = 0;  // within the text
  };
  std::vector<Term> terms;  // at least two
};

struct TextQuery {
  Xapian::Query query;  // empty if the text contains no words
  // An item that has the terms of a run as close together as the text ranks higher
  // (rank_adjacent_higher()).
  std::vector<QueryRun> runs;
};

// Searches for the words of a text (search::parse_query()). A word without its accents also
// matches, and weighs less. Of the words of a phrase, those beyond kMaxPhraseWords only have to
// occur; so do all words of a phrase beyond kMaxPhrases. `database` tells how frequent words are.
// Throws Xapian::Error.
TextQuery text_query(std::string_view text, const Xapian::Stem& stemmer, const Xapian::Database& database,
                     bool is_local = true);

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
