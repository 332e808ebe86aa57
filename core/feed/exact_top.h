// Exact top-k by (base + BM25) × decay that reads only some of the matches.
//
// No inverted index can be ordered by a product that changes every second, but weight and decay can
// be bounded separately. Items are searched in ranges of publish time, newest range first, always
// over the whole database so that a weight means the same in every range. Let T be the k-th best
// score so far:
//
//   - In a range, an item whose weight is below T / (decay of the range's newest moment) cannot be
//     in the result. Xapian takes that as a cutoff and skips most postings without weighing them.
//     Ranges of recent items are matched in memory instead (search::RecentIndex).
//   - Once (base + highest weight the query can give) × (decay of what remains) is below T, no
//     older item can be in the result.
//
// With a base, the newest k items are candidates as well: no other item without a match can be in
// the result. Items whose score is 0 or underflows to 0 follow, newest first.
// tests/feed/exactness_test.cpp compares the results with those of scoring every item.
#pragma once

#include <xapian.h>

#include <cstdint>
#include <limits>
#include <memory_resource>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/base/time.h"
#include "core/feed/decay.h"
#include "core/feed/ports.h"
#include "core/search/recent_index.h"
#include "core/search/search_deadline.h"

namespace freshet::feed {

struct MatchQuery {
  Xapian::Query terms;        // weighted; may be empty, also if there are alternatives
  bool matches_only = false;  // only items that match
  double base = 0;            // ≥ 0; added to the weight of every item. 0 if matches_only
  // The same terms, if they are alternatives only. Recent items are then matched in memory.
  std::vector<search::WeightedTerm> alternatives = {};
};

// Cache of the newest items of the index. The same for all readers until the index changes.
struct NewestItems {
  static constexpr std::size_t kMaxItems = 2048;  // longer lists are not cached

  std::vector<Candidate> items;   // newest first, without duplicates
  bool complete = false;          // the index has no further items
  bool has_future_items = false;  // some items were dated after `as_of`
  UnixSeconds as_of{};
  bool is_valid_for(UnixSeconds now, std::size_t count) const {
    return (complete || items.size() >= count) && (now == as_of || (now > as_of && !has_future_items));
  }
};

// One search of one database. Throws Xapian::Error.
class ExactTop {
 public:
  // `deadline` may be null (no limit). `newest` may be null (no caching); it is read and updated,
  // and may be shared by searches of the same database as long as that does not change. `recent`,
  // which may be null, must be of the same database. All must outlive this.
  ExactTop(const Xapian::Database& database, MatchQuery query, const GaussDecay& decay, UnixSeconds now,
           std::size_t size, const search::SearchDeadline* deadline = nullptr, NewestItems* newest = nullptr,
           search::RecentIndex* recent = nullptr);
  // Call once. On timeout returns what was found so far, in which the fully searched ranges are
  // exact; throws SearchTimeout if nothing was found.
  RecallResult search();

 private:
  struct Hit {
    double score = 0;
    std::int64_t published = 0;
    std::string_view item;  // in ids_ or in the newest items
    bool operator<(const Hit& other) const {
      if (score != other.score) return score < other.score;
      return published != other.published ? published < other.published : item < other.item;
    }
  };
  struct Range {  // publish time, [begin, end)
    std::int64_t begin = std::numeric_limits<std::int64_t>::min();
    std::int64_t end = std::numeric_limits<std::int64_t>::max();
  };

  void collect_scored();
  bool match_recent(Range& range);
  bool match_part(const Range& range);
  std::vector<double> decay_bounds(const Range& range, std::int64_t width) const;
  void search_range(const Range& range);
  double add_hits(const Xapian::MSet& matches);
  void keep_best_hits(std::size_t known);
  std::string_view copy_id(std::string_view id);
  void load_newest();
  void add_newest_to_hits();
  void append_unscored();
  const std::vector<Candidate>& newest_items();
  void find_newest(const Xapian::Query& items, std::size_t wanted, std::unordered_set<std::string> known,
                   std::vector<Candidate>& out);
  bool has_terms() const { return !query_.terms.empty() || !query_.alternatives.empty(); }
  const Xapian::Query& terms();
  std::int64_t first_range_width() const;
  std::int64_t aligned_begin(const Range& range) const;
  std::int64_t next_range_begin(const Range& searched) const;
  bool can_stop_before(std::int64_t end) const;
  double max_decay_before(std::int64_t end) const;
  RecallResult build_result();
  double score_of(double weight, seconds age) const { return (query_.base + weight) * decay_.at(age); }
  // Restricts a query to items published in the range, and applies the deadline.
  Xapian::Query restrict_to_range(const Xapian::Query& query, const Range& range) const;

  const Xapian::Database& database_;
  MatchQuery query_;
  const GaussDecay& decay_;
  std::int64_t now_;
  std::size_t size_, wanted_;             // wanted_ is size_ + 1, to learn whether there are more
  std::int64_t oldest_ = 0, newest_ = 0;  // of the items that are not dated in the future
  // Search ends here: items from this second on are dated in the future.
  std::int64_t search_end_ = std::numeric_limits<std::int64_t>::max();
  double highest_weight_ = 0;  // upper bound of the weight of any item
  // True if hits_ and newest_hits_ together have `wanted_` items; then nth_score_ is the lowest
  // score of the best of them.
  bool is_full_ = false;
  double nth_score_ = 0;
  std::pmr::monotonic_buffer_resource ids_;
  std::vector<Hit> hits_;            // the best matches
  std::vector<Hit> newest_hits_;     // with a base: the newest items, scored as if they did not match
  std::vector<Candidate> unscored_;  // items without a score, newest first, that follow the hits
  NewestItems* newest_cache_;
  NewestItems uncached_newest_;
  const search::SearchDeadline* deadline_;
  search::RecentIndex* recent_;
};

}  // namespace freshet::feed
