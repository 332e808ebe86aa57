#include "core/training/item_table.h"

#include <algorithm>
#include <limits>

#include "core/base/parallel.h"
#include "core/readers/interaction.h"
#include "core/search/readable_text.h"

namespace freshet::training {
namespace {

constexpr std::uint32_t kExcluded = std::numeric_limits<std::uint32_t>::max();
constexpr seconds kHalfLife{86400};  // of decayed counts

// Indexes of the visible items, ordered by id.
std::vector<std::uint32_t> order_by_id(const std::vector<TrainingItem>& items) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < items.size(); ++i) {
    if (!items[i].hidden) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return items[a].id < items[b].id; });
  return order;
}

// Event indexes grouped by reader, in their original order; readers are numbered from 0.
struct EventsByReader {
  std::vector<std::uint32_t> events;
  std::vector<std::size_t> starts;  // readers + 1
};

EventsByReader group_by_reader(const TrainingData& data, const std::vector<std::uint32_t>& table_index) {
  EventsByReader grouped;
  for (std::uint32_t e = 0; e < data.events.size(); ++e) {
    const std::uint32_t item = data.events[e].item;
    if (item < table_index.size() && table_index[item] != kExcluded) grouped.events.push_back(e);
  }
  const auto& events = data.events;
  const bool sorted = std::is_sorted(grouped.events.begin(), grouped.events.end(),
                                     [&](auto a, auto b) { return events[a].reader < events[b].reader; });
  if (!sorted) {
    std::stable_sort(grouped.events.begin(), grouped.events.end(),
                     [&](auto a, auto b) { return events[a].reader < events[b].reader; });
  }
  for (std::size_t i = 0; i < grouped.events.size(); ++i) {
    if (i == 0 || events[grouped.events[i]].reader != events[grouped.events[i - 1]].reader)
      grouped.starts.push_back(i);
  }
  grouped.starts.push_back(grouped.events.size());
  return grouped;
}

std::vector<Touch> collect_touches(const TrainingData& data, const std::vector<std::uint32_t>& table_index,
                                   std::size_t limit, std::uint32_t& readers) {
  EventsByReader grouped = group_by_reader(data, table_index);
  readers = static_cast<std::uint32_t>(grouped.starts.size() - 1);
  std::vector<Touch> touches;
  touches.reserve(grouped.events.size());
  for (std::uint32_t reader = 0; reader < readers; ++reader) {
    const auto begin = grouped.events.begin() + static_cast<std::ptrdiff_t>(grouped.starts[reader]);
    auto end = grouped.events.begin() + static_cast<std::ptrdiff_t>(grouped.starts[reader + 1]);
    if (static_cast<std::size_t>(end - begin) > limit) {
      std::stable_sort(begin, end, [&](auto a, auto b) { return data.events[a].at > data.events[b].at; });
      end = begin + static_cast<std::ptrdiff_t>(limit);
    }
    for (auto event = begin; event != end; ++event)
      touches.push_back({reader, table_index[data.events[*event].item]});
  }
  return touches;
}

void count_events(const TrainingData& data, const std::vector<std::uint32_t>& table_index, ItemTable& table) {
  table.counts.assign(table.items.size(), 0);
  table.decayed_counts.assign(table.items.size(), 0);
  std::vector<UnixSeconds> first(table.items.size(), UnixSeconds::max());
  std::vector<double> decayed(table.items.size(), 0);
  for (const TrainingEvent& event : data.events) {
    if (event.item >= table_index.size() || table_index[event.item] == kExcluded) continue;
    const std::uint32_t item = table_index[event.item];
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

ItemTable build_item_table(const TrainingData& data, const TrainSettings& settings) {
  const auto order = order_by_id(data.items);
  ItemTable table;
  std::vector<std::uint32_t> table_index(data.items.size(), kExcluded);
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    table_index[order[i]] = i;
    const TrainingItem& from = data.items[order[i]];
    table.items.push_back({from.id, from.title, {}, from.author, from.tags, from.published, false});
  }
  table.terms.resize(order.size());
  parallel_for(order.size(), order.size() / 16 + 1, [&](std::size_t begin, std::size_t end) {
    std::string buffer;
    for (std::size_t i = begin; i < end; ++i) {
      const TrainingItem& from = data.items[order[i]];
      const std::string_view text = search::readable_text(from.text, from.text_format, buffer);
      table.terms[i] = model::content_terms(from.title, text, from.tags);
    }
  });
  count_events(data, table_index, table);
  std::uint32_t readers = 0;
  const auto touches =
      collect_touches(data, table_index, static_cast<std::size_t>(settings.max_per_reader), readers);
  table.interactions = build_interactions(touches, readers, static_cast<std::uint32_t>(order.size()));
  return table;
}

}  // namespace freshet::training
