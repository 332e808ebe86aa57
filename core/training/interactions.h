// Who touched what: the events as two lists of neighbours, reader → items and item → readers. Which
// kind and how often is left out: on ML-1M, citeulike-a and Deskdrop a touch is a touch
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
  std::vector<std::uint32_t> reader_items;        // of each reader ascending, distinct
  std::vector<std::uint64_t> item_starts;    // items + 1
  std::vector<std::uint32_t> item_readers;      // of each item ascending, distinct

  std::span<const std::uint32_t> items_of(std::uint32_t reader) const {
    return std::span(reader_items).subspan(reader_starts[reader],
                                      reader_starts[reader + 1] - reader_starts[reader]);
  }
  std::span<const std::uint32_t> readers_of(std::uint32_t item) const {
    return std::span(item_readers).subspan(item_starts[item], item_starts[item + 1] - item_starts[item]);
  }
  std::size_t touch_count() const { return reader_items.size(); }
};

struct Touch {
  std::uint32_t reader = 0, item = 0;
};

// Counting sort; equal touches become one. O(touches + readers + items).
Interactions build_interactions(std::span<const Touch> touches, std::uint32_t readers, std::uint32_t items);

}  // namespace freshet::training
