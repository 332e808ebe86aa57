// The events of the past replayed day by day: what was known at the beginning of each.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "core/recommend/ranking.h"
#include "core/training/training_data.h"

namespace freshet::training {

inline constexpr seconds kOneDay{86400};
constexpr UnixSeconds day_of(UnixSeconds at) { return at - at.time_since_epoch() % kOneDay; }  // UTC

class PastDays {
 public:
  // Items come without their texts: reading those anew for each day would cost more than all the
  // rest.
  explicit PastDays(const TrainingData& data);

  // The first and the last day with events. REQUIRES: there are events.
  UnixSeconds first() const { return day_of(events_.front().at); }
  UnixSeconds last() const { return day_of(events_.back().at); }
  // Goes on to the moment: events before it become known. Ascending.
  void advance(UnixSeconds to);

  // What training may know: events so far; items without one and not yet published are hidden.
  const TrainingData& known() const { return known_; }
  // Items are indexes into the data.
  bool exists(std::uint32_t item) const { return !hidden_[item] && first_seen_[item] < known_.now; }
  UnixSeconds published(std::uint32_t item) const { return first_seen_[item]; }
  // As hot lists count views: 1 an event, 2 more for a reader's first one of the day.
  double points(std::uint32_t item) const { return points_[item]; }
  // Events so far, oldest first.
  std::span<const TrainingEvent> of_reader(std::uint32_t reader) const { return readers_[reader]; }
  bool touched(std::uint32_t reader, std::uint32_t item) const {
    return touches_.contains(pair(reader, item));
  }
  // The events from now on and before the moment.
  std::span<const TrainingEvent> until(UnixSeconds to) const;

  // All existing items as live ones, by index; or those `trend` that trend most by the
  // formula for views, and the `newest` of the others.
  std::vector<recommend::LiveItem> live() const;
  std::vector<recommend::LiveItem> live(std::size_t trend, std::size_t newest) const;
  std::vector<std::uint32_t> existing() const;

 private:
  static std::uint64_t pair(std::uint32_t reader, std::uint32_t item) {
    return (static_cast<std::uint64_t>(reader) << 32) | item;
  }
  recommend::LiveItem as_live(std::uint32_t item) const;

  TrainingData known_;
  std::vector<TrainingEvent> events_;  // all, by time
  std::size_t next_ = 0;               // the first that is not known
  std::vector<bool> hidden_;           // for ever
  std::vector<UnixSeconds> first_seen_;
  std::vector<double> points_;
  std::vector<std::vector<TrainingEvent>> readers_;
  std::unordered_set<std::uint64_t> touches_, today_;
  UnixSeconds today_at_;
};

}  // namespace freshet::training
