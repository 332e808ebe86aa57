// The models of hot lists, a row each: lists, places in ranks, rebuilds, previews, statistics and
// checks go by it.
//
// A model with a base ranks by what reports counted (track.lua), and decays exponentially: what its
// rank holds is the key of core/hot/engagement.h. `views` has none: Redis adds up its scores, each
// view decayed as it came (view.lua), and mode = current computes what it shows from the sums.
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
  // Of the HTTP interface, and in the keys of its lists.
  std::string_view name;
  // Keys: the ZSET article → place, and the hash article → version of the counters that its place
  // follows from. While they are made anew there are both with ":next" behind them.
  std::string_view rank, rank_versions;
  int default_limit;  // entries of a list when a request says nothing
  // Directives that a preview takes. Of a model with a base all that its places follow from: ranks
  // are made anew when one was changed.
  std::span<const std::string_view> parameters;
  // Points before decay; nullptr: see above. Pure.
  double (*base)(const EngagementCounts& counts, const Settings& settings) = nullptr;
  seconds (*half_life)(const Settings& settings) = nullptr;
};

inline constexpr auto kEngagementParameters =
    std::to_array<std::string_view>({"hot.pv_weight", "hot.uv_weight", "hot.dwell_weight",
                                     "hot.dwell_prior_views", "hot.dwell_prior", "hot.half_life"});
inline constexpr auto kViewsParameters = std::to_array<std::string_view>({"views.gamma", "views.base_hours"});

inline constexpr std::array kModels{
    Model{.name = "engagement",
          .rank = "hot:rank",
          .rank_versions = "hot:placed",
          .default_limit = 20,
          .parameters = kEngagementParameters,
          .base = [](const EngagementCounts& counts,
                     const Settings& settings) { return base_score(counts, settings.engagement); },
          .half_life = [](const Settings& settings) { return settings.engagement.half_life; }},
    Model{.name = "views",
          .rank = "hot:score",
          .rank_versions = "hot:placed:views",
          .default_limit = 10,
          .parameters = kViewsParameters},
};
inline constexpr const Model& kEngagementModel = kModels[0];
inline constexpr const Model& kViewsModel = kModels[1];

constexpr std::size_t index_of(const Model& model) {
  return static_cast<std::size_t>(&model - kModels.data());
}

// What a place is worth at `at`, as lists show it.
inline double score_at(const Model& model, double stored_score, UnixSeconds at, const Settings& settings) {
  return model.base != nullptr ? score_at(stored_score, at, model.half_life(settings)) : stored_score;
}

// Whoever stands below leaves the rank.
inline double min_rank_score(const Model& model, UnixSeconds now, const Settings& settings) {
  return model.base != nullptr ? rank_key(settings.list.min_score, now, model.half_life(settings))
                               : -std::numeric_limits<double>::infinity();
}

}  // namespace freshet::hot
