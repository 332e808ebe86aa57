// Trains a Reranker by gradient descent (Adam) on the listwise softmax loss: the negative
// log-likelihood of the picked candidates. Deterministic: the random generator has a fixed seed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/recommend/rerank.h"

namespace freshet::training {

// The candidates of one reader at one moment, labelled by whether the reader then picked them.
struct RankingExample {
  std::vector<recommend::FeatureVector> candidates;
  std::vector<std::uint8_t> labels;  // one per candidate; 1: picked
};

// ndcg@20 on Deskdrop, days 90–210, by number of epochs (DECISIONS.md):
// 1 .438, 3 .442, 5 .443, 10 .444.
struct FitSettings {
  int epochs = 5;               // passes over all examples
  int batch_size = 16;          // examples per step
  float learning_rate = 0.02F;  // initial; falls linearly to 0
  float weight_decay = 1e-4F;   // per step, times the learning rate
  std::uint64_t seed = 1;
};

// Ignores examples without a positive label. REQUIRES: at least one example with one.
// O(epochs · candidates · parameters).
recommend::Reranker fit_reranker(std::span<const RankingExample> examples, const FitSettings& settings = {});

}  // namespace freshet::training
