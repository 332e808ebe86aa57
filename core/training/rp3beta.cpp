#include "core/training/rp3beta.h"

#include <cmath>

namespace freshet::training {
namespace {

std::vector<float> powers(std::span<const float> degrees, float exponent) {
  std::vector<float> result;
  result.reserve(degrees.size());
  for (const float degree : degrees) result.push_back(degree > 0 ? std::pow(degree, exponent) : 0);
  return result;
}

std::vector<float> popularity(const Interactions& interactions) {
  std::vector<float> result(interactions.items);
  for (std::uint32_t i = 0; i < interactions.items; ++i) {
    result[i] = static_cast<float>(interactions.readers_of(i).size());
  }
  return result;
}

}  // namespace

Columns rp3_columns(const Interactions& interactions, float alpha, std::size_t neighbours) {
  const std::vector<float> popularities = popularity(interactions);
  const std::vector<float> item_weights = powers(popularities, -alpha);
  std::vector<float> touches(interactions.readers);
  for (std::uint32_t u = 0; u < interactions.readers; ++u) {
    touches[u] = static_cast<float>(interactions.items_of(u).size());
  }
  const std::vector<float> reader_weights = powers(touches, -alpha);
  return build_columns(interactions.items, [&](std::uint32_t item, ColumnAccumulator& sum) {
    for (const std::uint32_t reader : interactions.readers_of(item)) {
      for (const std::uint32_t other : interactions.items_of(reader)) {
        if (other != item) sum.add(other, reader_weights[reader]);
      }
    }
    sum.multiply(item_weights);
    return sum.extract_top(neighbours);
  });
}

std::vector<float> rp3_scale(const Interactions& interactions, float beta) {
  return powers(popularity(interactions), -beta);
}

}  // namespace freshet::training
