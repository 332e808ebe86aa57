// Learns a Reranker: gradient descent (Adam) on the listwise softmax loss, −ln of the probability
// the re-ranker gives to what was taken. Deterministic: its only randomness is a generator with a
// fixed seed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/recommend/rerank.h"

namespace freshet::training {

// The candidates of one reader at one moment, and which of them the reader then took.
struct RankingExample {
  std::vector<recommend::FeatureVector> candidates;
  std::vector<std::uint8_t> labels;  // as many; 1 or 0
};

// Measured on Deskdrop, days 90–210, N@20 (DECISIONS.md): 1 round .438, 3 .442, 5 .443, 10 .444.
struct FitSettings {
  int epochs = 5;       // over all choices
  int batch_size = 16;       // choices a step
  float learning_rate = 0.02F;   // of the first step; falls to 0 linearly
  float weight_decay = 1e-4F;  // of the parameters, each step, by the rate
  std::uint64_t seed = 1;
};

// REQUIRES: some choice has something taken. Choices without are passed over.
// O(rounds · candidates · parameters).
recommend::Reranker fit_reranker(std::span<const RankingExample> examples, const FitSettings& settings = {});

}  // namespace freshet::training
