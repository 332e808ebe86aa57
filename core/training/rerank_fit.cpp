#include "core/training/rerank_fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace freshet::training {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): standard distributions differ between libraries, this does
// not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  float symmetric() {
    return static_cast<float>(static_cast<double>(next() >> 11) * 0x1p-52 - 1.0);
  }  // [−1, 1)

 private:
  std::uint64_t state_;
};

// What is learned, as one row of numbers: linear, then each hidden unit's weights, bias and out.
constexpr std::size_t kUnit = recommend::kFeatures + 2;
constexpr std::size_t kLearned = recommend::kFeatures + recommend::kHiddenUnits * kUnit;
using Row = std::array<float, kLearned>;

struct Moments {
  recommend::Features mean{}, scale{};
};

Moments moments_of(std::span<const Choice> choices) {
  std::array<double, recommend::kFeatures> sum{}, squares{};
  double count = 0;
  for (const Choice& choice : choices) {
    for (const recommend::Features& x : choice.candidates) {
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
    // What is the same everywhere tells nothing now, and must not explode when it begins to differ.
    out.scale[i] = variance > 1e-6 ? static_cast<float>(1 / std::sqrt(variance)) : 0.F;
  }
  return out;
}

struct Passed {  // of one candidate through the net
  recommend::Features x{};
  std::array<float, recommend::kHiddenUnits> activation{};
  float logit = 0;
};

Passed pass(const recommend::Features& features, const Moments& moments, const Row& row) {
  Passed out;
  for (std::size_t i = 0; i < recommend::kFeatures; ++i) {
    out.x[i] = std::clamp((features[i] - moments.mean[i]) * moments.scale[i], -recommend::kMostDeviation,
                          recommend::kMostDeviation);
    out.logit += row[i] * out.x[i];
  }
  for (std::size_t k = 0; k < recommend::kHiddenUnits; ++k) {
    const float* const unit = &row[recommend::kFeatures + k * kUnit];
    float in = unit[recommend::kFeatures];
    for (std::size_t i = 0; i < recommend::kFeatures; ++i) in += unit[i] * out.x[i];
    out.activation[k] = std::tanh(in);
    out.logit += unit[recommend::kFeatures + 1] * out.activation[k];
  }
  return out;
}

void add_gradient(const Passed& passed, float slope, const Row& row, Row& gradient) {
  for (std::size_t i = 0; i < recommend::kFeatures; ++i) gradient[i] += slope * passed.x[i];
  for (std::size_t k = 0; k < recommend::kHiddenUnits; ++k) {
    const std::size_t unit = recommend::kFeatures + k * kUnit;
    const float activation = passed.activation[k];
    gradient[unit + recommend::kFeatures + 1] += slope * activation;
    const float inner = slope * row[unit + recommend::kFeatures + 1] * (1 - activation * activation);
    for (std::size_t i = 0; i < recommend::kFeatures; ++i) gradient[unit + i] += inner * passed.x[i];
    gradient[unit + recommend::kFeatures] += inner;
  }
}

// Adds the gradient of −Σ over taken of ln softmax / taken.
void add_choice(const Choice& choice, const Moments& moments, const Row& row, float share, Row& gradient) {
  const auto taken = std::accumulate(choice.taken.begin(), choice.taken.end(), 0);
  std::vector<Passed> passed;
  passed.reserve(choice.candidates.size());
  for (const recommend::Features& each : choice.candidates) passed.push_back(pass(each, moments, row));
  float most = passed.front().logit;
  for (const Passed& each : passed) most = std::max(most, each.logit);
  double sum = 0;
  for (const Passed& each : passed) sum += std::exp(each.logit - most);
  for (std::size_t i = 0; i < passed.size(); ++i) {
    const auto expected = static_cast<float>(std::exp(passed[i].logit - most) / sum);
    const float found = choice.taken[i] ? 1 / static_cast<float>(taken) : 0.F;
    add_gradient(passed[i], (expected - found) * share, row, gradient);
  }
}

// Kingma, Ba, "Adam: A Method for Stochastic Optimization", 2015.
class Adam {
 public:
  void step(Row& row, const Row& gradient, float rate, float decay) {
    constexpr float kFirst = 0.9F, kSecond = 0.999F;
    first_power_ *= kFirst;
    second_power_ *= kSecond;
    for (std::size_t i = 0; i < kLearned; ++i) {
      first_[i] = kFirst * first_[i] + (1 - kFirst) * gradient[i];
      second_[i] = kSecond * second_[i] + (1 - kSecond) * gradient[i] * gradient[i];
      const float slope = first_[i] / (1 - first_power_);
      const float size = std::sqrt(second_[i] / (1 - second_power_)) + 1e-8F;
      row[i] -= rate * (slope / size + decay * row[i]);
    }
  }

 private:
  Row first_{}, second_{};
  float first_power_ = 1, second_power_ = 1;
};

// Hidden weights begin small and different; everything else at 0.
Row first_row(Random& random) {
  Row row{};
  for (std::size_t k = 0; k < recommend::kHiddenUnits; ++k) {
    float* const unit = &row[recommend::kFeatures + k * kUnit];
    for (std::size_t i = 0; i < recommend::kFeatures; ++i)
      unit[i] = random.symmetric() / std::sqrt(static_cast<float>(recommend::kFeatures));
    unit[recommend::kFeatures + 1] =
        random.symmetric() / std::sqrt(static_cast<float>(recommend::kHiddenUnits));
  }
  return row;
}

}  // namespace

recommend::Reranker fit_reranker(std::span<const Choice> choices, const FitSettings& settings) {
  const Moments moments = moments_of(choices);
  Random random(settings.seed);
  Row row = first_row(random);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (std::find(choices[i].taken.begin(), choices[i].taken.end(), 1) != choices[i].taken.end())
      order.push_back(i);
  }
  const auto batch = static_cast<std::size_t>(settings.batch);
  const std::size_t steps = static_cast<std::size_t>(settings.rounds) * ((order.size() + batch - 1) / batch);
  std::size_t done = 0;
  Adam adam;
  for (int round = 0; round < settings.rounds; ++round) {
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.next() % i]);
    for (std::size_t from = 0; from < order.size(); from += batch, ++done) {
      const std::size_t to = std::min(order.size(), from + batch);
      Row gradient{};
      for (std::size_t i = from; i < to; ++i)
        add_choice(choices[order[i]], moments, row, 1 / static_cast<float>(batch), gradient);
      const float left = 1 - static_cast<float>(done) / static_cast<float>(steps);
      adam.step(row, gradient, settings.rate * left, settings.decay);
    }
  }
  recommend::Reranker out;
  out.mean = moments.mean;
  out.scale = moments.scale;
  std::copy_n(row.begin(), recommend::kFeatures, out.linear.begin());
  for (std::size_t k = 0; k < recommend::kHiddenUnits; ++k) {
    const float* const unit = &row[recommend::kFeatures + k * kUnit];
    std::copy_n(unit, recommend::kFeatures, out.hidden[k].weights.begin());
    out.hidden[k].bias = unit[recommend::kFeatures];
    out.hidden[k].out = unit[recommend::kFeatures + 1];
  }
  return out;
}

}  // namespace freshet::training
