// Replays past events day by day and provides what was known at each time.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "core/recommend/ranker.h"
#include "core/training/training_data.h"

namespace freshet::training {

inline constexpr seconds kOneDay{86400};
constexpr UnixSeconds start_of_day(UnixSeconds at) { return at - at.time_since_epoch() % kOneDay; }  // UTC

class EventReplay {
 public:
  // Drops the items' texts; processing them for each day would dominate the run time.
  explicit EventReplay(const TrainingData& data);

  // The first and the last day with events. REQUIRES: at least one event.
  UnixSeconds first_day() const { return start_of_day(events_.front().at); }
  UnixSeconds last_day() const { return start_of_day(events_.back().at); }
  // Advances the replay: events before `time` become known. Times must ascend.
  void advance_to(UnixSeconds time);

  // Training data as of now: earlier events; items that have none and are not yet published are
  // hidden.
  const TrainingData& known() const { return known_; }
  // Items are indexes into the data.
  bool exists(std::uint32_t item) const { return !hidden_[item] && first_seen_[item] < known_.now; }
  UnixSeconds published(std::uint32_t item) const { return first_seen_[item]; }
  // Counted like views in hot lists: 1 per event, and 2 more for a reader's first one of the day.
  double points(std::uint32_t item) const { return points_[item]; }
  // Views so far, as the trending model adds them up: the counts of all readers' views
  // (TrainingData::view_counts) from the first of them on, and the events of kind view before that.
  const hot::TrendSums& trend(std::uint32_t item) const { return trend_[item]; }
  // Events so far, oldest first.
  std::span<const TrainingEvent> events_of(std::uint32_t reader) const { return reader_events_[reader]; }
  bool has_touched(std::uint32_t reader, std::uint32_t item) const {
    return touches_.contains(pair_key(reader, item));
  }
  // Events from now on, before the given time.
  std::span<const TrainingEvent> upcoming(UnixSeconds end_time) const;

  // All existing items as live items, by index; or those that TrendSource would read: the `trend`
  // items that trend most by the formula for views, the `trending` others with the most decayed
  // views (with the default half-life), and the `newest` others.
  std::vector<recommend::LiveItem> live_items() const;
  std::vector<recommend::LiveItem> live_items(std::size_t trend, std::size_t trending,
                                              std::size_t newest) const;
  std::vector<std::uint32_t> existing_items() const;

 private:
  static std::uint64_t pair_key(std::uint32_t reader, std::uint32_t item) {
    return (static_cast<std::uint64_t>(reader) << 32) | item;
  }
  recommend::LiveItem to_live_item(std::uint32_t item) const;
  void add_views(std::uint32_t item, UnixSeconds at, double views);

  TrainingData known_;
  std::vector<TrainingEvent> events_;  // all, by time
  std::size_t next_ = 0;               // first unknown event
  std::vector<bool> hidden_;           // hidden for good
  std::vector<UnixSeconds> first_seen_;
  std::vector<double> points_;
  std::vector<hot::TrendSums> trend_;
  std::vector<ViewCount> counts_;  // by end
  std::size_t next_count_ = 0;
  UnixSeconds counted_from_;  // start of the first of counts_
  std::vector<std::vector<TrainingEvent>> reader_events_;
  std::unordered_set<std::uint64_t> touches_, today_touches_;
  UnixSeconds today_start_;
};

}  // namespace freshet::training
