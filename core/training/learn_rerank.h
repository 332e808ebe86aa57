// Learns to rank from past events: trains the re-ranker, and compares it with simpler rankings
// (ranking/compare_rankings.h). For some of the last days, at a few moments of each, it
// compares what was known then (a model trained on earlier events, trending and new items, the
// readers' profiles) with what readers then picked for the first time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/recommend/ranker.h"
#include "core/training/event_replay.h"
#include "core/training/ranking/ranking_choice.h"
#include "core/training/rerank_dataset.h"
#include "core/training/training_data.h"

namespace freshet::training {

// Trains on the events of `past` only, without choosing the algorithm again. The model gets the
// given re-ranker. Returns null on failure. Called once per training day, with a growing number of
// events.
using RelationTrainer =
    std::function<std::shared_ptr<const model::Model>(const TrainingData& past, std::vector<float> reranker)>;

struct RerankDatasetSettings {
  int days = 28;            // number of training days, evenly spread …
  int window_days = 84;     // … over the last this many days
  double max_events = 4e6;  // bound for Σ over the days of earlier events; larger sites use fewer days
  std::size_t max_examples = 3000;  // spread evenly over the days, and over each day's readers
  // Live items, as in the service.
  std::size_t trend_items = 300, trending_items = 200, newest_items = 200;
  std::size_t max_cases =
      1200;  // readers in the comparison of rankings, over the last three fifths of the days
  seconds interval{6 * 3600};  // between a day's moments; the first is midnight
};

struct LearnedRanking {
  RankingChoice choice;
  std::vector<float> reranker;  // empty: neither the chosen ranking nor set by ranking.rerank
};
// Rankings are compared on each of the last three fifths of the days, with a re-ranker that has
// learned from the days before that fifth. The one that is returned has learned from all days.
// Deterministic. Takes the time of `train_relations_of` for each day, plus a few seconds.
LearnedRanking learn_ranking(const TrainingData& data, const recommend::RankingSettings& ranking,
                             const RelationTrainer& train_relations_of,
                             const RerankDatasetSettings& settings = {});

// --- Individual steps, shared with the evaluation

inline constexpr std::uint32_t kNotInCatalogue = ~0U;
// Maps indexes of `data` to catalogue indexes, or kNotInCatalogue.
std::vector<std::uint32_t> catalogue_indexes(const recommend::Catalogue& catalogue, const TrainingData& data);
// The items that known readers interact with for the first time between replay.known().now and
// `until`, among the items that exist now. By reader; each item once.
std::map<std::uint32_t, std::vector<std::uint32_t>> first_touches(const EventReplay& replay,
                                                                  UnixSeconds until);
// Adds the examples of the day that starts at replay.known().now, at most about `limit`. The
// example at midnight uses what is picked on the whole day, later ones what is picked before the
// next moment. Advances the replay to the last moment.
void add_examples(RerankDataset& dataset, EventReplay& replay,
                  const std::shared_ptr<const model::Model>& model, const RerankDatasetSettings& settings,
                  std::size_t limit);

}  // namespace freshet::training
