// Compares rankings of recommendations on past days and chooses the one to serve.
//
// A case is a reader on a day on which they came back. What was known at their first event of the
// day ranks the candidates (live items and those with the highest affinity), and the best 20 are
// compared with the items that the reader interacted with in the next 24 hours for the first time
// (ndcg@20). The same is done for the beginning of the day, because pages are also made ahead of a
// visit, such as by `freshetctl push-recommendations`; the case has the mean of both.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/model/model.h"
#include "core/recommend/ranker.h"
#include "core/training/event_replay.h"
#include "core/training/learn_rerank.h"
#include "core/training/ranking/ranking_choice.h"

namespace freshet::training {

class RankingComparison {
 public:
  explicit RankingComparison(const recommend::RankingSettings& settings);

  // Adds the day that starts at replay.known().now, with at most about `limit` readers, evenly
  // sampled. `model` must have been trained on earlier events. Advances the replay to the last
  // moment. Takes about 5 ms per reader at 25,000 items.
  void add_day(EventReplay& replay, const std::shared_ptr<const model::Model>& model,
               const RerankDatasetSettings& settings, std::size_t limit);
  // Drops the days before this one.
  void discard_before(UnixSeconds day);

  // Returns the simplest ranking that the best one does not clearly beat: views by age, then the
  // best trend, trend × affinity, and the re-ranker. A gain is clear if it is significant
  // (one-sided t-test at 95 %, paired over readers) and at least kMinGain. The gain of the
  // re-ranker, which is served without evidence, need not be significant. Discoveries stay unless
  // what they lose is clear and more than kDiscoveryCost, because without them few items are ever
  // shown. Uses the cases with a re-ranker if there are kMinCases of them. kUntested with fewer
  // cases.
  RankingChoice choose() const;
  static constexpr std::size_t kMinCases = 600;
  static constexpr double kMinGain = 0.005, kDiscoveryCost = 0.02;

 private:
  struct Case {
    UnixSeconds day;
    bool has_reranker = false;
    std::vector<float> ndcg;  // by strategy
  };
  // The ndcg of every strategy for the reader at replay.known().now. `to_catalogue` and `to_data`
  // convert indexes of the data and the catalogue.
  std::vector<float> score(const EventReplay& replay, const recommend::Catalogue& catalogue,
                           std::span<const std::uint32_t> to_catalogue,
                           std::span<const std::uint32_t> to_data, std::uint32_t reader,
                           std::span<const std::uint32_t> picked);
  static double mean(std::span<const Case> cases, std::size_t strategy);
  static bool is_clear_gain(std::span<const Case> cases, std::size_t strategy, std::size_t than,
                            double at_least);

  recommend::Ranker formula_, reranker_, with_discoveries_;
  std::vector<Case> cases_;
};

}  // namespace freshet::training
