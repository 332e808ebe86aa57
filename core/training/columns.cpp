#include "core/training/columns.h"

#include <algorithm>
#include <cmath>

#include "core/base/parallel.h"

namespace freshet::training {

Column ColumnAccumulator::extract_top(std::size_t limit) {
  Column column;
  column.reserve(touched_.size());
  for (const std::uint32_t item : touched_) {
    if (sums_[item] != 0) column.push_back({item, sums_[item]});
    sums_[item] = 0;
    is_touched_[item] = 0;
  }
  touched_.clear();
  prune(column, limit);
  return column;
}

Columns build_columns(std::size_t items,
                      const std::function<Column(std::uint32_t, ColumnAccumulator&)>& make) {
  Columns columns(items);
  const std::size_t piece = items / 32 + 1;
  parallel_for(items, piece, [&](std::size_t begin, std::size_t end) {
    ColumnAccumulator sum(items);
    for (std::size_t item = begin; item < end; ++item) {
      columns[item] = make(static_cast<std::uint32_t>(item), sum);
    }
  });
  return columns;
}

void prune(Column& column, std::size_t limit) {
  if (column.size() <= limit) return;
  std::nth_element(column.begin(), column.begin() + static_cast<std::ptrdiff_t>(limit), column.end(),
                   [](const model::Neighbour& a, const model::Neighbour& b) {
                     const float left = std::abs(a.weight);
                     const float right = std::abs(b.weight);
                     return left != right ? left > right : a.item < b.item;
                   });
  column.resize(limit);
}

void prune(Columns& columns, std::size_t limit) {
  std::vector<float> weights;
  for (const Column& column : columns) {
    for (const model::Neighbour& neighbour : column) weights.push_back(std::abs(neighbour.weight));
  }
  if (weights.size() <= limit) return;
  if (limit == 0) return columns.assign(columns.size(), {});
  const auto last = weights.begin() + static_cast<std::ptrdiff_t>(limit) - 1;
  std::nth_element(weights.begin(), last, weights.end(), std::greater<>());
  const float threshold = *last;
  // Number of entries to keep that equal the threshold.
  auto ties_to_keep = static_cast<std::size_t>(std::count(weights.begin(), last + 1, threshold));
  for (Column& column : columns) {
    std::erase_if(column, [&](const model::Neighbour& neighbour) {
      const float weight = std::abs(neighbour.weight);
      if (weight != threshold) return weight < threshold;
      if (ties_to_keep == 0) return true;
      --ties_to_keep;
      return false;
    });
  }
}

void scale_columns(Columns& columns, std::span<const float> factors) {
  for (std::size_t item = 0; item < columns.size(); ++item) {
    for (model::Neighbour& neighbour : columns[item]) neighbour.weight *= factors[item];
  }
}

TrainedModel::Rows to_rows(const Columns& columns, bool heaviest_first) {
  TrainedModel::Rows rows;
  rows.starts.assign(columns.size() + 1, 0);
  for (const Column& column : columns) {
    for (const model::Neighbour& neighbour : column) ++rows.starts[neighbour.item + 1];
  }
  for (std::size_t i = 0; i < columns.size(); ++i) rows.starts[i + 1] += rows.starts[i];
  rows.neighbours.resize(rows.starts.back());
  std::vector<std::uint64_t> next(rows.starts.begin(), rows.starts.end() - 1);
  for (std::size_t j = 0; j < columns.size(); ++j) {
    for (const model::Neighbour& neighbour : columns[j]) {
      rows.neighbours[next[neighbour.item]++] = {static_cast<std::uint32_t>(j), neighbour.weight};
    }
  }
  if (!heaviest_first) return rows;
  parallel_for(columns.size(), columns.size() / 16 + 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      std::stable_sort(
          rows.neighbours.begin() + static_cast<std::ptrdiff_t>(rows.starts[row]),
          rows.neighbours.begin() + static_cast<std::ptrdiff_t>(rows.starts[row + 1]),
          [](const model::Neighbour& a, const model::Neighbour& b) { return a.weight > b.weight; });
    }
  });
  return rows;
}

}  // namespace freshet::training
