// The time slices of an index being written: assigns items to slices, and keeps the number of
// slices small.
//
// Every search costs time per slice (0.04 ms with 13 terms: statistics of every term are summed
// over all slices), but gains from small recent ones, where nearly all results come from. An item
// of a week without a slice therefore gets a new slice of that week; when there are more than
// kMaxSlices, the two neighbors with the fewest documents are merged, except the most recent ones.
// Measured with tests/bench/recall_bench.cpp over 100,000 items of 100 days.
#pragma once

#include <xapian.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/search/index_folder.h"

namespace freshet::search {

inline constexpr std::size_t kMaxSlices = 5;
inline constexpr std::size_t kUnmergedSlices = 4;  // the most recent slices, which are never merged

// Changes are buffered in memory until commit(). Every method throws Xapian::Error and
// std::exception; after that only discard() may be called.
class TimeSlices {
 public:
  // Writes documents whose terms are of `version` to `folder`; continues with `slices`.
  TimeSlices(IndexFolder folder, const std::vector<TimeSlice>& slices, std::string version);
  ~TimeSlices() { discard(); }
  TimeSlices(const TimeSlices&) = delete;
  TimeSlices& operator=(const TimeSlices&) = delete;

  // Replaces the document with `id_term` in whichever slice it is.
  void put(const Xapian::Document& document, const std::string& id_term, UnixSeconds published);
  void remove(const std::string& id_term);
  // Commits one slice after the other, the most recent first; then merges.
  void commit();
  // Discards uncommitted changes.
  void discard() noexcept;

  std::vector<TimeSlice> slices() const;
  std::uint64_t documents() const;
  // The version of the terms in all slices; one that differs from the constructor's if any does.
  const std::string& version() const { return version_; }

 private:
  struct OpenSlice {
    TimeSlice slice;
    Xapian::Database reader;  // unused once there is a writer
    std::optional<Xapian::WritableDatabase> writer;
    bool in_transaction = false;
    bool contains(const std::string& id_term) const;
    std::uint64_t documents() const;
  };
  OpenSlice& slice_for(UnixSeconds published);
  Xapian::WritableDatabase& writer(OpenSlice& open);
  void merge_with_next(std::size_t index);

  IndexFolder folder_;
  std::vector<OpenSlice> open_slices_;  // oldest first
  const std::string current_version_;
  std::string version_;
};

}  // namespace freshet::search
