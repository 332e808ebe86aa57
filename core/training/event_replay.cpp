#include "core/training/event_replay.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/hot/views.h"

namespace freshet::training {
namespace {

constexpr UnixSeconds kNever{seconds{kMaxUnixSeconds}};

}  // namespace

EventReplay::EventReplay(const TrainingData& data)
    : events_(data.events), first_seen_(data.items.size(), kNever), points_(data.items.size(), 0) {
  std::stable_sort(events_.begin(), events_.end(),
                   [](const TrainingEvent& a, const TrainingEvent& b) { return a.at < b.at; });
  std::uint32_t readers = 0;
  for (std::size_t item = 0; item < data.items.size(); ++item) {
    if (data.items[item].published > UnixSeconds{}) first_seen_[item] = data.items[item].published;
  }
  for (const TrainingEvent& each : events_) {
    first_seen_[each.item] = std::min(first_seen_[each.item], each.at);
    readers = std::max(readers, each.reader + 1);
  }
  reader_events_.resize(readers);
  hidden_.reserve(data.items.size());
  known_.items.reserve(data.items.size());
  for (const TrainingItem& each : data.items) {
    hidden_.push_back(each.hidden);
    known_.items.push_back({each.id, each.title, {}, each.author, each.tags, each.published, true});
  }
}

void EventReplay::advance_to(UnixSeconds time) {
  for (; next_ < events_.size() && events_[next_].at < time; ++next_) {
    const TrainingEvent& each = events_[next_];
    if (start_of_day(each.at) != today_start_) {
      today_start_ = start_of_day(each.at);
      today_touches_.clear();
    }
    known_.events.push_back(each);
    reader_events_[each.reader].push_back(each);
    touches_.insert(pair_key(each.reader, each.item));
    points_[each.item] +=
        hot::view_increment(today_touches_.insert(pair_key(each.reader, each.item)).second, {});
  }
  known_.now = time;
  for (std::size_t item = 0; item < hidden_.size(); ++item)
    known_.items[item].hidden = !exists(static_cast<std::uint32_t>(item));
}

std::span<const TrainingEvent> EventReplay::upcoming(UnixSeconds end_time) const {
  const auto from = events_.begin() + static_cast<std::ptrdiff_t>(next_);
  const auto end = std::lower_bound(from, events_.end(), end_time,
                                    [](const TrainingEvent& each, UnixSeconds at) { return each.at < at; });
  return {from, end};
}

recommend::LiveItem EventReplay::to_live_item(std::uint32_t item) const {
  const TrainingItem& each = known_.items[item];
  return {each.id, each.title, each.author, each.tags, first_seen_[item], points_[item], {}};
}

std::vector<std::uint32_t> EventReplay::existing_items() const {
  std::vector<std::uint32_t> items;
  for (std::uint32_t item = 0; item < hidden_.size(); ++item) {
    if (exists(item)) items.push_back(item);
  }
  return items;
}

std::vector<recommend::LiveItem> EventReplay::live_items() const {
  std::vector<recommend::LiveItem> out;
  for (const std::uint32_t item : existing_items()) out.push_back(to_live_item(item));
  return out;
}

std::vector<recommend::LiveItem> EventReplay::live_items(std::size_t trend, std::size_t newest) const {
  std::vector<std::uint32_t> items = existing_items();
  std::vector<double> scores(hidden_.size(), 0);
  for (const std::uint32_t item : items)
    scores[item] = hot::view_score(1 + points_[item], first_seen_[item], known_.now, {});
  const auto by_trend = [&](std::uint32_t a, std::uint32_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  };
  const auto by_newness = [&](std::uint32_t a, std::uint32_t b) {
    return first_seen_[a] != first_seen_[b] ? first_seen_[a] > first_seen_[b] : a < b;
  };
  std::sort(items.begin(), items.end(), by_trend);
  const auto rest = items.begin() + static_cast<std::ptrdiff_t>(std::min(trend, items.size()));
  std::sort(rest, items.end(), by_newness);
  items.resize(std::min(items.size(), trend + newest));
  std::vector<recommend::LiveItem> out;
  out.reserve(items.size());
  for (const std::uint32_t item : items) out.push_back(to_live_item(item));
  return out;
}

}  // namespace freshet::training
