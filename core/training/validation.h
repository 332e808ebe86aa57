// A part of the training data that is kept from training, to choose by: of some readers a fifth of
// what they touched; and, where items have content, every touch of a fifth of the items, which are
// thereby as good as new.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/training/interactions.h"

namespace freshet::training {

inline constexpr std::size_t kListLength = 20;  // ndcg@20

// Σ over the list of 1/log2(place + 1) for what is in `wanted` (ascending), as a share of the best
// that min(kListed, wanted) could give. 0 when nothing is wanted.
double ndcg(std::span<const std::uint32_t> list, std::span<const std::uint32_t> relevant);
// The share of `wanted` (ascending) that is in the list.
double recall(std::span<const std::uint32_t> list, std::span<const std::uint32_t> relevant);

struct ValidationCase {
  std::uint32_t reader = 0;
  std::vector<std::uint32_t> warm, cold;  // what was kept back, ascending
};

struct Validation {
  Interactions training;   // all but what was kept back
  std::vector<bool> cold;  // by item: as good as new
  std::vector<bool> has_touches;  // by item: somebody touched it; of the others nothing can be told
  std::vector<ValidationCase> cases;
};

// Some 1,500 readers at most. Deterministic. `cold_candidates` by item: those that may be made new.
Validation split_validation(const Interactions& all, const std::vector<bool>& cold_candidates);

// Fills scores (zeros at first) for the profile.
using ScoreFunction = std::function<void(std::span<const std::uint32_t> profile, std::span<float> scores)>;

// For each set of factors (by item): the mean ndcg@20 of the warm items that were kept back, ranked
// among the warm items by score · factor. Cases in parallel.
std::vector<double> evaluate_ndcg(const Validation& validation, const ScoreFunction& score,
                          std::span<const std::vector<float>> factors);

// The kListed greatest scores > −∞ of `candidates`, greatest first, ties by item.
std::vector<std::uint32_t> top_scored(std::span<const std::uint32_t> candidates, std::span<const float> scores,
                                std::size_t limit = kListLength);

}  // namespace freshet::training
