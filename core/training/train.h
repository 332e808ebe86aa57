// Training: events → model. Deterministic: the same data and settings give the same bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/config/settings.h"
#include "core/model/model.h"
#include "core/recommend/ranker.h"
#include "core/training/ranking/ranking_choice.h"
#include "core/training/training_data.h"

namespace freshet::training {

// Called with the current step and its progress, 0..1.
using Progress = std::function<void(std::string_view stage, double done)>;

// Hyperparameters chosen on the validation set.
struct Parameters {
  bool ease = false;  // false: RP3beta
  float lambda = 400;
  float alpha = 0.5F, beta = 0.3F;
  model::BlendWeights blend_weights;
};

// A model in memory, with the content of the file to be written.
struct TrainedModel {
  struct Rows {                                // CSR over items
    std::vector<std::uint64_t> starts;         // items + 1
    std::vector<model::Neighbour> neighbours;  // each row heaviest first
  };
  std::vector<TrainingItem> items;  // visible items by id; `published` resolved
  std::vector<float> counts, decayed_counts;
  Rows relations[model::kRelations];
  model::BlendWeights blend_weights;
  std::vector<std::uint64_t> vocabulary;              // term hashes, ascending; the index is the term
  std::vector<float> idf;                             // by term
  std::vector<std::vector<model::TermWeight>> terms;  // by item
  std::vector<float> reranker;
  model::ChosenRanking ranking;
  RankingChoice ranking_choice;  // how `ranking` was chosen, for the table
  UnixSeconds trained_at;
  std::string algorithm;
  Parameters parameters;
  // Validation scores for the log, such as "ease .2677, rp3beta .2203 (ndcg@20)".
  std::string report;
};

// Trains a model. `ranking`: the service's settings, which the re-ranker is trained to improve on
// (learn_rerank.h). Errors: kInvalid "no_events" if fewer than two items have events.
Result<TrainedModel> train(const TrainingData& data, const TrainSettings& settings, const Progress& progress,
                           const recommend::RankingSettings& ranking = {});
// The same without the re-ranker.
Result<TrainedModel> train_relations(const TrainingData& data, const TrainSettings& settings,
                                     const Progress& progress);
// The same with given hyperparameters. Skips the validation, which makes it about five times as
// fast.
Result<TrainedModel> train_with_parameters(const TrainingData& data, const TrainSettings& settings,
                                           const Parameters& chosen);

// Writes the file durably and replaces the old one by rename. Errors: kUnavailable "model_io",
// "disk_full"; kInvalid "model_too_large".
Result<void> write_model(const TrainedModel& trained, const std::filesystem::path& path);

}  // namespace freshet::training
