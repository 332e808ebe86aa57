// Table of ranking models. Lists, rank updates, rebuilds, previews, statistics and consistency
// checks are driven by it.
//
// `engagement` and `trending` decay exponentially and are computed: their ranks hold the keys of
// core/hot/engagement.h and core/hot/trending.h, which follow from an article's counters. `views`
// is not: Redis adds up its scores, each view decayed when it was counted (view.lua), and mode =
// current computes scores from the undecayed sums.
#pragma once

#include <array>
#include <limits>
#include <span>
#include <string_view>

#include "core/base/time.h"
#include "core/config/settings.h"
#include "core/hot/engagement.h"

namespace freshet::hot {

struct Model {
  // Name in the HTTP interface and in the keys of the model's lists.
  std::string_view name;
  // Redis keys: the ZSET article → score, and the hash article → version of the counters that the
  // score was computed from. A rebuild writes to both with ":next" appended.
  std::string_view rank, rank_versions;
  int default_limit;  // list length if the request has no limit
  // Directives that a preview accepts. For a computed model, all directives its rank depends on: it
  // is rebuilt when one of them changes.
  std::span<const std::string_view> parameters;
  // Half-life of served scores; nullptr: the model is not computed.
  seconds (*half_life)(const Settings& settings) = nullptr;
  // Score before decay, in points; nullptr: none. Pure.
  double (*base)(const EngagementCounts& counts, const Settings& settings) = nullptr;

  constexpr bool is_computed() const { return half_life != nullptr; }
};

inline constexpr auto kEngagementParameters =
    std::to_array<std::string_view>({"hot.pv_weight", "hot.uv_weight", "hot.dwell_weight",
                                     "hot.dwell_prior_views", "hot.dwell_prior", "hot.half_life"});
inline constexpr auto kViewsParameters = std::to_array<std::string_view>({"views.gamma", "views.base_hours"});
inline constexpr auto kTrendingParameters = std::to_array<std::string_view>({"trending.half_life"});

inline constexpr std::array kModels{
    Model{.name = "engagement",
          .rank = "hot:rank",
          .rank_versions = "hot:placed",
          .default_limit = 20,
          .parameters = kEngagementParameters,
          .half_life = [](const Settings& settings) { return settings.engagement.half_life; },
          .base = [](const EngagementCounts& counts,
                     const Settings& settings) { return base_score(counts, settings.engagement); }},
    Model{.name = "views",
          .rank = "hot:score",
          .rank_versions = "hot:placed:views",
          .default_limit = 10,
          .parameters = kViewsParameters},
    Model{.name = "trending",
          .rank = "hot:trending",
          .rank_versions = "hot:placed:trending",
          .default_limit = 20,
          .parameters = kTrendingParameters,
          .half_life = [](const Settings& settings) { return settings.trending.half_life; }},
};
inline constexpr const Model& kEngagementModel = kModels[0];
inline constexpr const Model& kViewsModel = kModels[1];
inline constexpr const Model& kTrendingModel = kModels[2];

// The newest items with their publish times as scores, readable like a rank. Not in kModels.
inline constexpr Model kNewestItems{
    .name = "newest", .rank = "hot:newest", .rank_versions = {}, .default_limit = 20, .parameters = {}};

constexpr std::size_t index_of(const Model& model) {
  return static_cast<std::size_t>(&model - kModels.data());
}

// Converts a score stored in the rank to the score that lists show at `at`.
inline double score_at(const Model& model, double stored_score, UnixSeconds at, const Settings& settings) {
  return model.is_computed() ? score_at(stored_score, at, model.half_life(settings)) : stored_score;
}

// Articles with a lower stored score are removed from the rank. Trending has no minimum, because on
// a quiet night all scores could fall below it.
inline double min_rank_score(const Model& model, UnixSeconds now, const Settings& settings) {
  return model.base != nullptr ? rank_key(settings.list.min_score, now, model.half_life(settings))
                               : -std::numeric_limits<double>::infinity();
}

}  // namespace freshet::hot
