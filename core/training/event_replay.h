// The events of the past replayed day by day: what was known at the beginning of each.
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
  // Items come without their texts: reading those anew for each day would cost more than all the
  // rest.
  explicit EventReplay(const TrainingData& data);

  // The first and the last day with events. REQUIRES: there are events.
  UnixSeconds first_day() const { return start_of_day(events_.front().at); }
  UnixSeconds last_day() const { return start_of_day(events_.back().at); }
  // Goes on to the moment: events before it become known. Ascending.
  void advance_to(UnixSeconds time);

  // What training may know: events so far; items without one and not yet published are hidden.
  const TrainingData& known() const { return known_; }
  // Items are indexes into the data.
  bool exists(std::uint32_t item) const { return !hidden_[item] && first_seen_[item] < known_.now; }
  UnixSeconds published(std::uint32_t item) const { return first_seen_[item]; }
  // As hot lists count views: 1 an event, 2 more for a reader's first one of the day.
  double points(std::uint32_t item) const { return points_[item]; }
  // Events so far, oldest first.
  std::span<const TrainingEvent> events_of(std::uint32_t reader) const { return reader_events_[reader]; }
  bool has_touched(std::uint32_t reader, std::uint32_t item) const {
    return touches_.contains(pair_key(reader, item));
  }
  // The events from now on and before the moment.
  std::span<const TrainingEvent> upcoming(UnixSeconds end_time) const;

  // All existing items as live ones, by index; or those `trend` that trend most by the
  // formula for views, and the `newest` of the others.
  std::vector<recommend::LiveItem> live_items() const;
  std::vector<recommend::LiveItem> live_items(std::size_t trend, std::size_t newest) const;
  std::vector<std::uint32_t> existing_items() const;

 private:
  static std::uint64_t pair_key(std::uint32_t reader, std::uint32_t item) {
    return (static_cast<std::uint64_t>(reader) << 32) | item;
  }
  recommend::LiveItem to_live_item(std::uint32_t item) const;

  TrainingData known_;
  std::vector<TrainingEvent> events_;  // all, by time
  std::size_t next_ = 0;               // the first that is not known
  std::vector<bool> hidden_;           // for ever
  std::vector<UnixSeconds> first_seen_;
  std::vector<double> points_;
  std::vector<std::vector<TrainingEvent>> reader_events_;
  std::unordered_set<std::uint64_t> touches_, today_touches_;
  UnixSeconds today_start_;
};

}  // namespace freshet::training
