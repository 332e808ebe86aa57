// Recommender on the mapped model and the worker's copy of what is trending and new.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/async/task.h"
#include "core/config/settings.h"
#include "core/model/served_model.h"
#include "core/recommend/ports.h"
#include "core/recommend/ranking.h"
#include "core/recommend/trend_snapshot.h"

namespace freshet::recommend {

class MappedRecommender final : public Recommender {
 public:
  // All references must outlive this.
  MappedRecommender(TrendReader& trend, const model::ServedModel& model, const Settings& settings);

  Task<Result<std::shared_ptr<const Suggestions>>> suggest(Profile profile, UnixSeconds now) override;
  std::shared_ptr<const Suggestions> suggest_stale(const Profile& profile, UnixSeconds now) override;
  std::optional<std::vector<SimilarItem>> similar(const ItemId& item, std::size_t most) override;
  std::string model() const override;

 private:
  using Clock = std::chrono::steady_clock;
  Task<Result<void>> up_to_date();
  Task<void> renew();

  TrendReader& trend_;
  const model::ServedModel& served_;
  const milliseconds snapshot_;
  Ranking ranking_;
  std::shared_ptr<const Catalogue> catalogue_;
  std::shared_ptr<const model::Model> of_model_;  // of catalogue_
  Clock::time_point read_at_;
  bool renewing_ = false;
  Error last_error_;
  std::vector<AsyncEvent<int>*> waiting_;  // for the renewal under way
};

}  // namespace freshet::recommend
