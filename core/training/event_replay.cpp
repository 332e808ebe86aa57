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
    : events_(data.events),
      first_seen_(data.items.size(), kNever),
      points_(data.items.size(), 0),
      trend_(data.items.size(), hot::no_trend()),
      counts_(data.view_counts),
      counted_from_(kNever) {
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
  for (std::size_t item = 0; item < trend_.size(); ++item) {  // as hot.birth_views
    if (first_seen_[item] < kNever) trend_[item] = hot::trend_of_view(first_seen_[item]);
  }
  std::ranges::stable_sort(counts_, {}, &ViewCount::end);
  for (const ViewCount& each : counts_) counted_from_ = std::min(counted_from_, each.from);
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
    if (each.kind == readers::Interaction::kView && each.at < counted_from_) add_views(each.item, each.at, 1);
  }
  for (; next_count_ < counts_.size() && counts_[next_count_].end() <= time; ++next_count_) {
    const ViewCount& each = counts_[next_count_];
    add_views(each.item, each.from + each.length / 2, static_cast<double>(each.views));
  }
  known_.now = time;
  for (std::size_t item = 0; item < hidden_.size(); ++item)
    known_.items[item].hidden = !exists(static_cast<std::uint32_t>(item));
}

void EventReplay::add_views(std::uint32_t item, UnixSeconds at, double views) {
  const hot::TrendSums view = hot::trend_of_view(at);
  for (std::size_t i = 0; i < view.size(); ++i)
    trend_[item][i] = hot::add_log2(trend_[item][i], view[i] + std::log2(views));
}

std::span<const TrainingEvent> EventReplay::upcoming(UnixSeconds end_time) const {
  const auto from = events_.begin() + static_cast<std::ptrdiff_t>(next_);
  const auto end = std::lower_bound(from, events_.end(), end_time,
                                    [](const TrainingEvent& each, UnixSeconds at) { return each.at < at; });
  return {from, end};
}

recommend::LiveItem EventReplay::to_live_item(std::uint32_t item) const {
  const TrainingItem& each = known_.items[item];
  return {each.id,       each.title, each.author, each.tags,   first_seen_[item],
          points_[item], {},         {},          trend_[item]};
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

std::vector<recommend::LiveItem> EventReplay::live_items(std::size_t trend, std::size_t trending,
                                                         std::size_t newest) const {
  std::vector<std::uint32_t> items = existing_items();
  std::vector<double> keys(hidden_.size(), 0);
  auto rest = items.begin();
  // Moves the best `count` items of the rest to its front and takes them.
  const auto take = [&](std::size_t count, const auto& key) {
    for (auto each = rest; each != items.end(); ++each) keys[*each] = key(*each);
    const auto end =
        rest + static_cast<std::ptrdiff_t>(std::min(count, static_cast<std::size_t>(items.end() - rest)));
    std::partial_sort(rest, end, items.end(), [&](std::uint32_t a, std::uint32_t b) {
      return keys[a] != keys[b] ? keys[a] > keys[b] : a < b;
    });
    rest = end;
  };
  const std::size_t half_life = hot::trending_index(TrendingSettings().half_life).value();
  take(trend, [&](std::uint32_t item) {
    return hot::view_score(1 + points_[item], first_seen_[item], known_.now, {});
  });
  take(trending, [&](std::uint32_t item) { return trend_[item][half_life]; });
  take(newest, [&](std::uint32_t item) { return static_cast<double>(unix_s(first_seen_[item])); });
  std::vector<recommend::LiveItem> out;
  for (auto each = items.begin(); each != rest; ++each) out.push_back(to_live_item(*each));
  return out;
}

}  // namespace freshet::training
