// The partitions of an index that is being written: which one an item belongs to, and keeping them
// few.
//
// Each search pays for each partition (0.04 ms with 13 terms: the statistics of every term are
// summed over all of them), and gains from the small ones at the young end, where nearly all of it
// happens. So an item of a week that has none gets a partition of that week, and when there are
// more than kMaxPartitions the two neighbours with the fewest documents become one, the youngest
// excepted. Measured with tests/bench/recall_bench.cpp over 100,000 items of 100 days.
#pragma once

#include <xapian.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/search/index_folder.h"

namespace freshet::search {

inline constexpr std::size_t kMaxSlices = 5;
inline constexpr std::size_t kUnmergedSlices = 4;  // are never merged

// Changes wait in memory until commit(). Every method throws Xapian::Error and std::exception;
// after that the object is of no use but for discard().
class TimeSlices {
 public:
  // What is written goes to `folder`; `partitions` are those to go on with.
  TimeSlices(IndexFolder folder, const std::vector<TimeSlice>& slices);
  ~TimeSlices() { discard(); }
  TimeSlices(const TimeSlices&) = delete;
  TimeSlices& operator=(const TimeSlices&) = delete;

  // Replaces the document with `id_term`, wherever it is.
  void put(const Xapian::Document& document, const std::string& id_term, UnixSeconds published);
  void remove(const std::string& id_term);
  // One partition after the other, the youngest first; then merges.
  void commit();
  // Drops what was not committed.
  void discard() noexcept;

  std::vector<TimeSlice> slices() const;
  std::uint64_t documents() const;

 private:
  struct OpenSlice {
    TimeSlice slice;
    Xapian::Database reader;  // until there is a writer
    std::optional<Xapian::WritableDatabase> writer;
    bool in_transaction = false;  // a transaction is open
    bool contains(const std::string& id_term) const;
    std::uint64_t documents() const;
  };
  OpenSlice& slice_for(UnixSeconds published);
  Xapian::WritableDatabase& writer(OpenSlice& open);
  void merge_with_next(std::size_t index);

  IndexFolder folder_;
  std::vector<OpenSlice> open_slices_;  // oldest first
};

}  // namespace freshet::search
