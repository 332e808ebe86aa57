// Measures how well hot lists would have predicted what was read next on this site. Pure.
//
// At moments every two hours, the best 20 of each list are compared with the views of the next hour
// and of the next 24 hours: NDCG@20 with the number of views as gain, among the items published by
// then. A list knows the counts before the moment only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "core/config/settings.h"
#include "core/tuning/view_history.h"

namespace freshet::tuning {

enum class HotFormula : std::uint8_t {
  kAccumulate,  // every view divided by (its hours since publication + base)^parameter
  kCurrent,     // all views divided by (hours since publication + base)^parameter
  kEngagement,  // all views, halved every `parameter` s since publication
  kTrending,    // each view halved every `parameter` s since it was counted
  // Lists to compare with, which are never served.
  kMostViewed,  // in the last `parameter` s
  kNewest,
  kHackerNews,  // all views divided by (hours since publication + 2)^1.8
};

struct HotCandidate {
  HotFormula formula = HotFormula::kAccumulate;
  double parameter = 0;
  bool operator==(const HotCandidate&) const = default;
  std::string name() const;  // "trending, half-life 15 min"
};

// The values that the tuner chooses, by directive. Initially the defaults.
struct HotValues {
  std::string default_model = "auto";   // hot.default_model
  std::string default_mode = "auto";    // views.default_mode
  seconds trending_half_life{3600};     // trending.half_life
  seconds engagement_half_life{86400};  // hot.half_life
  double gamma = 1.5;                   // views.gamma
  double base_hours = 2.0;              // views.base_hours; not tuned
  double birth_views = 1.0;             // hot.birth_views; not tuned
  HotCandidate served() const;          // the list that they serve by default
  bool operator==(const HotValues&) const = default;
};

// The lists that `values` serve, those that could replace them, and those to compare with.
std::vector<HotCandidate> hot_candidates(const HotValues& values);

struct HotMoments {
  seconds step{7200};          // moments are multiples of this
  seconds warm_up{12 * 3600};  // after the first view
  seconds period{14 * 86400};  // before ViewHistory::until
  // A moment counts if its next hour or its next 24 hours have at least so many views. The next
  // hour is left out if it does not count at half of the moments.
  std::int64_t min_next_hour = 50, min_next_day = 50;
};

// By list and moment. NaN: the moment has too few views, or the time after it has not passed yet.
struct HotScores {
  std::vector<HotCandidate> lists;
  std::vector<UnixSeconds> moments;  // ascending; each counts for at least one of the two
  std::vector<std::vector<double>> next_hour, next_day;
};

// Scores hot_candidates(values). `next`: what is read after the moments, if it is not in
// history.counts. O(counts + lists · moments · items).
HotScores score_hot_lists(const ViewHistory& history, const HotValues& values, const HotMoments& moments = {},
                          const std::vector<ViewCount>* next = nullptr);

struct ScoredItem {
  std::uint32_t item = 0;  // index into ViewHistory::published
  double score = 0;        // of engagement: as if all its weights but that of a view were 0
  UnixSeconds published;
};
// All items of a list at a moment, best first; of equal ones the newest first. Knows the counts
// before `at` only. O(counts + items · log(items)).
std::vector<ScoredItem> list_at(const ViewHistory& history, const HotCandidate& list, const HotValues& values,
                                UnixSeconds at);
// The first `limit` items of the list at each of several moments, which ascend. O(counts + moments
// · items · log(items)).
std::vector<std::vector<ScoredItem>> lists_at(const ViewHistory& history, const HotCandidate& list,
                                              const HotValues& values,
                                              const std::vector<UnixSeconds>& moments, std::size_t limit);

// The moments that count.
std::size_t count_of(const std::vector<double>& by_moment);
// Mean over the moments that count; NaN if there are none.
double mean_of(const std::vector<double>& by_moment);

}  // namespace freshet::tuning
