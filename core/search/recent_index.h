// The newest items of a local index, in memory, with the postings of the terms that searches ask
// for. A search of a few thousand recent items costs microseconds here, and milliseconds in Xapian.
//
// Items are loaded when a search first needs their time range, some thousand in each search until
// all are there, and a term's postings when a search first names it. When a slice has changed, its
// items' dates and fingerprints (kItemStateSlot) are compared with those in memory, and only items
// that differ are read. An item in memory has a number per slice; a changed item gets a new one, so
// that postings only ever grow.
//
// Weights equal those of Xapian's BM25 with its default parameters (k1 = 1, b = 0.5, min_normlen =
// 0.5; https://xapian.org/docs/bm25.html), up to rounding.
#pragma once

#include <xapian.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/search/index_folder.h"
#include "core/search/search_deadline.h"

namespace freshet::search {

struct WeightedTerm {
  std::string name;
  double factor = 1;  // of its BM25 weight; ≥ 0
};

struct OpenSlice {
  TimeSlice slice;
  Xapian::Database database;
};

// Used by one thread. Methods throw Xapian::Error, and SearchTimeout if they get a deadline; the
// object stays usable. Loading has no deadline, since later searches profit from it, but limits: a
// search loads at most Limits::loaded_items (about 12 ms). It also reads the date of every item of
// a slice (40 ns each, at most about 10 ms) when it begins to load the slice, and when it is the
// first to need the slice after a change; then it loads the items that have changed, too, at most
// 2,000. Slices with more than twice Limits::items are not loaded.
class RecentIndex {
 public:
  struct Limits {
    std::size_t items = 1 << 17;      // 60 bytes and the id, each
    std::size_t postings = 1 << 21;   // 4 bytes each
    std::size_t loaded_items = 4096;  // by one search; about 3 µs each
  };
  explicit RecentIndex(Limits limits) : limits_(limits) {}
  RecentIndex() : RecentIndex(Limits{}) {}

  struct Match {
    double weight = 0;
    std::int64_t published = 0;  // unix s
    std::string_view order_key;  // valid until the next call of any method
  };

  // Call before each search. `slices`: all of the index, oldest first.
  void refresh(const std::vector<OpenSlice>& slices);
  // Loads items published since `begin` (unix s), unless they are too many. Returns the time since
  // which all items are in memory, which may be later than `begin`; kNone if there are none.
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::int64_t load_since(std::int64_t begin);
  // The items published in [begin, end) that have at least one of the terms and weigh at least
  // `min_weight`, in no particular order. The higher it is, the fewer postings are read: items that
  // have only terms whose weights add up to less are skipped ("MaxScore": Turtle and Flood, Query
  // evaluation: strategies and optimizations, 1995). nullopt if a term cannot be held in memory.
  // REQUIRES: begin ≥ the last load_since().
  std::optional<std::vector<Match>> match(const std::vector<WeightedTerm>& terms, std::int64_t begin,
                                          std::int64_t end, double min_weight,
                                          const SearchDeadline* deadline);
  // An upper bound of the weight of any item.
  double highest_weight(const std::vector<WeightedTerm>& terms);

 private:
  static constexpr std::uint32_t kAbsent = std::numeric_limits<std::uint32_t>::max();
  // A posting is an item's number, and how often it has the term.
  static constexpr std::uint32_t kFrequencyBits = 14, kMaxFrequency = (1U << kFrequencyBits) - 1;
  static constexpr std::size_t kMaxItemsOfSlice = 1U << (32 - kFrequencyBits);

  struct Item {
    std::int64_t published = 0;
    std::uint64_t fingerprint = 0;
    std::uint32_t document = 0;  // Xapian's; 0: no longer in the index
    std::uint32_t key_offset = 0;
    std::uint16_t key_bytes = 0;
  };
  // The items of a slice that were published since a time.
  struct Items {
    std::int64_t since = kNone;
    bool is_cut = false;      // older items were asked for, but would be too many
    std::size_t sorted = 0;   // the first items, which are in order of date
    std::size_t removed = 0;  // items that are no longer in the index
    std::vector<Item> all;
    std::vector<std::uint32_t> lengths;    // of the items
    std::vector<std::uint32_t> by_number;  // Xapian's document number → item, or kAbsent
    std::string keys;                      // order keys of the items
  };
  struct ReadItem {  // one that is in the index
    std::int64_t published = 0;
    std::uint64_t fingerprint = 0;
    std::uint32_t document = 0;
  };
  struct Loading {  // continued by each search
    Items items;
    std::vector<ReadItem> found;
    std::size_t next = 0;  // of `found`
    Xapian::rev revision = 0;
  };
  struct Slice {
    TimeSlice slice;
    Xapian::Database database;
    std::string uuid;
    Xapian::rev revision = 0;
    std::uint64_t documents = 0, total_length = 0;
    // Incremented when term frequencies may have changed, and when postings refer to other items.
    std::uint32_t frequencies_version = 1, postings_version = 1;
    bool is_current = true;  // false: the items must be compared with the index
    Items items;
    std::optional<Loading> loading;
    std::vector<double> weights;  // of the items in the current search; negative: no match
  };
  struct TermSlice {
    std::uint32_t frequency = 0, frequency_version = 0, postings_version = 0;
    bool is_too_frequent = false;         // more than kMaxFrequency times in an item
    std::vector<std::uint32_t> postings;  // items in ascending order
  };
  struct Term {
    std::vector<TermSlice> slices;
    std::uint64_t last_used = 0;
  };

  struct QueryTerm {
    const std::string* name;
    Term* term;
    double weight;     // upper bound of what it adds to an item
    double following;  // the same for the terms after it
  };
  std::vector<QueryTerm> by_weight(const std::vector<WeightedTerm>& terms);
  void match_slice(std::size_t slice, const std::vector<QueryTerm>& terms, std::int64_t begin,
                   std::int64_t end, double min_weight, std::vector<Match>& out);

  static void set_items(Slice& slice, Items items);
  bool can_load(const Slice& slice) const;
  void load_some(Slice& slice, std::int64_t begin);
  Loading begin_loading(const Slice& slice, std::int64_t begin) const;
  void compare(Slice& slice);
  static std::uint32_t add_item(const Xapian::Database& database, Items& items, const ReadItem& item);
  void add_postings(std::size_t slice, std::uint32_t item);
  Term& find_term(const std::string& name);
  std::uint64_t frequency(const std::string& name, Term& term);
  bool load_postings(const std::string& name, Term& term, std::size_t slice);
  double term_weight(double frequency, double factor) const;
  std::size_t item_count() const;
  void forget_old_terms();

  Limits limits_;
  std::vector<Slice> slices_;  // oldest first
  double documents_ = 0, average_length_ = 0;
  std::unordered_map<std::string, Term> terms_;
  std::size_t postings_ = 0;  // in memory
  std::uint64_t searches_ = 0;
  std::size_t allowance_ = 0;           // items that this search may still load
  std::vector<std::uint32_t> matched_;  // used by match_slice()
};

}  // namespace freshet::search
