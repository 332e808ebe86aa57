// Holds back a part of the training data for choosing parameters: a fifth of the items of some
// readers, and, among items with content, all interactions of a fifth of the items, which simulates
// new items.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/training/interactions.h"

namespace freshet::training {

inline constexpr std::size_t kListLength = 20;  // ndcg@20

// Σ over the hits of 1/log2(rank + 1), relative to the best possible list of min(kListLength,
// relevant) hits. `relevant` must be ascending. 0 if it is empty.
double ndcg(std::span<const std::uint32_t> list, std::span<const std::uint32_t> relevant);
// The share of `relevant` (ascending) that is in the list.
double recall(std::span<const std::uint32_t> list, std::span<const std::uint32_t> relevant);

struct ValidationCase {
  std::uint32_t reader = 0;
  std::vector<std::uint32_t> warm, cold;  // held-back items, ascending
};

struct Validation {
  Interactions training;          // all interactions that were not held back
  std::vector<bool> cold;         // by item: treated as new
  std::vector<bool> has_touches;  // by item: has interactions; other items cannot be evaluated
  std::vector<ValidationCase> cases;
};

// Splits the data, with at most 1,500 readers as cases. Deterministic. `cold_candidates`: by item,
// whether it may be treated as new.
Validation split_validation(const Interactions& all, const std::vector<bool>& cold_candidates);

// Fills `scores` (initially zero) for the profile.
using ScoreFunction = std::function<void(std::span<const std::uint32_t> profile, std::span<float> scores)>;

// For each set of factors (by item): the ndcg@20 of the held-back warm items, ranked among the warm
// items by score · factor, for each case that has any. Processes cases in parallel.
std::vector<std::vector<double>> evaluate_cases(const Validation& validation, const ScoreFunction& score,
                                                std::span<const std::vector<float>> factors);
// The means of evaluate_cases().
std::vector<double> evaluate_ndcg(const Validation& validation, const ScoreFunction& score,
                                  std::span<const std::vector<float>> factors);

// Returns the `limit` candidates with the highest scores > −∞, highest first, ties by item.
std::vector<std::uint32_t> top_scored(std::span<const std::uint32_t> candidates,
                                      std::span<const float> scores, std::size_t limit = kListLength);

}  // namespace freshet::training
