#include "core/training/ease.h"

#include <algorithm>
#include <cmath>

#include "core/base/parallel.h"

namespace freshet::training {

std::vector<float> reader_weights(const Interactions& interactions, float exponent) {
  std::size_t with_touches = 0;
  for (std::uint32_t u = 0; u < interactions.readers; ++u) with_touches += !interactions.items_of(u).empty();
  const double mean =
      with_touches == 0 ? 1
                        : static_cast<double>(interactions.touch_count()) / static_cast<double>(with_touches);
  std::vector<float> weights(interactions.readers, 0);
  for (std::uint32_t u = 0; u < interactions.readers; ++u) {
    const auto touches = static_cast<double>(interactions.items_of(u).size());
    if (touches > 0) weights[u] = static_cast<float>(std::pow(mean / touches, double{exponent}));
  }
  return weights;
}

SquareMatrix gram(const Interactions& interactions, std::span<const float> reader_weights) {
  SquareMatrix g(interactions.items);
  parallel_for(interactions.items, 16, [&](std::size_t begin, std::size_t end) {
    for (std::size_t item = begin; item < end; ++item) {
      float* const row = g.row(item);
      for (const std::uint32_t reader : interactions.readers_of(static_cast<std::uint32_t>(item))) {
        const float weight = reader_weights[reader];
        for (const std::uint32_t other : interactions.items_of(reader)) {
          if (other > item) break;
          row[other] += weight;
        }
      }
    }
  });
  return g;
}

Ease::Ease(SquareMatrix gram, const EaseSettings& settings)
    : minus_p_(std::move(gram)), factors_(minus_p_.items()) {
  const float diagonal_scale = settings.dropout / (1 - settings.dropout);
  for (std::size_t i = 0; i < minus_p_.items(); ++i) {
    float& diagonal = minus_p_.row(i)[i];
    diagonal += settings.lambda + diagonal_scale * diagonal;
  }
  invert_negated(minus_p_);
  for (std::size_t j = 0; j < factors_.size(); ++j) factors_[j] = -1 / minus_p_.row(j)[j];
}

void Ease::accumulate(std::uint32_t item, std::span<float> scores) const {
  const float* const row = minus_p_.row(item);
  float* const score = scores.data();
  const std::size_t items = factors_.size();
  for (std::size_t j = 0; j < items; ++j) score[j] += row[j];
}

Columns Ease::columns(std::size_t neighbours) const {
  return build_columns(factors_.size(), [&](std::uint32_t item, ColumnAccumulator& sum) {
    const float* const row = minus_p_.row(item);  // also the column: the matrix is symmetric
    for (std::uint32_t other = 0; other < factors_.size(); ++other) {
      if (other != item) sum.add(other, row[other] * factors_[item]);
    }
    return sum.extract_top(neighbours);
  });
}

}  // namespace freshet::training
