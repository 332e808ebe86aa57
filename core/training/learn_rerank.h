// Learns the re-ranker from the events alone: on some of the last days, at a few moments of each,
// what would have been known then (a model trained on the events before the day, what was trending
// and new, the readers' profiles) against what readers took for the first time after it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/recommend/ranker.h"
#include "core/training/event_replay.h"
#include "core/training/rerank_dataset.h"
#include "core/training/training_data.h"

namespace freshet::training {

// Trains on the events of `past` only, without a re-ranker and without another choice of algorithm;
// null: it could not. Called once for each day that is learned from, with ever more events.
using RelationTrainer = std::function<std::shared_ptr<const model::Model>(const TrainingData& past)>;

struct RerankDatasetSettings {
  int days = 28;                    // learned from, at most, evenly spread …
  int window_days = 84;                  // … over so many last ones
  double max_events = 4e6;         // Σ over the days of events before them: fewer days of a larger site
  std::size_t max_examples = 3000;  // evenly from the days, of each day's readers evenly
  std::size_t trend_items = 300, newest_items = 200;  // live items of a lesson, as the service has them
  seconds interval{6 * 3600};                // moments of a day; the first is its beginning
};

// Parameters for Trained::reranker; empty when history is too short or too uneventful
// (RerankLessons::learn). Deterministic. Time: that of `relate` for each day, and about two
// seconds.
std::vector<float> learn_rerank(const TrainingData& data, const recommend::RankingSettings& ranking,
                                const RelationTrainer& train_relations_of, const RerankDatasetSettings& settings = {});

// --- the steps, which the evaluation shares

inline constexpr std::uint32_t kNotInCatalogue = ~0U;
// By index into the data: the catalogue's index, or kNowhere.
std::vector<std::uint32_t> catalogue_indexes(const recommend::Catalogue& catalogue, const TrainingData& data);
// What readers of whom something is known touch for the first time from past.known().now on and
// before `until`, among the items that exist now. By reader; each item once.
std::map<std::uint32_t, std::vector<std::uint32_t>> first_touches(const EventReplay& replay, UnixSeconds until);
// The lessons of the day that begins at past.known().now, of at most about `most` readers' moments:
// at its beginning with what is taken on that day, and every `every` later with what is taken
// before the next moment. `past` goes on to the last of them.
void add_examples(RerankDataset& dataset, EventReplay& replay, const std::shared_ptr<const model::Model>& model,
                 const RerankDatasetSettings& settings, std::size_t limit);

}  // namespace freshet::training
