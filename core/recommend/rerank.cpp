#include "core/recommend/rerank.h"

#include <algorithm>
#include <cmath>

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

using Units = std::array<float, kHiddenUnits>;

// tanh of each, by Eigen's rational approximation: arithmetic only, so several at once.
void tanh_of(Units& units) {
  for (float& each : units) {
    const float x = std::clamp(each, -9.F, 9.F), y = x * x;
    float above = -2.76076847742355e-16F;
    for (const float next : {2.00018790482477e-13F, -8.60467152213735e-11F, 5.12229709037114e-08F,
                             1.48572235717979e-05F, 6.37261928875436e-04F, 4.89352455891786e-03F})
      above = above * y + next;
    float below = 1.19825839466702e-06F;
    for (const float next : {1.18534705686654e-04F, 2.26843463243900e-03F, 4.89352518554385e-03F})
      below = below * y + next;
    each = x * above / below;
  }
}

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
  std::array<Units, kFeatures> weights;  // by feature: all units at once
  Units bias, share;
  for (std::size_t k = 0; k < kHiddenUnits; ++k) {
    for (std::size_t i = 0; i < kFeatures; ++i) weights[i][k] = hidden[k].weights[i];
    bias[k] = hidden[k].bias;
    share[k] = hidden[k].out;
  }
  out.clear();
  for (const Features& features : candidates) {
    float sum = 0;
    Units in = bias;
    for (std::size_t i = 0; i < kFeatures; ++i) {
      const float x = std::clamp((features[i] - mean[i]) * scale[i], -kMostDeviation, kMostDeviation);
      sum += linear[i] * x;
      for (std::size_t k = 0; k < kHiddenUnits; ++k) in[k] += weights[i][k] * x;
    }
    tanh_of(in);
    for (std::size_t k = 0; k < kHiddenUnits; ++k) sum += share[k] * in[k];
    out.push_back(sum);
  }
}

}  // namespace freshet::recommend
