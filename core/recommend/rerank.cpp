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

float Reranker::logit(const Features& features) const {
  Features x;
  for (std::size_t i = 0; i < kFeatures; ++i)
    x[i] = std::clamp((features[i] - mean[i]) * scale[i], -kMostDeviation, kMostDeviation);
  float sum = 0;
  for (std::size_t i = 0; i < kFeatures; ++i) sum += linear[i] * x[i];
  for (const Hidden& unit : hidden) {
    float in = unit.bias;
    for (std::size_t i = 0; i < kFeatures; ++i) in += unit.weights[i] * x[i];
    sum += unit.out * std::tanh(in);
  }
  return sum;
}

}  // namespace freshet::recommend
