#include "core/training/interactions.h"

#include <utility>

namespace freshet::training {
namespace {

// Places `values[i]` by `keys[i]`; of equal keys in the order given.
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

// Makes each list, which is ascending, distinct.
void make_distinct(std::vector<std::uint64_t>& starts, std::vector<std::uint32_t>& values) {
  std::uint64_t kept = 0;
  std::uint64_t from = 0;
  for (std::size_t k = 0; k + 1 < starts.size(); ++k) {
    const std::uint64_t begin = kept;
    for (const std::uint64_t end = starts[k + 1]; from < end; ++from) {
      if (kept == begin || values[kept - 1] != values[from]) values[kept++] = values[from];
    }
    starts[k + 1] = kept;
  }
  values.resize(kept);
}

}  // namespace

Interactions interactions_of(std::span<const Touch> touches, std::uint32_t readers, std::uint32_t items) {
  Interactions made;
  made.readers = readers;
  made.items = items;
  // By item first, then stably by reader: each reader's items ascend, and the other way round.
  std::vector<std::uint32_t> by_item;
  counting_sort(
      touches.size(), items, [&](std::size_t i) { return touches[i].item; },
      [&](std::size_t i) { return static_cast<std::uint32_t>(i); }, made.item_starts, by_item);
  counting_sort(
      touches.size(), readers, [&](std::size_t i) { return touches[by_item[i]].reader; },
      [&](std::size_t i) { return touches[by_item[i]].item; }, made.reader_starts, made.item_of);
  make_distinct(made.reader_starts, made.item_of);
  std::vector<std::uint32_t> reader_at(made.item_of.size());
  for (std::uint32_t reader = 0; reader < readers; ++reader) {
    for (std::uint64_t at = made.reader_starts[reader]; at < made.reader_starts[reader + 1]; ++at) {
      reader_at[at] = reader;
    }
  }
  counting_sort(
      made.item_of.size(), items, [&](std::size_t i) { return made.item_of[i]; },
      [&](std::size_t i) { return reader_at[i]; }, made.item_starts, made.reader_of);
  return made;
}

}  // namespace freshet::training
