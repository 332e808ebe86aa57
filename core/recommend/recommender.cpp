#include "core/recommend/recommender.h"

#include <algorithm>
#include <unordered_map>

#include "core/base/fingerprint.h"

namespace freshet::recommend {

MappedRecommender::MappedRecommender(TrendSource& trend_source, const model::ActiveModel& model,
                                     const Settings& settings)
    : trend_source_(trend_source),
      active_model_(model),
      refresh_interval_(settings.recommend.trend_refresh),
      trend_half_life_(settings.trending.half_life),
      ranker_(RankingSettings::from(settings)) {}

Task<Result<std::shared_ptr<const CandidateSet>>> MappedRecommender::find_candidates(Profile profile,
                                                                                     UnixSeconds now) {
  FRESHET_CO_TRY(ready, co_await ensure_fresh());
  co_return find_stale_candidates(profile, now);
}

std::shared_ptr<const CandidateSet> MappedRecommender::find_stale_candidates(const Profile& profile,
                                                                             UnixSeconds now) {
  if (!catalogue_) return nullptr;
  const std::size_t limit = ranker_.settings().max_profile_events;
  std::vector<std::string_view> ids;
  ids.reserve(profile.events.size() + profile.dismissed.size());
  for (const readers::InteractionRecord& each : profile.events) ids.push_back(each.item.view());
  for (const ItemId& each : profile.dismissed) ids.push_back(each.view());
  std::vector<std::uint32_t> items(ids.size());
  catalogue_->find_all(ids, items);
  std::vector<ProfileEvent> events;
  std::vector<std::uint32_t> excluded;
  events.reserve(std::min(limit, profile.events.size()));
  for (std::size_t i = 0; i < items.size(); ++i) {
    // The model has embargoed items, too. Pages of items like one of them would reveal it.
    if (items[i] == model::kNoIndex || catalogue_->published(items[i]) > now) continue;
    if (i < profile.events.size() && events.size() < limit)
      events.push_back({items[i], profile.events[i].kind, profile.events[i].at});
    else
      excluded.push_back(items[i]);
  }
  ArchivePredicate is_archived;
  if (profile.archived)
    is_archived = [&](std::uint32_t item) {
      return profile.archived->contains(fingerprint(catalogue_->id(item)));
    };
  std::vector<RankedCandidate> ranked =
      ranker_.rank(*catalogue_, events, now, false, excluded, is_archived, profile.reader);
  std::erase_if(ranked, [&](const RankedCandidate& each) {  // published in the future
    return each.age_hours == 0 && catalogue_->published(each.item) > now;
  });
  return std::make_shared<CandidateSet>(catalogue_, std::move(ranked), std::move(events), ranker_.settings(),
                                        now);
}

// --- The copy of trending and new items

Task<Result<void>> MappedRecommender::ensure_fresh() {
  const auto age = Clock::now() - read_at_;
  const bool model_changed = active_model_.current() != catalogue_model_;
  if (catalogue_ && age <= refresh_interval_ && !model_changed) co_return Result<void>();
  if (!refreshing_) {
    refreshing_ = true;
    spawn(refresh(), [this](const std::exception_ptr& thrown) {
      if (!thrown) return;
      last_error_ = Error{ErrorCode::kInternal, "trend_failed", {}, "the copy of trending items failed"};
      end_refresh();
    });
  }
  if (catalogue_ && age <= 2 * refresh_interval_) co_return Result<void>();
  if (refreshing_) {
    AsyncEvent<int> done;
    waiters_.push_back(&done);
    co_await done.wait();
  }
  if (catalogue_) co_return Result<void>();
  co_return tl::unexpected(last_error_);
}

Task<void> MappedRecommender::refresh() {
  const auto model = active_model_.current();
  auto live = co_await trend_source_.read(model);
  if (live) {
    catalogue_ = std::make_shared<const Catalogue>(model, std::move(*live));
    catalogue_model_ = model;
    trend_.reset();
    read_at_ = Clock::now();
  } else {
    last_error_ = live.error();
  }
  end_refresh();
}

void MappedRecommender::end_refresh() {
  refreshing_ = false;
  for (AsyncEvent<int>* each : std::exchange(waiters_, {})) each->fire(0);
}

// --- Similar items and the model's name

std::optional<std::vector<SimilarItem>> MappedRecommender::similar(const ItemId& item, std::size_t limit) {
  const auto model = active_model_.current();
  if (!model) return std::nullopt;
  const auto index = model->find(item.view());
  if (!index) return std::nullopt;
  std::unordered_map<std::uint32_t, double> scores;
  const model::BlendWeights blend = model->blend_weights();
  for (const model::Relation relation :
       {model::Relation::kCf, model::Relation::kContent, model::Relation::kColdStart}) {
    const float blend_weight = blend.by_relation[static_cast<std::size_t>(relation)];
    for (const model::Neighbour& each : model->row(relation, *index)) {
      if (each.item != *index) scores[each.item] += blend_weight * each.weight;
    }
  }
  std::vector<std::pair<double, std::uint32_t>> best;
  for (const auto& [other, score] : scores) {
    if (score > 0) best.emplace_back(-score, other);
  }
  std::sort(best.begin(), best.end());
  std::vector<SimilarItem> out;
  for (std::size_t i = 0; i < std::min(limit, best.size()); ++i)
    out.push_back({ItemId::trusted(std::string(model->id(best[i].second))), -best[i].first});
  return out;
}

Task<Result<std::vector<SimilarItem>>> MappedRecommender::covisits(const ItemId& item, UnixSeconds now) {
  FRESHET_CO_TRY(found, co_await trend_source_.covisits(item));
  std::vector<SimilarItem> out;
  for (items::Covisit& each : *found)
    out.push_back(
        {std::move(each.next), items::covisit_weight(each.recent, now), SimilarItem::Source::kCovisits});
  co_return out;
}

Task<Result<SharedItems>> MappedRecommender::trending(UnixSeconds now) {
  FRESHET_CO_TRY(ready, co_await ensure_fresh());
  if (trend_ && trend_at_ == now) co_return trend_;
  const std::size_t half_life = hot::trending_index(trend_half_life_).value_or(0);
  std::vector<SimilarItem> out;
  for (const std::uint32_t item : catalogue_->live_items()) {
    const auto& sums = catalogue_->find_live(item)->trend;
    const double views = sums ? hot::score_at(sums->at(half_life), now, trend_half_life_) : 0;
    if (views > 0 && catalogue_->published(item) <= now)
      out.push_back({ItemId::trusted(std::string(catalogue_->id(item))), views, SimilarItem::Source::kTrend});
  }
  std::ranges::sort(out, [](const SimilarItem& a, const SimilarItem& b) {
    return a.score != b.score ? a.score > b.score : a.item < b.item;
  });
  trend_ = std::make_shared<const std::vector<SimilarItem>>(std::move(out));
  trend_at_ = now;
  co_return trend_;
}

std::string MappedRecommender::model_name() const {
  const auto model = active_model_.current();
  if (!model) return "none";
  return std::string(model->algorithm()) + "@" +
         std::to_string(model->trained_at().time_since_epoch().count());
}

}  // namespace freshet::recommend
