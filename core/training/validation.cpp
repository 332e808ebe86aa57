#include "core/training/validation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/parallel.h"

namespace freshet::training {
namespace {

constexpr std::size_t kMostCases = 1500;
constexpr std::size_t kFewestTouches = 5;  // of a reader who can be a case
constexpr std::uint64_t kKeptBack = 5;     // one in so many

// Steele, Lea, Flood: SplitMix64. The same everywhere, which std::shuffle and distributions are
// not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
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

std::vector<bool> made_new(const std::vector<bool>& candidates, Random& random) {
  std::vector<bool> cold(candidates.size(), false);
  for (std::size_t item = 0; item < candidates.size(); ++item) {
    cold[item] = candidates[item] && random.below(kKeptBack) == 0;
  }
  return cold;
}

std::vector<std::uint32_t> choose_readers(const Interactions& all, Random& random) {
  std::vector<std::uint32_t> readers;
  for (std::uint32_t reader = 0; reader < all.readers; ++reader) {
    if (all.of_reader(reader).size() >= kFewestTouches) readers.push_back(reader);
  }
  const std::size_t cases = std::min(kMostCases, readers.size());
  for (std::size_t i = 0; i < cases; ++i)
    std::swap(readers[i], readers[i + random.below(readers.size() - i)]);
  readers.resize(cases);
  std::sort(readers.begin(), readers.end());
  return readers;
}

// What a hit at a place (from 0) is worth.
double at_place(std::size_t place) { return 1 / std::log2(static_cast<double>(place + 2)); }

}  // namespace

double ndcg(std::span<const std::uint32_t> list, std::span<const std::uint32_t> wanted) {
  if (wanted.empty()) return 0;
  double gained = 0;
  double best = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (std::binary_search(wanted.begin(), wanted.end(), list[i])) gained += at_place(i);
  }
  for (std::size_t i = 0; i < std::min(kListed, wanted.size()); ++i) best += at_place(i);
  return gained / best;
}

double recall(std::span<const std::uint32_t> list, std::span<const std::uint32_t> wanted) {
  if (wanted.empty()) return 0;
  const auto found = std::count_if(list.begin(), list.end(), [&](std::uint32_t item) {
    return std::binary_search(wanted.begin(), wanted.end(), item);
  });
  return static_cast<double>(found) / static_cast<double>(wanted.size());
}

Validation validation_of(const Interactions& all, const std::vector<bool>& cold_candidates) {
  Random random(7);
  Validation made;
  made.cold = made_new(cold_candidates, random);
  const auto readers = choose_readers(all, random);
  std::vector<Touch> kept;
  kept.reserve(all.touches());
  std::size_t next = 0;
  for (std::uint32_t reader = 0; reader < all.readers; ++reader) {
    const bool is_case = next < readers.size() && readers[next] == reader;
    Case one{reader, {}, {}};
    for (const std::uint32_t item : all.of_reader(reader)) {
      if (made.cold[item]) {
        one.cold.push_back(item);
      } else if (is_case && random.below(kKeptBack) == 0) {
        one.warm.push_back(item);
      } else {
        kept.push_back({reader, item});
      }
    }
    if (!is_case) continue;
    ++next;
    made.cases.push_back(std::move(one));
  }
  for (std::uint32_t item = 0; item < all.items; ++item) made.told.push_back(!all.of_item(item).empty());
  made.training = interactions_of(kept, all.readers, all.items);
  return made;
}

std::vector<std::uint32_t> best(std::span<const std::uint32_t> candidates, std::span<const float> scores,
                                std::size_t most) {
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  };
  constexpr float kOut = -std::numeric_limits<float>::infinity();
  std::vector<std::uint32_t> heap;  // the worst of the best in front
  float least = kOut;
  for (const std::uint32_t item : candidates) {
    if (!(scores[item] > kOut) || (heap.size() == most && !(scores[item] >= least))) continue;
    if (heap.size() == most) {
      if (!before(item, heap.front())) continue;
      std::pop_heap(heap.begin(), heap.end(), before);
      heap.pop_back();
    }
    heap.push_back(item);
    std::push_heap(heap.begin(), heap.end(), before);
    least = scores[heap.front()];
  }
  std::sort_heap(heap.begin(), heap.end(), before);
  return heap;
}

std::vector<double> judge(const Validation& validation, const Score& score,
                          std::span<const std::vector<float>> factors) {
  constexpr float kOut = -std::numeric_limits<float>::infinity();
  const std::uint32_t items = validation.training.items;
  std::vector<std::uint32_t> warm;
  for (std::uint32_t item = 0; item < items; ++item) {
    if (validation.told[item] && !validation.cold[item]) warm.push_back(item);
  }
  std::vector<double> gains(validation.cases.size() * factors.size(), 0);
  parallel_for(validation.cases.size(), 16, [&](std::size_t begin, std::size_t end) {
    std::vector<float> scores(items);
    std::vector<float> scaled(items);
    for (std::size_t i = begin; i < end; ++i) {
      const Case& one = validation.cases[i];
      const auto profile = validation.training.of_reader(one.reader);
      std::fill(scores.begin(), scores.end(), 0.F);
      score(profile, scores);
      for (std::size_t f = 0; f < factors.size(); ++f) {
        for (std::size_t item = 0; item < items; ++item) scaled[item] = scores[item] * factors[f][item];
        for (const std::uint32_t item : profile) scaled[item] = kOut;
        gains[f * validation.cases.size() + i] = ndcg(best(warm, scaled), one.warm);
      }
    }
  });
  const auto judged = std::count_if(validation.cases.begin(), validation.cases.end(),
                                    [](const Case& one) { return !one.warm.empty(); });
  std::vector<double> means;
  for (std::size_t f = 0; f < factors.size(); ++f) {
    const auto from = gains.begin() + static_cast<std::ptrdiff_t>(f * validation.cases.size());
    const double sum =
        std::accumulate(from, from + static_cast<std::ptrdiff_t>(validation.cases.size()), 0.0);
    means.push_back(sum / std::max(1.0, static_cast<double>(judged)));
  }
  return means;
}

}  // namespace freshet::training
