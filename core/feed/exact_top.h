// The exact best of BM25 × decay, reading only some of the matches.
//
// No inverted index is ordered by a product that changes with every second. But weights and decays
// can be bounded apart. Items are searched in ranges of time, the youngest first, over the whole
// database, so that a weight means the same in every range. Let T be the score of the N-th best so
// far:
//
//   - in a range, an item whose weight is below T / (decay of the range's youngest moment) cannot
//   be among
//     the best; Xapian takes that as a cutoff and skips most postings without weighing them;
//   - when (highest weight the query can give) × (decay of what is left) is below T, nothing older
//   can be.
//
// What scores nothing, or so little that it is 0, follows newest first. Compared with scoring
// everything by tests/feed/exactness_test.cpp.
#pragma once

#include <xapian.h>

#include <cstdint>
#include <limits>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/base/time.h"
#include "core/feed/decay.h"
#include "core/feed/ports.h"
#include "core/search/search_deadline.h"

namespace freshet::feed {

struct MatchQuery {
  Xapian::Query terms;        // weighted; may be empty
  bool matches_only = false;  // else all other items follow
};

// The newest of all items: the same for every reader as long as the index is.
struct NewestItems {
  static constexpr std::size_t kMaxItems = 2048;  // of more none are kept

  std::vector<Candidate> items;  // newest first, each once
  bool complete = false;              // there are no more
  bool has_future_items = false;            // something is dated after `at`, when they were the newest
  UnixSeconds as_of{};
  bool is_valid_for(UnixSeconds now, std::size_t count) const {
    return (complete || items.size() >= count) && (now == as_of || (now > as_of && !has_future_items));
  }
};

// One search of one database. Throws Xapian::Error.
class ExactTop {
 public:
  // `deadline`: null for none; it outlives this, as `newest` does: read and written, for searches
  // of the same database that has not changed in between; null: nothing is kept.
  ExactTop(const Xapian::Database& database, MatchQuery query, const GaussDecay& decay, UnixSeconds now,
           std::size_t size, const search::SearchDeadline* deadline = nullptr, NewestItems* newest = nullptr);
  // Call once. When the time is up: what was found until then, of which the ranges that were
  // searched whole are exact; throws SearchTimeUp when that is nothing.
  RecallResult search();

 private:
  struct Hit {
    double score = 0;
    std::string key;  // order_key()
    bool operator<(const Hit& other) const {
      return score != other.score ? score < other.score : key < other.key;
    }
  };
  struct Range {  // of publication
    std::int64_t begin = std::numeric_limits<std::int64_t>::min();
    std::int64_t end = std::numeric_limits<std::int64_t>::max();
  };

  void collect_scored();
  void search_range(const Range& range);
  double add_hits(const Xapian::MSet& matches);
  void append_unscored();
  void find_newest(const Xapian::Query& items, std::size_t wanted, std::unordered_set<std::string> known,
                   std::vector<Candidate>& out);
  std::int64_t first_range_width() const;
  std::int64_t aligned_begin(const Range& range) const;
  std::int64_t next_range_begin(const Range& searched) const;
  bool can_stop_before(std::int64_t end) const;
  double max_decay_before(std::int64_t end) const;
  bool is_full() const { return hits_.size() >= wanted_; }
  RecallResult build_result();
  // With items published in the range, and under the deadline.
  Xapian::Query restrict_to_range(const Xapian::Query& query, const Range& range) const;

  const Xapian::Database& database_;
  MatchQuery query_;
  const GaussDecay& decay_;
  std::int64_t now_;
  std::size_t size_, wanted_;                                    // one more is looked for: is there more?
  std::int64_t oldest_ = 0, newest_ = 0;                         // of what is not dated ahead
  std::int64_t search_end_ = std::numeric_limits<std::int64_t>::max();  // before which that lies
  double highest_weight_ = 0;                                    // that the terms can give any item
  double nth_score_ = 0;                                         // of hits_ when they are full
  std::vector<Hit> hits_;
  std::vector<Candidate> unscored_;  // what follows the hits
  NewestItems* newest_cache_;
  const search::SearchDeadline* deadline_;
};

}  // namespace freshet::feed
