// Which reader interacted with which item, as adjacency lists in both directions. The type and the
// number of interactions are ignored, since they did not help on ML-1M, citeulike-a and Deskdrop
// (DECISIONS.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/training/train.h"

namespace freshet::training {

struct Interactions {
  std::uint32_t readers = 0, items = 0;
  std::vector<std::uint64_t> reader_starts;  // readers + 1
  std::vector<std::uint32_t> reader_items;   // by reader; ascending, distinct
  std::vector<std::uint64_t> item_starts;    // items + 1
  std::vector<std::uint32_t> item_readers;   // by item; ascending, distinct

  std::span<const std::uint32_t> items_of(std::uint32_t reader) const {
    return std::span(reader_items)
        .subspan(reader_starts[reader], reader_starts[reader + 1] - reader_starts[reader]);
  }
  std::span<const std::uint32_t> readers_of(std::uint32_t item) const {
    return std::span(item_readers).subspan(item_starts[item], item_starts[item + 1] - item_starts[item]);
  }
  std::size_t touch_count() const { return reader_items.size(); }
};

struct Touch {
  std::uint32_t reader = 0, item = 0;
};

// Builds both directions by counting sort and removes duplicates. O(touches + readers + items).
Interactions build_interactions(std::span<const Touch> touches, std::uint32_t readers, std::uint32_t items);

}  // namespace freshet::training
