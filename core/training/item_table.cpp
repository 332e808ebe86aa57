#include "core/training/item_table.h"

#include <algorithm>
#include <limits>

#include "core/base/parallel.h"
#include "core/readers/interaction.h"

namespace freshet::training {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
constexpr seconds kHalfLife{86400};  // of decayed counts

// The shown items' indexes, ordered by id.
std::vector<std::uint32_t> by_id(const std::vector<TrainingItem>& items) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < items.size(); ++i) {
    if (!items[i].hidden) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return items[a].id < items[b].id; });
  return order;
}

// Events by reader, readers numbered from 0; newest first, ties as they came.
struct Grouped {
  std::vector<std::uint32_t> events;
  std::vector<std::size_t> starts;  // readers + 1
};

Grouped by_reader(const TrainingData& data, const std::vector<std::uint32_t>& place) {
  Grouped made;
  for (std::uint32_t e = 0; e < data.events.size(); ++e) {
    const std::uint32_t item = data.events[e].item;
    if (item < place.size() && place[item] != kNone) made.events.push_back(e);
  }
  const auto& events = data.events;
  const bool sorted = std::is_sorted(made.events.begin(), made.events.end(),
                                     [&](auto a, auto b) { return events[a].reader < events[b].reader; });
  if (!sorted) {
    std::stable_sort(made.events.begin(), made.events.end(),
                     [&](auto a, auto b) { return events[a].reader < events[b].reader; });
  }
  for (std::size_t i = 0; i < made.events.size(); ++i) {
    if (i == 0 || events[made.events[i]].reader != events[made.events[i - 1]].reader)
      made.starts.push_back(i);
  }
  made.starts.push_back(made.events.size());
  return made;
}

std::vector<Touch> touches_of(const TrainingData& data, const std::vector<std::uint32_t>& place,
                              std::size_t most, std::uint32_t& readers) {
  Grouped grouped = by_reader(data, place);
  readers = static_cast<std::uint32_t>(grouped.starts.size() - 1);
  std::vector<Touch> touches;
  touches.reserve(grouped.events.size());
  for (std::uint32_t reader = 0; reader < readers; ++reader) {
    const auto begin = grouped.events.begin() + static_cast<std::ptrdiff_t>(grouped.starts[reader]);
    auto end = grouped.events.begin() + static_cast<std::ptrdiff_t>(grouped.starts[reader + 1]);
    if (static_cast<std::size_t>(end - begin) > most) {
      std::stable_sort(begin, end, [&](auto a, auto b) { return data.events[a].at > data.events[b].at; });
      end = begin + static_cast<std::ptrdiff_t>(most);
    }
    for (auto event = begin; event != end; ++event)
      touches.push_back({reader, place[data.events[*event].item]});
  }
  return touches;
}

void count_events(const TrainingData& data, const std::vector<std::uint32_t>& place, ItemTable& table) {
  table.counts.assign(table.items.size(), 0);
  table.decayed_counts.assign(table.items.size(), 0);
  std::vector<UnixSeconds> first(table.items.size(), UnixSeconds::max());
  std::vector<double> decayed(table.items.size(), 0);
  for (const TrainingEvent& event : data.events) {
    if (event.item >= place.size() || place[event.item] == kNone) continue;
    const std::uint32_t item = place[event.item];
    table.counts[item] += 1;
    decayed[item] += readers::recency_weight(event.at, data.now, kHalfLife);
    first[item] = std::min(first[item], event.at);
  }
  for (std::size_t i = 0; i < table.items.size(); ++i) {
    table.decayed_counts[i] = static_cast<float>(decayed[i]);
    const bool unknown = table.items[i].published <= UnixSeconds{};
    if (unknown && table.counts[i] > 0) table.items[i].published = first[i];
  }
}

}  // namespace

ItemTable item_table(const TrainingData& data, const TrainSettings& settings) {
  const auto order = by_id(data.items);
  ItemTable table;
  std::vector<std::uint32_t> place(data.items.size(), kNone);
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    const TrainingItem& from = data.items[order[i]];
    table.items.push_back({from.id, from.title, {}, from.author, from.tags, from.published, false});
  }
  table.terms.resize(order.size());
  parallel_for(order.size(), order.size() / 16 + 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const TrainingItem& from = data.items[order[i]];
      table.terms[i] = model::content_terms(from.title, from.text, from.tags);
    }
  });
  count_events(data, place, table);
  std::uint32_t readers = 0;
  const auto touches = touches_of(data, place, static_cast<std::size_t>(settings.max_per_reader), readers);
  table.interactions = interactions_of(touches, readers, static_cast<std::uint32_t>(order.size()));
  return table;
}

}  // namespace freshet::training
