#include "core/tuning/hot_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>

namespace freshet::tuning {
namespace {

constexpr std::size_t kListLength = 20;
constexpr double kHackerNewsBaseHours = 2, kHackerNewsGamma = 1.8;
constexpr double kMaxViews = 1e9;  // per row, so that sums are exact
constexpr std::int64_t kDaySeconds = 86400;
constexpr std::array kEngagementHalfLives{6 * 3600.0, 12 * 3600.0, 24 * 3600.0, 48 * 3600.0};
constexpr std::array kGammas{0.5, 1.0, 1.5, 2.0, 3.0};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kNotListed = -std::numeric_limits<double>::infinity();

std::string format_span(double span) {
  if (span >= 3600 && std::fmod(span, 3600) == 0) return fmt::format("{:.0f} h", span / 3600);
  if (span >= 60 && std::fmod(span, 60) == 0) return fmt::format("{:.0f} min", span / 60);
  return fmt::format("{:.0f} s", span);
}

struct Row {
  std::int64_t at = 0;
  std::uint32_t item = 0;
  double views = 0;
};

// The counts as rows in order of time. Ignores invalid rows.
std::vector<Row> rows_of(const ViewHistory& history, const std::vector<ViewCount>& counts) {
  std::vector<Row> rows;
  rows.reserve(counts.size());
  for (const ViewCount& each : counts) {
    const std::int64_t from = unix_s(each.from), length = each.length.count();
    if (each.item >= history.published.size() || each.views <= 0 || from < 0 || length < 0) continue;
    if (from > unix_s(history.until) || length > unix_s(history.until) - from) continue;
    rows.push_back({from + length / 2, each.item, std::min(static_cast<double>(each.views), kMaxViews)});
  }
  std::ranges::sort(rows, [](const Row& a, const Row& b) {
    return std::tie(a.at, a.item, a.views) < std::tie(b.at, b.item, b.views);
  });
  return rows;
}

// The views by item within a period that only moves forward.
class SlidingSums {
 public:
  SlidingSums(const std::vector<Row>& rows, std::size_t items) : rows_(rows), sums_(items) {}
  void move(std::int64_t from, std::int64_t to) {
    for (; end_ < rows_.size() && rows_[end_].at < to; ++end_) sums_[rows_[end_].item] += rows_[end_].views;
    for (; begin_ < end_ && rows_[begin_].at < from; ++begin_)
      sums_[rows_[begin_].item] -= rows_[begin_].views;
  }
  const std::vector<double>& sums() const { return sums_; }

 private:
  const std::vector<Row>& rows_;
  std::vector<double> sums_;
  std::size_t begin_ = 0, end_ = 0;
};

const std::array<double, kListLength>& discounts() {
  static const auto all = [] {
    std::array<double, kListLength> out{};
    for (std::size_t i = 0; i < kListLength; ++i) out[i] = 1 / std::log2(static_cast<double>(i) + 2);
    return out;
  }();
  return all;
}

// The place of an item in a list: by score, then the newer item first.
struct Place {
  double score = 0;
  std::int64_t published = 0;
  std::uint32_t item = 0;
  bool before(const Place& other) const {
    return score != other.score ? score > other.score : published > other.published;
  }
};

// The best 20 of a list, and all items that share the place of the last one. Items of equal place
// are in any order.
class TopList {
 public:
  void clear() {
    heap_.clear();
    ties_.clear();
  }
  void add(const Place& place) {
    const auto worst_first = [](const Place& a, const Place& b) { return a.before(b); };
    if (heap_.size() < kListLength) {
      heap_.push_back(place);
      std::ranges::push_heap(heap_, worst_first);
      return;
    }
    if (heap_.front().before(place)) return;
    if (!place.before(heap_.front())) {
      ties_.push_back(place);
      return;
    }
    std::ranges::pop_heap(heap_, worst_first);
    std::swap(heap_.back(), last_);
    heap_.back() = place;
    std::ranges::push_heap(heap_, worst_first);
    if (heap_.front().before(last_))
      ties_.clear();
    else
      ties_.push_back(last_);
  }
  // The discounted sum of gains. Items of equal place have their mean gain, so that their order
  // does not matter.
  double discounted_gain(const std::vector<double>& gains) {
    std::ranges::sort(heap_, [](const Place& a, const Place& b) { return a.before(b); });
    heap_.insert(heap_.end(), ties_.begin(), ties_.end());
    double out = 0;
    for (std::size_t from = 0; from < std::min(heap_.size(), kListLength);) {
      std::size_t to = from;
      double gain = 0, discount = 0;
      for (; to < heap_.size() && !heap_[from].before(heap_[to]); ++to) {
        gain += gains[heap_[to].item];
        if (to < kListLength) discount += discounts()[to];
      }
      out += discount * gain / static_cast<double>(to - from);
      from = to;
    }
    return out;
  }

 private:
  std::vector<Place> heap_, ties_;
  Place last_;
};

class Replay {
 public:
  Replay(const ViewHistory& history, HotScores& scores, const HotValues& values, const HotMoments& protocol,
         const std::vector<ViewCount>* next)
      : scores_(scores),
        base_hours_(values.base_hours),
        birth_views_(values.birth_views),
        protocol_(protocol),
        until_(unix_s(history.until)),
        rows_(rows_of(history, history.counts)) {
    if (next != nullptr) next_rows_ = rows_of(history, *next);
    sort_items(history);
    next_hour_.emplace(next != nullptr ? next_rows_ : rows_, published_.size());
    next_day_.emplace(next != nullptr ? next_rows_ : rows_, published_.size());
    views_.resize(published_.size());
    for (const HotCandidate& list : scores_.lists) {
      const bool adds_up = list.formula == HotFormula::kAccumulate || list.formula == HotFormula::kTrending;
      sums_.emplace_back(adds_up ? published_.size() : 0, kNotListed);
      const bool is_window = list.formula == HotFormula::kMostViewed;
      windows_.emplace_back(rows_, is_window ? published_.size() : 0);
    }
    scores_.next_hour.resize(scores_.lists.size());
    scores_.next_day.resize(scores_.lists.size());
  }

  // The first list at one moment.
  std::vector<ScoredItem> list_at(std::int64_t at) {
    if (rows_.empty()) return {};
    advance(at);
    prepare(at);
    if (scores_.lists[0].formula == HotFormula::kMostViewed) move_window(0, at);
    std::vector<ScoredItem> out;
    for (std::uint32_t item = 0; item < live_; ++item) {
      if (const double score = score_of(0, item); score != kNotListed)
        out.push_back({order_[item], served_score(score, at), UnixSeconds{seconds{published_[item]}}});
    }
    std::ranges::stable_sort(out, [](const ScoredItem& a, const ScoredItem& b) {
      return std::tie(a.score, a.published) > std::tie(b.score, b.published);
    });
    return out;
  }

  void run() {
    if (rows_.empty()) return;
    const std::int64_t step = protocol_.step.count();
    const std::int64_t begin =
        std::max(rows_.front().at + protocol_.warm_up.count(), until_ - protocol_.period.count());
    for (std::int64_t at = (begin + step - 1) / step * step; at + kHourSeconds <= until_; at += step) {
      advance(at);
      score(at);
    }
    // On a site with few readers, the hours that count are exceptions.
    if (!scores_.lists.empty() && 2 * count_of(scores_.next_hour[0]) < scores_.moments.size()) {
      for (auto& list : scores_.next_hour) std::ranges::fill(list, kNan);
    }
  }

 private:
  // Numbers the items by publication, so that those published by a moment are the first ones.
  void sort_items(const ViewHistory& history) {
    std::vector<std::int64_t> published(history.published.size(), std::numeric_limits<std::int64_t>::max());
    for (const Row& row : rows_) published[row.item] = std::min(published[row.item], row.at);
    for (std::size_t i = 0; i < published.size(); ++i) {
      if (history.published[i]) published[i] = unix_s(*history.published[i]);
    }
    std::vector<std::uint32_t> order(published.size()), number(published.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::sort(order, {}, [&](std::uint32_t i) { return std::pair(published[i], i); });
    for (std::uint32_t i = 0; i < order.size(); ++i) {
      number[order[i]] = i;
      published_.push_back(published[order[i]]);
    }
    order_ = std::move(order);
    for (Row& row : rows_) row.item = number[row.item];
    for (Row& row : next_rows_) row.item = number[row.item];
  }

  double hours_since_publication(std::uint32_t item, std::int64_t at) const {
    return std::max(0.0, static_cast<double>(at - published_[item]) / kHourSeconds);
  }

  // Adds the rows before `at`.
  void advance(std::int64_t at) {
    for (; next_row_ < rows_.size() && rows_[next_row_].at < at; ++next_row_) {
      const Row& row = rows_[next_row_];
      views_[row.item] += row.views;
      for (std::size_t i = 0; i < sums_.size(); ++i) {
        if (sums_[i].empty()) continue;
        double& sum = sums_[i][row.item];
        const double parameter = scores_.lists[i].parameter;
        if (scores_.lists[i].formula == HotFormula::kAccumulate) {
          const double hours = hours_since_publication(row.item, row.at);
          sum = (sum == kNotListed ? 0 : sum) + row.views * std::pow(hours + base_hours_, -parameter);
        } else {  // log2 of the sum
          const double now = half_lives_since_start(row.at, parameter);
          if (sum == kNotListed && birth_views_ > 0)
            sum = half_lives_since_start(std::min(published_[row.item], row.at), parameter) +
                  std::log2(birth_views_);
          sum = now + std::log2(std::exp2(sum - now) + row.views);
        }
      }
    }
    while (live_ < published_.size() && published_[live_] < at) ++live_;
  }

  void score(std::int64_t at) {
    next_hour_->move(at, at + kHourSeconds);
    next_day_->move(at, at + kDaySeconds);
    const double ideal_hour = ideal(*next_hour_, protocol_.min_next_hour, true);
    const double ideal_day = ideal(*next_day_, protocol_.min_next_day, at + kDaySeconds <= until_);
    if (ideal_hour == 0 && ideal_day == 0) return;
    scores_.moments.emplace_back(seconds{at});
    prepare(at);
    for (std::size_t i = 0; i < scores_.lists.size(); ++i) {
      rank(i, at);
      const auto ndcg = [&](const SlidingSums& gains, double ideal_gain) {
        if (ideal_gain == 0) return kNan;
        TopList copy = top_;
        return copy.discounted_gain(gains.sums()) / ideal_gain;
      };
      scores_.next_hour[i].push_back(ndcg(*next_hour_, ideal_hour));
      scores_.next_day[i].push_back(ndcg(*next_day_, ideal_day));
    }
  }

  // The gain of the best possible list; 0 if the moment does not count.
  double ideal(const SlidingSums& next, std::int64_t min_views, bool has_passed) {
    if (!has_passed) return 0;
    double total = 0;
    top_.clear();
    for (std::uint32_t item = 0; item < live_; ++item) {
      const double views = next.sums()[item];
      total += views;
      if (views > 0) top_.add({views, 0, item});
    }
    return total < static_cast<double>(std::max<std::int64_t>(1, min_views))
               ? 0
               : top_.discounted_gain(next.sums());
  }

  // Terms that several lists share.
  void prepare(std::int64_t at) {
    log_views_.resize(live_);
    hours_.resize(live_);
    log_hours_.resize(live_);
    for (std::uint32_t item = 0; item < live_; ++item) {
      log_views_[item] = views_[item] > 0 ? std::log2(views_[item]) : kNotListed;
      hours_[item] = hours_since_publication(item, at);
      log_hours_[item] = std::log2(hours_[item] + base_hours_);
    }
  }

  void rank(std::size_t list, std::int64_t at) {
    if (scores_.lists[list].formula == HotFormula::kMostViewed) move_window(list, at);
    top_.clear();
    for (std::uint32_t item = 0; item < live_; ++item) {
      if (const double score = score_of(list, item); score != kNotListed)
        top_.add({score, published_[item], item});
    }
  }
  void move_window(std::size_t list, std::int64_t at) {
    windows_[list].move(at - static_cast<std::int64_t>(scores_.lists[list].parameter), at);
  }

  // Orders the items of the list; kNotListed: it does not contain the item.
  double score_of(std::size_t list, std::uint32_t item) const {
    const auto [formula, parameter] = scores_.lists[list];
    switch (formula) {
      case HotFormula::kAccumulate:
      case HotFormula::kTrending:
        return sums_[list][item];
      case HotFormula::kCurrent:
        return log_views_[item] - parameter * log_hours_[item];
      case HotFormula::kEngagement:
        return log_views_[item] - hours_[item] * kHourSeconds / parameter;
      case HotFormula::kMostViewed:
        return windows_[list].sums()[item] > 0 ? windows_[list].sums()[item] : kNotListed;
      case HotFormula::kNewest:
        return 0;
      case HotFormula::kHackerNews:
        return log_views_[item] - kHackerNewsGamma * std::log2(hours_[item] + kHackerNewsBaseHours);
    }
    return kNotListed;
  }
  // The score that the list shows, from score_of().
  double served_score(double score, std::int64_t at) const {
    switch (scores_.lists[0].formula) {
      case HotFormula::kTrending:
        return std::exp2(score - half_lives_since_start(at, scores_.lists[0].parameter));
      case HotFormula::kCurrent:
      case HotFormula::kEngagement:
      case HotFormula::kHackerNews:
        return std::exp2(score);
      default:
        return score;
    }
  }
  double half_lives_since_start(std::int64_t at, double half_life) const {
    return static_cast<double>(at - rows_.front().at) / half_life;
  }

  HotScores& scores_;
  const double base_hours_, birth_views_;
  const HotMoments& protocol_;
  const std::int64_t until_;
  std::vector<Row> rows_, next_rows_;
  std::vector<std::int64_t> published_;  // ascending
  std::vector<std::uint32_t> order_;     // index into ViewHistory::published
  std::size_t live_ = 0;                 // items published by the moment
  std::size_t next_row_ = 0;
  std::vector<double> views_;              // by item, as all vectors below
  std::vector<std::vector<double>> sums_;  // of the lists that add up
  std::vector<SlidingSums> windows_;       // of the lists of most viewed items
  std::optional<SlidingSums> next_hour_, next_day_;
  std::vector<double> log_views_, hours_, log_hours_;
  TopList top_;
};

}  // namespace

std::size_t count_of(const std::vector<double>& by_moment) {
  return static_cast<std::size_t>(
      std::ranges::count_if(by_moment, [](double value) { return !std::isnan(value); }));
}

double mean_of(const std::vector<double>& by_moment) {
  double sum = 0;
  for (const double each : by_moment) sum += std::isnan(each) ? 0 : each;
  const std::size_t count = count_of(by_moment);
  return count == 0 ? kNan : sum / static_cast<double>(count);
}

std::string HotCandidate::name() const {
  switch (formula) {
    case HotFormula::kAccumulate:
      return fmt::format("views, accumulate, gamma {:g}", parameter);
    case HotFormula::kCurrent:
      return fmt::format("views, current, gamma {:g}", parameter);
    case HotFormula::kEngagement:
      return "engagement, half-life " + format_span(parameter);
    case HotFormula::kTrending:
      return "trending, half-life " + format_span(parameter);
    case HotFormula::kMostViewed:
      return "most viewed, last " + format_span(parameter);
    case HotFormula::kNewest:
      return "newest";
    case HotFormula::kHackerNews:
      return "Hacker News";
  }
  return {};
}

HotCandidate HotValues::served() const {
  if (default_model == "engagement")
    return {HotFormula::kEngagement, static_cast<double>(engagement_half_life.count())};
  if (default_model == "trending")
    return {HotFormula::kTrending, static_cast<double>(trending_half_life.count())};
  return {default_mode == "current" ? HotFormula::kCurrent : HotFormula::kAccumulate, gamma};
}

std::vector<HotCandidate> hot_candidates(const HotValues& values) {
  std::vector<HotCandidate> out{{HotFormula::kAccumulate, values.gamma}};
  // The present parameter, then the others: the simplest first.
  const auto add = [&](HotFormula formula, double present, const auto& grid) {
    out.push_back({formula, present});
    for (auto each = std::rbegin(grid); each != std::rend(grid); ++each) {
      if (*each != present) out.push_back({formula, *each});
    }
  };
  std::array<double, kTrendingHalfLives.size()> trending{};
  std::ranges::transform(kTrendingHalfLives, trending.begin(),
                         [](seconds each) { return static_cast<double>(each.count()); });
  add(HotFormula::kCurrent, values.gamma, kGammas);
  add(HotFormula::kEngagement, static_cast<double>(values.engagement_half_life.count()),
      kEngagementHalfLives);
  add(HotFormula::kTrending, static_cast<double>(values.trending_half_life.count()), trending);
  out.insert(out.end(), {{HotFormula::kMostViewed, 3600.0},
                         {HotFormula::kMostViewed, 86400.0},
                         {HotFormula::kNewest, 0},
                         {HotFormula::kHackerNews, 0}});
  return out;
}

std::vector<ScoredItem> list_at(const ViewHistory& history, const HotCandidate& list, const HotValues& values,
                                UnixSeconds at) {
  constexpr auto kAll = std::numeric_limits<std::size_t>::max();
  return std::move(lists_at(history, list, values, {at}, kAll).front());
}

std::vector<std::vector<ScoredItem>> lists_at(const ViewHistory& history, const HotCandidate& list,
                                              const HotValues& values,
                                              const std::vector<UnixSeconds>& moments, std::size_t limit) {
  HotScores scores;
  scores.lists = {list};
  const HotMoments protocol;  // not used here
  Replay replay(history, scores, values, protocol, nullptr);
  std::vector<std::vector<ScoredItem>> out;
  for (const UnixSeconds at : moments) {
    out.push_back(replay.list_at(unix_s(at)));
    if (out.back().size() > limit) out.back().resize(limit);
  }
  return out;
}

HotScores score_hot_lists(const ViewHistory& history, const HotValues& values, const HotMoments& moments,
                          const std::vector<ViewCount>* next) {
  HotScores scores;
  scores.lists = hot_candidates(values);
  Replay(history, scores, values, moments, next).run();
  return scores;
}

}  // namespace freshet::tuning
