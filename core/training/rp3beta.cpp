#include "core/training/rp3beta.h"

#include <cmath>

namespace freshet::training {
namespace {

std::vector<float> powers(std::span<const float> degrees, float exponent) {
  std::vector<float> made;
  made.reserve(degrees.size());
  for (const float degree : degrees) made.push_back(degree > 0 ? std::pow(degree, exponent) : 0);
  return made;
}

std::vector<float> popularity(const Interactions& interactions) {
  std::vector<float> made(interactions.items);
  for (std::uint32_t i = 0; i < interactions.items; ++i) {
    made[i] = static_cast<float>(interactions.of_item(i).size());
  }
  return made;
}

}  // namespace

Columns rp3_columns(const Interactions& interactions, float alpha, std::size_t neighbours) {
  const std::vector<float> popular = popularity(interactions);
  const std::vector<float> of_item = powers(popular, -alpha);
  std::vector<float> touches(interactions.readers);
  for (std::uint32_t u = 0; u < interactions.readers; ++u) {
    touches[u] = static_cast<float>(interactions.of_reader(u).size());
  }
  const std::vector<float> of_reader = powers(touches, -alpha);
  return each_column(interactions.items, [&](std::uint32_t item, ColumnSum& sum) {
    for (const std::uint32_t reader : interactions.of_item(item)) {
      for (const std::uint32_t other : interactions.of_reader(reader)) {
        if (other != item) sum.add(other, of_reader[reader]);
      }
    }
    sum.multiply(of_item);
    return sum.take(neighbours);
  });
}

std::vector<float> rp3_scale(const Interactions& interactions, float beta) {
  return powers(popularity(interactions), -beta);
}

}  // namespace freshet::training
