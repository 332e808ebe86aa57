#include "core/recommend/recommender.h"

#include <algorithm>
#include <unordered_map>

#include "core/base/fingerprint.h"

namespace freshet::recommend {

MappedRecommender::MappedRecommender(TrendReader& trend, const model::ServedModel& model,
                                     const Settings& settings)
    : trend_(trend),
      served_(model),
      snapshot_(settings.recommend.trend_refresh),
      ranking_(RankingSettings::of(settings)) {}

Task<Result<std::shared_ptr<const Suggestions>>> MappedRecommender::suggest(Profile profile,
                                                                            UnixSeconds now) {
  FRESHET_CO_TRY(ready, co_await up_to_date());
  co_return suggest_stale(profile, now);
}

std::shared_ptr<const Suggestions> MappedRecommender::suggest_stale(const Profile& profile, UnixSeconds now) {
  if (!catalogue_) return nullptr;
  const std::size_t most = ranking_.settings().profile;
  std::vector<std::string_view> ids;
  ids.reserve(profile.events.size() + profile.unwanted.size());
  for (const readers::InteractionRecord& each : profile.events) ids.push_back(each.item.view());
  for (const ItemId& each : profile.unwanted) ids.push_back(each.view());
  std::vector<std::uint32_t> items(ids.size());
  catalogue_->find_all(ids, items);
  std::vector<ProfileEvent> events;
  std::vector<std::uint32_t> unwanted;
  events.reserve(std::min(most, profile.events.size()));
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i] == model::kNone) continue;
    if (i < profile.events.size() && events.size() < most)
      events.push_back({items[i], profile.events[i].kind, profile.events[i].at});
    else
      unwanted.push_back(items[i]);
  }
  DoneBefore done_before;
  if (profile.earlier)
    done_before = [&](std::uint32_t item) {
      return profile.earlier->contains(fingerprint(catalogue_->id(item)));
    };
  std::vector<Ranked> all = ranking_.rank(*catalogue_, events, now, false, unwanted, done_before);
  std::erase_if(all, [&](const Ranked& each) {  // dated ahead
    return each.age_hours == 0 && catalogue_->published(each.item) > now;
  });
  return std::make_shared<Suggestions>(catalogue_, std::move(all), std::move(events), ranking_.settings(),
                                       now);
}

// --- the copy of what is trending and new

Task<Result<void>> MappedRecommender::up_to_date() {
  const auto age = Clock::now() - read_at_;
  const bool other_model = served_.current() != of_model_;
  if (catalogue_ && age <= snapshot_ && !other_model) co_return Result<void>();
  if (!renewing_) {
    renewing_ = true;
    spawn(renew(), [](std::exception_ptr) {});
  }
  if (catalogue_ && age <= 2 * snapshot_) co_return Result<void>();
  if (renewing_) {
    AsyncEvent<int> done;
    waiting_.push_back(&done);
    co_await done.wait();
  }
  if (catalogue_) co_return Result<void>();
  co_return tl::unexpected(last_error_);
}

Task<void> MappedRecommender::renew() {
  const auto model = served_.current();
  auto live = co_await trend_.read(model);
  if (live) {
    catalogue_ = std::make_shared<const Catalogue>(model, std::move(*live));
    of_model_ = model;
    read_at_ = Clock::now();
  } else {
    last_error_ = live.error();
  }
  renewing_ = false;
  for (AsyncEvent<int>* each : std::exchange(waiting_, {})) each->fire(0);
}

// --- similar items, and the model's name

std::optional<std::vector<SimilarItem>> MappedRecommender::similar(const ItemId& item, std::size_t most) {
  const auto model = served_.current();
  if (!model) return std::nullopt;
  const auto index = model->find(item.view());
  if (!index) return std::nullopt;
  std::unordered_map<std::uint32_t, double> scores;
  const model::Mix mix = model->mix();
  for (const model::Part part : {model::Part::kCf, model::Part::kContent, model::Part::kBorrowed}) {
    const float share = mix.part[static_cast<std::size_t>(part)];
    for (const model::Neighbour& each : model->row(part, *index)) {
      if (each.item != *index) scores[each.item] += share * each.weight;
    }
  }
  std::vector<std::pair<double, std::uint32_t>> best;
  for (const auto& [other, score] : scores) {
    if (score > 0) best.emplace_back(-score, other);
  }
  std::sort(best.begin(), best.end());
  std::vector<SimilarItem> out;
  for (std::size_t i = 0; i < std::min(most, best.size()); ++i)
    out.push_back({ItemId::trusted(std::string(model->id(best[i].second))), -best[i].first});
  return out;
}

std::string MappedRecommender::model() const {
  const auto model = served_.current();
  if (!model) return "none";
  return std::string(model->algorithm()) + "@" +
         std::to_string(model->trained_at().time_since_epoch().count());
}

}  // namespace freshet::recommend
