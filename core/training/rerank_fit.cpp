#include "core/training/rerank_fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace freshet::training {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014). Standard distributions are not portable.
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  float uniform_symmetric() {
    return static_cast<float>(static_cast<double>(next() >> 11) * 0x1p-52 - 1.0);
  }  // in [−1, 1)

 private:
  std::uint64_t state_;
};

// The trainable parameters as a flat vector: linear weights, then each hidden unit's weights, bias
// and output weight.
constexpr std::size_t kUnitParameters = recommend::kFeatures + 2;
constexpr std::size_t kLearnedParameters = recommend::kFeatures + recommend::kHiddenUnits * kUnitParameters;
using ParameterVector = std::array<float, kLearnedParameters>;

struct Moments {
  recommend::FeatureVector mean{}, scale{};
};

Moments compute_moments(std::span<const RankingExample> examples) {
  std::array<double, recommend::kFeatures> sum{}, squares{};
  double count = 0;
  for (const RankingExample& example : examples) {
    for (const recommend::FeatureVector& x : example.candidates) {
      ++count;
      for (std::size_t i = 0; i < recommend::kFeatures; ++i) {
        sum[i] += x[i];
        squares[i] += static_cast<double>(x[i]) * x[i];
      }
    }
  }
  Moments out;
  for (std::size_t i = 0; i < recommend::kFeatures; ++i) {
    const double mean = sum[i] / count;
    const double variance = std::max(0.0, squares[i] / count - mean * mean);
    out.mean[i] = static_cast<float>(mean);
    // A constant feature carries no information and must not explode once it varies.
    out.scale[i] = variance > 1e-6 ? static_cast<float>(1 / std::sqrt(variance)) : 0.F;
  }
  return out;
}

struct ForwardPass {  // forward pass of one candidate
  recommend::FeatureVector x{};
  std::array<float, recommend::kHiddenUnits> activation{};
  float logit = 0;
};

ForwardPass forward_pass(const recommend::FeatureVector& features, const Moments& moments,
                         const ParameterVector& row) {
  ForwardPass out;
  for (std::size_t i = 0; i < recommend::kFeatures; ++i) {
    out.x[i] = std::clamp((features[i] - moments.mean[i]) * moments.scale[i], -recommend::kMaxDeviation,
                          recommend::kMaxDeviation);
    out.logit += row[i] * out.x[i];
  }
  for (std::size_t k = 0; k < recommend::kHiddenUnits; ++k) {
    const float* const unit = &row[recommend::kFeatures + k * kUnitParameters];
    float in = unit[recommend::kFeatures];
    for (std::size_t i = 0; i < recommend::kFeatures; ++i) in += unit[i] * out.x[i];
    out.activation[k] = std::tanh(in);
    out.logit += unit[recommend::kFeatures + 1] * out.activation[k];
  }
  return out;
}

void backpropagate(const ForwardPass& result, float slope, const ParameterVector& row,
                   ParameterVector& gradient) {
  for (std::size_t i = 0; i < recommend::kFeatures; ++i) gradient[i] += slope * result.x[i];
  for (std::size_t k = 0; k < recommend::kHiddenUnits; ++k) {
    const std::size_t unit = recommend::kFeatures + k * kUnitParameters;
    const float activation = result.activation[k];
    gradient[unit + recommend::kFeatures + 1] += slope * activation;
    const float inner = slope * row[unit + recommend::kFeatures + 1] * (1 - activation * activation);
    for (std::size_t i = 0; i < recommend::kFeatures; ++i) gradient[unit + i] += inner * result.x[i];
    gradient[unit + recommend::kFeatures] += inner;
  }
}

// Adds the gradient of −(Σ over positives of ln softmax) / positives.
void add_example_gradient(const RankingExample& example, const Moments& moments, const ParameterVector& row,
                          float share, ParameterVector& gradient) {
  const auto positives = std::accumulate(example.labels.begin(), example.labels.end(), 0);
  std::vector<ForwardPass> passed;
  passed.reserve(example.candidates.size());
  for (const recommend::FeatureVector& each : example.candidates)
    passed.push_back(forward_pass(each, moments, row));
  float max_logit = passed.front().logit;
  for (const ForwardPass& each : passed) max_logit = std::max(max_logit, each.logit);
  double sum = 0;
  for (const ForwardPass& each : passed) sum += std::exp(each.logit - max_logit);
  for (std::size_t i = 0; i < passed.size(); ++i) {
    const auto probability = static_cast<float>(std::exp(passed[i].logit - max_logit) / sum);
    const float target = example.labels[i] ? 1 / static_cast<float>(positives) : 0.F;
    backpropagate(passed[i], (probability - target) * share, row, gradient);
  }
}

// Kingma, Ba, "Adam: A Method for Stochastic Optimization", 2015.
class Adam {
 public:
  void step(ParameterVector& row, const ParameterVector& gradient, float rate, float decay) {
    constexpr float kFirst = 0.9F, kSecond = 0.999F;
    first_power_ *= kFirst;
    second_power_ *= kSecond;
    for (std::size_t i = 0; i < kLearnedParameters; ++i) {
      first_[i] = kFirst * first_[i] + (1 - kFirst) * gradient[i];
      second_[i] = kSecond * second_[i] + (1 - kSecond) * gradient[i] * gradient[i];
      const float slope = first_[i] / (1 - first_power_);
      const float size = std::sqrt(second_[i] / (1 - second_power_)) + 1e-8F;
      row[i] -= rate * (slope / size + decay * row[i]);
    }
  }

 private:
  ParameterVector first_{}, second_{};
  float first_power_ = 1, second_power_ = 1;
};

// Small random hidden and output weights; everything else is 0.
ParameterVector initial_parameters(SplitMix64& random) {
  ParameterVector row{};
  for (std::size_t k = 0; k < recommend::kHiddenUnits; ++k) {
    float* const unit = &row[recommend::kFeatures + k * kUnitParameters];
    for (std::size_t i = 0; i < recommend::kFeatures; ++i)
      unit[i] = random.uniform_symmetric() / std::sqrt(static_cast<float>(recommend::kFeatures));
    unit[recommend::kFeatures + 1] =
        random.uniform_symmetric() / std::sqrt(static_cast<float>(recommend::kHiddenUnits));
  }
  return row;
}

}  // namespace

recommend::Reranker fit_reranker(std::span<const RankingExample> examples, const FitSettings& settings) {
  const Moments moments = compute_moments(examples);
  SplitMix64 random(settings.seed);
  ParameterVector row = initial_parameters(random);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    if (std::find(examples[i].labels.begin(), examples[i].labels.end(), 1) != examples[i].labels.end())
      order.push_back(i);
  }
  const auto batch = static_cast<std::size_t>(settings.batch_size);
  const std::size_t steps = static_cast<std::size_t>(settings.epochs) * ((order.size() + batch - 1) / batch);
  std::size_t step = 0;
  Adam adam;
  for (int epoch = 0; epoch < settings.epochs; ++epoch) {
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.next() % i]);
    for (std::size_t from = 0; from < order.size(); from += batch, ++step) {
      const std::size_t to = std::min(order.size(), from + batch);
      ParameterVector gradient{};
      for (std::size_t i = from; i < to; ++i)
        add_example_gradient(examples[order[i]], moments, row, 1 / static_cast<float>(batch), gradient);
      const float remaining = 1 - static_cast<float>(step) / static_cast<float>(steps);
      adam.step(row, gradient, settings.learning_rate * remaining, settings.weight_decay);
    }
  }
  recommend::Reranker out;
  out.mean = moments.mean;
  out.scale = moments.scale;
  std::copy_n(row.begin(), recommend::kFeatures, out.linear.begin());
  for (std::size_t k = 0; k < recommend::kHiddenUnits; ++k) {
    const float* const unit = &row[recommend::kFeatures + k * kUnitParameters];
    std::copy_n(unit, recommend::kFeatures, out.hidden[k].weights.begin());
    out.hidden[k].bias = unit[recommend::kFeatures];
    out.hidden[k].output_weight = unit[recommend::kFeatures + 1];
  }
  return out;
}

}  // namespace freshet::training
