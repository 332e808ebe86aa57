// Training: events → model. Deterministic: the same data and settings give the same bytes.
#pragma once

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
#include "core/training/training_data.h"

namespace freshet::training {

// Called with what is being done and how much of it, 0..1.
using Progress = std::function<void(std::string_view stage, double done)>;

// What validation chooses.
struct Parameters {
  bool ease = false;  // else RP3beta
  float lambda = 400;
  float alpha = 0.5F, beta = 0.3F;
  model::BlendWeights blend_weights;
};

// A model in memory, as it will stand in the file.
struct TrainedModel {
  struct Rows {                                // CSR over items
    std::vector<std::uint64_t> starts;         // items + 1
    std::vector<model::Neighbour> neighbours;  // of each row heaviest first
  };
  std::vector<TrainingItem> items;  // shown ones, by id; `published` resolved
  std::vector<float> counts, decayed_counts;
  Rows relations[model::kRelations];
  model::BlendWeights blend_weights;
  std::vector<std::uint64_t> vocabulary;              // term hashes, ascending: the index is the term
  std::vector<float> idf;                             // by term
  std::vector<std::vector<model::TermWeight>> terms;  // by item
  std::vector<float> reranker;
  UnixSeconds trained_at;
  std::string algorithm;
  Parameters parameters;
  // What validation said, for the log and the tables: "ease .2677, rp3beta .2203 (ndcg@20)".
  std::string report;
};

// Errors: kInvalid "no_events" when nothing can be learned from (fewer than two items with events).
// `ranking`: as the service ranks, which the re-ranker learns to do better (learn_rerank.h).
Result<TrainedModel> train(const TrainingData& data, const TrainSettings& settings, const Progress& progress,
                      const recommend::RankingSettings& ranking = {});
// The same without the re-ranker.
Result<TrainedModel> train_relations(const TrainingData& data, const TrainSettings& settings,
                                const Progress& progress);
// The same with parameters that were chosen before: without validation, some five times as fast.
Result<TrainedModel> train_with_parameters(const TrainingData& data, const TrainSettings& settings, const Parameters& chosen);

// Writes beside `path`, syncs, renames: readers see the old file or the new one. Errors:
// kUnavailable "model_io", "disk_full".
Result<void> write_model(const TrainedModel& trained, const std::filesystem::path& path);

}  // namespace freshet::training
