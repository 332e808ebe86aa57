// Implements Recommender on the mapped model and the worker's copy of trending and new items.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/async/task.h"
#include "core/config/settings.h"
#include "core/model/active_model.h"
#include "core/recommend/ports.h"
#include "core/recommend/ranker.h"
#include "core/recommend/trend_source.h"

namespace freshet::recommend {

class MappedRecommender final : public Recommender {
 public:
  // All references must outlive this.
  MappedRecommender(TrendSource& trend_source, const model::ActiveModel& model, const Settings& settings);

  Task<Result<std::shared_ptr<const CandidateSet>>> find_candidates(Profile profile,
                                                                    UnixSeconds now) override;
  std::shared_ptr<const CandidateSet> find_stale_candidates(const Profile& profile, UnixSeconds now) override;
  std::optional<std::vector<SimilarItem>> similar(const ItemId& item, std::size_t limit) override;
  Task<Result<std::vector<SimilarItem>>> covisits(const ItemId& item, UnixSeconds now) override;
  Task<Result<SharedItems>> trending(UnixSeconds now) override;
  std::string model_name() const override;

 private:
  using Clock = std::chrono::steady_clock;
  Task<Result<void>> ensure_fresh();
  Task<void> refresh();
  void end_refresh();  // resumes the waiters

  TrendSource& trend_source_;
  const model::ActiveModel& active_model_;
  const milliseconds refresh_interval_;
  const seconds trend_half_life_;
  Ranker ranker_;
  std::shared_ptr<const Catalogue> catalogue_;
  std::shared_ptr<const model::Model> catalogue_model_;  // the model that catalogue_ was built with
  Clock::time_point read_at_;
  SharedItems trend_;  // of catalogue_ at trend_at_; null: not sorted yet
  UnixSeconds trend_at_;
  bool refreshing_ = false;
  Error last_error_;
  std::vector<AsyncEvent<int>*> waiters_;  // waiting for the current refresh
};

}  // namespace freshet::recommend
