#include "core/training/interactions.h"

#include <utility>

namespace freshet::training {
namespace {

// Sorts value(i) by key(i), stably.
template <class Key, class Value>
void counting_sort(std::size_t count, std::uint32_t keys, const Key& key, const Value& value,
                   std::vector<std::uint64_t>& starts, std::vector<std::uint32_t>& sorted) {
  starts.assign(std::size_t{keys} + 1, 0);
  for (std::size_t i = 0; i < count; ++i) ++starts[key(i) + 1];
  for (std::size_t k = 0; k < keys; ++k) starts[k + 1] += starts[k];
  std::vector<std::uint64_t> next(starts.begin(), starts.end() - 1);
  sorted.resize(count);
  for (std::size_t i = 0; i < count; ++i) sorted[next[key(i)]++] = value(i);
}

// Removes duplicates from each ascending list.
void deduplicate(std::vector<std::uint64_t>& starts, std::vector<std::uint32_t>& values) {
  std::uint64_t size = 0;
  std::uint64_t from = 0;
  for (std::size_t k = 0; k + 1 < starts.size(); ++k) {
    const std::uint64_t begin = size;
    for (const std::uint64_t end = starts[k + 1]; from < end; ++from) {
      if (size == begin || values[size - 1] != values[from]) values[size++] = values[from];
    }
    starts[k + 1] = size;
  }
  values.resize(size);
}

}  // namespace

Interactions build_interactions(std::span<const Touch> touches, std::uint32_t readers, std::uint32_t items) {
  Interactions result;
  result.readers = readers;
  result.items = items;
  // Sort by item first, then stably by reader, so that each reader's items ascend. The other
  // direction likewise.
  std::vector<std::uint32_t> by_item;
  counting_sort(
      touches.size(), items, [&](std::size_t i) { return touches[i].item; },
      [&](std::size_t i) { return static_cast<std::uint32_t>(i); }, result.item_starts, by_item);
  counting_sort(
      touches.size(), readers, [&](std::size_t i) { return touches[by_item[i]].reader; },
      [&](std::size_t i) { return touches[by_item[i]].item; }, result.reader_starts, result.reader_items);
  deduplicate(result.reader_starts, result.reader_items);
  std::vector<std::uint32_t> reader_at(result.reader_items.size());
  for (std::uint32_t reader = 0; reader < readers; ++reader) {
    for (std::uint64_t at = result.reader_starts[reader]; at < result.reader_starts[reader + 1]; ++at) {
      reader_at[at] = reader;
    }
  }
  counting_sort(
      result.reader_items.size(), items, [&](std::size_t i) { return result.reader_items[i]; },
      [&](std::size_t i) { return reader_at[i]; }, result.item_starts, result.item_readers);
  return result;
}

}  // namespace freshet::training
