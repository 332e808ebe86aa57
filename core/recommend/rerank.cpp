#include "core/recommend/rerank.h"

#include <algorithm>
#include <cmath>

#include "core/recommend/float4.h"

namespace freshet::recommend {
namespace {

constexpr std::size_t kParameterCount = 1 + 3 * kFeatures + kHiddenUnits * (kFeatures + 2);
constexpr float kMaxParameter = 1e6F;

// Visits every parameter in serialization order.
template <class Self, class Visit>
void for_each_parameter(Self& self, const Visit& visit) {
  for (auto& one : self.mean) visit(one);
  for (auto& one : self.scale) visit(one);
  for (auto& one : self.linear) visit(one);
  for (auto& unit : self.hidden) {
    for (auto& one : unit.weights) visit(one);
    visit(unit.bias);
    visit(unit.output_weight);
  }
}

// Rational approximation of tanh, as in Eigen.
Float4 tanh4(Float4 number) {
  const Float4 x = max4(splat4(-9), min4(splat4(9), number)), y = x * x;
  Float4 numerator = splat4(-2.76076847742355e-16F);
  for (const float coefficient : {2.00018790482477e-13F, -8.60467152213735e-11F, 5.12229709037114e-08F,
                                  1.48572235717979e-05F, 6.37261928875436e-04F, 4.89352455891786e-03F})
    numerator = numerator * y + coefficient;
  Float4 denominator = splat4(1.19825839466702e-06F);
  for (const float coefficient : {1.18534705686654e-04F, 2.26843463243900e-03F, 4.89352518554385e-03F})
    denominator = denominator * y + coefficient;
  return x * numerator / denominator;
}

constexpr std::size_t kLanes = 4;

}  // namespace

std::optional<Reranker> Reranker::from_floats(std::span<const float> parameters) {
  if (parameters.size() != kParameterCount || parameters.front() != kRerankVersion) return std::nullopt;
  const bool in_range = std::all_of(parameters.begin(), parameters.end(), [](float one) {
    return std::isfinite(one) && std::abs(one) <= kMaxParameter;
  });
  if (!in_range) return std::nullopt;
  Reranker out;
  auto next = parameters.begin() + 1;
  for_each_parameter(out, [&](float& one) { one = *next++; });
  return out;
}

std::vector<float> Reranker::to_floats() const {
  std::vector<float> out{kRerankVersion};
  out.reserve(kParameterCount);
  for_each_parameter(*this, [&](float one) { out.push_back(one); });
  return out;
}

void Reranker::logits(std::span<const FeatureVector> candidates, std::vector<float>& out) const {
  out.resize(candidates.size());
  for (std::size_t first = 0; first < candidates.size(); first += kLanes) {
    const std::size_t count = std::min(kLanes, candidates.size() - first);
    Float4 sum = splat4(0);
    std::array<Float4, kHiddenUnits> in;
    for (std::size_t k = 0; k < kHiddenUnits; ++k) in[k] = splat4(hidden[k].bias);
    for (std::size_t i = 0; i < kFeatures; ++i) {
      Float4 x = splat4(0);
      for (std::size_t j = 0; j < count; ++j) x[j] = candidates[first + j][i];
      x = max4(splat4(-kMaxDeviation), min4(splat4(kMaxDeviation), (x - mean[i]) * scale[i]));
      sum += linear[i] * x;
      for (std::size_t k = 0; k < kHiddenUnits; ++k) in[k] += hidden[k].weights[i] * x;
    }
    for (std::size_t k = 0; k < kHiddenUnits; ++k) sum += hidden[k].output_weight * tanh4(in[k]);
    for (std::size_t j = 0; j < count; ++j) out[first + j] = sum[j];
  }
}

}  // namespace freshet::recommend
