#include "core/training/validation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/parallel.h"

namespace freshet::training {
namespace {

constexpr std::size_t kMaxCases = 1500;
constexpr std::size_t kMinTouches = 5;        // minimum for a reader to be a case
constexpr std::uint64_t kHoldoutDivisor = 5;  // one of this many is held back

// SplitMix64 (Steele, Lea, Flood 2014). std::shuffle and distributions are not portable.
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

 private:
  std::uint64_t state_;
};

std::vector<bool> choose_cold_items(const std::vector<bool>& candidates, SplitMix64& random) {
  std::vector<bool> cold(candidates.size(), false);
  for (std::size_t item = 0; item < candidates.size(); ++item) {
    cold[item] = candidates[item] && random.below(kHoldoutDivisor) == 0;
  }
  return cold;
}

std::vector<std::uint32_t> choose_readers(const Interactions& all, SplitMix64& random) {
  std::vector<std::uint32_t> readers;
  for (std::uint32_t reader = 0; reader < all.readers; ++reader) {
    if (all.items_of(reader).size() >= kMinTouches) readers.push_back(reader);
  }
  const std::size_t cases = std::min(kMaxCases, readers.size());
  for (std::size_t i = 0; i < cases; ++i)
    std::swap(readers[i], readers[i + random.below(readers.size() - i)]);
  readers.resize(cases);
  std::sort(readers.begin(), readers.end());
  return readers;
}

// Discount of a hit at a rank (from 0).
double discount(std::size_t rank) { return 1 / std::log2(static_cast<double>(rank + 2)); }

}  // namespace

double ndcg(std::span<const std::uint32_t> list, std::span<const std::uint32_t> relevant) {
  if (relevant.empty()) return 0;
  double gained = 0;
  double best = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (std::binary_search(relevant.begin(), relevant.end(), list[i])) gained += discount(i);
  }
  for (std::size_t i = 0; i < std::min(kListLength, relevant.size()); ++i) best += discount(i);
  return gained / best;
}

double recall(std::span<const std::uint32_t> list, std::span<const std::uint32_t> relevant) {
  if (relevant.empty()) return 0;
  const auto hits = std::count_if(list.begin(), list.end(), [&](std::uint32_t item) {
    return std::binary_search(relevant.begin(), relevant.end(), item);
  });
  return static_cast<double>(hits) / static_cast<double>(relevant.size());
}

Validation split_validation(const Interactions& all, const std::vector<bool>& cold_candidates) {
  SplitMix64 random(7);
  Validation validation;
  validation.cold = choose_cold_items(cold_candidates, random);
  const auto readers = choose_readers(all, random);
  std::vector<Touch> training;
  training.reserve(all.touch_count());
  std::size_t next = 0;
  for (std::uint32_t reader = 0; reader < all.readers; ++reader) {
    const bool is_case = next < readers.size() && readers[next] == reader;
    ValidationCase validation_case{reader, {}, {}};
    for (const std::uint32_t item : all.items_of(reader)) {
      if (validation.cold[item]) {
        validation_case.cold.push_back(item);
      } else if (is_case && random.below(kHoldoutDivisor) == 0) {
        validation_case.warm.push_back(item);
      } else {
        training.push_back({reader, item});
      }
    }
    if (!is_case) continue;
    ++next;
    validation.cases.push_back(std::move(validation_case));
  }
  for (std::uint32_t item = 0; item < all.items; ++item)
    validation.has_touches.push_back(!all.readers_of(item).empty());
  validation.training = build_interactions(training, all.readers, all.items);
  return validation;
}

std::vector<std::uint32_t> top_scored(std::span<const std::uint32_t> candidates,
                                      std::span<const float> scores, std::size_t limit) {
  const auto ranks_before = [&](std::uint32_t a, std::uint32_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  };
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  std::vector<std::uint32_t> heap;  // the worst of the best is at the front
  float threshold = kMasked;
  for (const std::uint32_t item : candidates) {
    if (!(scores[item] > kMasked) || (heap.size() == limit && !(scores[item] >= threshold))) continue;
    if (heap.size() == limit) {
      if (!ranks_before(item, heap.front())) continue;
      std::pop_heap(heap.begin(), heap.end(), ranks_before);
      heap.pop_back();
    }
    heap.push_back(item);
    std::push_heap(heap.begin(), heap.end(), ranks_before);
    threshold = scores[heap.front()];
  }
  std::sort_heap(heap.begin(), heap.end(), ranks_before);
  return heap;
}

std::vector<std::vector<double>> evaluate_cases(const Validation& validation, const ScoreFunction& score,
                                                std::span<const std::vector<float>> factors) {
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  const std::uint32_t items = validation.training.items;
  std::vector<std::uint32_t> warm;
  for (std::uint32_t item = 0; item < items; ++item) {
    if (validation.has_touches[item] && !validation.cold[item]) warm.push_back(item);
  }
  std::vector<double> gains(validation.cases.size() * factors.size(), 0);
  parallel_for(validation.cases.size(), 16, [&](std::size_t begin, std::size_t end) {
    std::vector<float> scores(items);
    std::vector<float> scaled(items);
    for (std::size_t i = begin; i < end; ++i) {
      const ValidationCase& validation_case = validation.cases[i];
      const auto profile = validation.training.items_of(validation_case.reader);
      std::fill(scores.begin(), scores.end(), 0.F);
      score(profile, scores);
      for (std::size_t f = 0; f < factors.size(); ++f) {
        for (std::size_t item = 0; item < items; ++item) scaled[item] = scores[item] * factors[f][item];
        for (const std::uint32_t item : profile) scaled[item] = kMasked;
        gains[f * validation.cases.size() + i] = ndcg(top_scored(warm, scaled), validation_case.warm);
      }
    }
  });
  std::vector<std::vector<double>> by_factors(factors.size());
  for (std::size_t i = 0; i < gains.size(); ++i) {
    if (!validation.cases[i % validation.cases.size()].warm.empty())
      by_factors[i / validation.cases.size()].push_back(gains[i]);
  }
  return by_factors;
}

std::vector<double> evaluate_ndcg(const Validation& validation, const ScoreFunction& score,
                                  std::span<const std::vector<float>> factors) {
  std::vector<double> means;
  for (const std::vector<double>& each : evaluate_cases(validation, score, factors)) {
    const double sum = std::accumulate(each.begin(), each.end(), 0.0);
    means.push_back(sum / std::max(1.0, static_cast<double>(each.size())));
  }
  return means;
}

}  // namespace freshet::training
