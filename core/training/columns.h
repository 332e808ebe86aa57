// Item–item relations during training. Column j holds the items that contribute to item j, with
// weights. Columns are pruned here and finally converted to the model's rows.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/training/train.h"

namespace freshet::training {

using Column = std::vector<model::Neighbour>;
using Columns = std::vector<Column>;

// Accumulates one column at a time; reusable. Not thread-safe.
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
  // Multiplies each sum by the factor of its item.
  void multiply(std::span<const float> factors) {
    for (const std::uint32_t item : touched_) sums_[item] *= factors[item];
  }
  // Returns the `limit` sums of greatest magnitude without zeros, and resets the accumulator. The
  // order depends only on the sequence of add() calls.
  Column extract_top(std::size_t limit);

 private:
  std::vector<float> sums_;
  std::vector<std::uint8_t> is_touched_;
  std::vector<std::uint32_t> touched_;
};

// Calls make(item, accumulator) for every item, in parallel; each thread has its own accumulator.
Columns build_columns(std::size_t items,
                      const std::function<Column(std::uint32_t, ColumnAccumulator&)>& make);

// Keeps the `limit` entries of greatest magnitude, preferring lower indexes among equals. Does not
// keep the order.
void prune(Column& column, std::size_t limit);

// Keeps the `limit` entries of greatest magnitude of all columns together, without reordering them.
// Popular items keep more entries than others, which ranks better than the same number per item
// (DECISIONS.md).
void prune(Columns& columns, std::size_t limit);

// Multiplies each column by its factor.
void scale_columns(Columns& columns, std::span<const float> factors);

// Transposes the columns to rows. Sorts each row by weight, descending, ties by item; otherwise
// (for validation) by item.
TrainedModel::Rows to_rows(const Columns& columns, bool heaviest_first = true);

}  // namespace freshet::training
