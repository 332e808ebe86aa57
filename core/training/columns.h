// Item–item relations while they are made: column j is who speaks for item j, and how much. Pruned
// here, and turned into the model's rows at the end.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/training/train.h"

namespace freshet::training {

using Column = std::vector<model::Neighbour>;
using Columns = std::vector<Column>;

// Adds up one column at a time; reused for the next. One thread.
class ColumnAccumulator {
 public:
  explicit ColumnAccumulator(std::size_t items) : sums_(items, 0), is_touched_(items, 0) {}
  void add(std::uint32_t item, float weight) {
    if (is_touched_[item] == 0) {
      is_touched_[item] = 1;
      touched_.push_back(item);
    }
    sums_[item] += weight;
  }
  // Each sum by its item's factor.
  void multiply(std::span<const float> factors) {
    for (const std::uint32_t item : touched_) sums_[item] *= factors[item];
  }
  // The `most` of greatest magnitude, without zeros, in an order that depends on nothing but what
  // was added and when; nothing is left behind.
  Column extract_top(std::size_t limit);

 private:
  std::vector<float> sums_;
  std::vector<std::uint8_t> is_touched_;
  std::vector<std::uint32_t> touched_;
};

// Calls make(item, sum) for every item, on the training's threads; each has a sum of its own.
Columns build_columns(std::size_t items, const std::function<Column(std::uint32_t, ColumnAccumulator&)>& make);

// Keeps the `most` of greatest magnitude; of equals the lower index. In any order.
void prune(Column& column, std::size_t limit);

// The same over all columns together, each of which keeps its order: `most` relations in all.
// Popular items then have more than others, which ranks better than the same number for each
// (DECISIONS.md).
void prune(Columns& columns, std::size_t limit);

// Multiplies each column by its factor.
void scale_columns(Columns& columns, std::span<const float> factors);

// By who gives; heaviest first, ties by item, or without that (for validation) by item.
TrainedModel::Rows to_rows(const Columns& columns, bool heaviest_first = true);

}  // namespace freshet::training
