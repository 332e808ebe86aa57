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
#include "core/search/recent_index.h"

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
  // The same query, if it consists of alternatives only.
  std::vector<search::WeightedTerm> alternatives;
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

// A query for the items that have at least one of the terms.
Xapian::Query any_of(const std::vector<search::WeightedTerm>& terms);

// Turns interests into terms: the best kMaxTerms of the items' tags and title words, ranked by
// (sum of the weights of the items that have it) × idf. Their weights are scaled so that Σ weight ×
// idf over the query's terms is `total`, however many interests there are. Caches the terms of
// items and the frequencies of terms for kCacheTtl. One per thread.
class InterestTerms {
 public:
  static constexpr std::size_t kMaxTerms = 13;
  static constexpr std::chrono::minutes kCacheTtl{5};
  static constexpr std::size_t kMaxInterests = 32;  // only the first are used, which are the newest

  // Empty if the index has none of the items. Throws Xapian::Error.
  std::vector<search::WeightedTerm> weigh(const Xapian::Database& database,
                                          const std::vector<Interest>& interests, double total = 1);

 private:
  using Clock = std::chrono::steady_clock;
  struct ItemTerm {
    std::uint32_t term = 0;  // in terms_
    bool is_tag = false;
  };
  struct ItemTerms {
    std::vector<ItemTerm> terms;
    Clock::time_point expires_at;
  };
  struct Term {
    std::string name;
    double idf = 0;
    Clock::time_point expires_at;
  };
  const std::vector<ItemTerm>& item_terms(const Xapian::Database& database, const ItemId& item,
                                          Clock::time_point now);
  std::uint32_t number_of(std::string name);

  std::unordered_map<ItemId, ItemTerms> items_;
  std::vector<Term> terms_;
  std::unordered_map<std::string, std::uint32_t> numbers_;  // of terms_
};

}  // namespace freshet::feed
