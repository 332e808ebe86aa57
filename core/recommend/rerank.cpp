#include "core/recommend/rerank.h"

#include <algorithm>
#include <cmath>

#include "core/recommend/four.h"

namespace freshet::recommend {
namespace {

constexpr std::size_t kParameters = 1 + 3 * kFeatures + kHiddenUnits * (kFeatures + 2);
constexpr float kMostParameter = 1e6F;

// Visits every parameter in the order of the file.
template <class Self, class Visit>
void each_parameter(Self& self, const Visit& visit) {
  for (auto& one : self.mean) visit(one);
  for (auto& one : self.scale) visit(one);
  for (auto& one : self.linear) visit(one);
  for (auto& unit : self.hidden) {
    for (auto& one : unit.weights) visit(one);
    visit(unit.bias);
    visit(unit.out);
  }
}

// tanh, by Eigen's rational approximation.
Four tanh_of(Four number) {
  const Four x = greater_of(all(-9), lesser_of(all(9), number)), y = x * x;
  Four above = all(-2.76076847742355e-16F);
  for (const float next : {2.00018790482477e-13F, -8.60467152213735e-11F, 5.12229709037114e-08F,
                           1.48572235717979e-05F, 6.37261928875436e-04F, 4.89352455891786e-03F})
    above = above * y + next;
  Four below = all(1.19825839466702e-06F);
  for (const float next : {1.18534705686654e-04F, 2.26843463243900e-03F, 4.89352518554385e-03F})
    below = below * y + next;
  return x * above / below;
}

constexpr std::size_t kTogether = 4;

}  // namespace

std::optional<Reranker> Reranker::of(std::span<const float> parameters) {
  if (parameters.size() != kParameters || parameters.front() != kRerankVersion) return std::nullopt;
  const bool sane = std::all_of(parameters.begin(), parameters.end(), [](float one) {
    return std::isfinite(one) && std::abs(one) <= kMostParameter;
  });
  if (!sane) return std::nullopt;
  Reranker out;
  auto next = parameters.begin() + 1;
  each_parameter(out, [&](float& one) { one = *next++; });
  return out;
}

std::vector<float> Reranker::to_floats() const {
  std::vector<float> out{kRerankVersion};
  out.reserve(kParameters);
  each_parameter(*this, [&](float one) { out.push_back(one); });
  return out;
}

void Reranker::logits(std::span<const Features> candidates, std::vector<float>& out) const {
  out.resize(candidates.size());
  for (std::size_t first = 0; first < candidates.size(); first += kTogether) {
    const std::size_t some = std::min(kTogether, candidates.size() - first);
    Four sum = all(0);
    std::array<Four, kHiddenUnits> in;
    for (std::size_t k = 0; k < kHiddenUnits; ++k) in[k] = all(hidden[k].bias);
    for (std::size_t i = 0; i < kFeatures; ++i) {
      Four x = all(0);
      for (std::size_t j = 0; j < some; ++j) x[j] = candidates[first + j][i];
      x = greater_of(all(-kMostDeviation), lesser_of(all(kMostDeviation), (x - mean[i]) * scale[i]));
      sum += linear[i] * x;
      for (std::size_t k = 0; k < kHiddenUnits; ++k) in[k] += hidden[k].weights[i] * x;
    }
    for (std::size_t k = 0; k < kHiddenUnits; ++k) sum += hidden[k].out * tanh_of(in[k]);
    for (std::size_t j = 0; j < some; ++j) out[first + j] = sum[j];
  }
}

}  // namespace freshet::recommend
