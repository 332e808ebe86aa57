#include "core/tuning/hot_tuner.h"

#include <rapidcheck.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

using namespace freshet;
using namespace freshet::tuning;

namespace {

constexpr std::int64_t kStart = 1'700'006'400;  // a multiple of a day
constexpr std::int64_t kHour = 3600, kDay = 86400;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

UnixSeconds at(double hours) {
  return UnixSeconds(seconds(kStart + static_cast<std::int64_t>(hours * 3600)));
}

// Few items, so that lists are short and scores often equal.
ViewHistory random_history(unsigned seed, double hours, std::uint32_t items, int rows) {
  std::mt19937 random(seed);
  ViewHistory out;
  out.until = at(hours);
  for (std::uint32_t i = 0; i < items; ++i) {
    out.published.emplace_back();
    if (random() % 2 == 0) out.published.back() = at(static_cast<double>(random() % 1000) * hours / 1000);
  }
  for (int i = 0; i < rows; ++i) {
    const auto bucket = static_cast<std::int64_t>(random() % static_cast<unsigned>(hours * 12)) * 300;
    // Each item has its own seconds, so that no sums of two items are equal except for rounding.
    const auto item = static_cast<std::uint32_t>(random() % items);
    if (out.published[item] && unix_s(*out.published[item]) > kStart + bucket) continue;
    out.counts.push_back({item, UnixSeconds(seconds(kStart + bucket + item)),
                          seconds(seed % 2 == 0 ? 200 : 0), static_cast<std::int64_t>(1 + random() % 4)});
  }
  return out;
}

// --- An independent implementation: for every moment, list and item, all counts are read again.

double middle(const ViewCount& each) {
  return static_cast<double>(unix_s(each.from) + each.length.count() / 2);
}

double score_of(const ViewHistory& history, const HotCandidate& list, const HotValues& values,
                std::uint32_t item, double published, double now) {
  const double base = values.base_hours;
  double views = 0, accumulated = 0, decayed = 0, recent = 0;
  for (const ViewCount& each : history.counts) {
    const double time = middle(each);
    if (each.item != item || time >= now) continue;
    const auto count = static_cast<double>(each.views);
    views += count;
    if (list.formula == HotFormula::kAccumulate)
      accumulated += count / std::pow(std::max(0.0, time - published) / kHour + base, list.parameter);
    if (list.formula == HotFormula::kTrending) decayed += count * std::exp2((time - now) / list.parameter);
    if (time >= now - list.parameter) recent += count;
  }
  const double hours = (now - published) / kHour;
  switch (list.formula) {
    case HotFormula::kAccumulate:
      return accumulated;
    case HotFormula::kCurrent:
      return views / std::pow(hours + base, list.parameter);
    case HotFormula::kEngagement:
      return views * std::exp2(-hours * kHour / list.parameter);
    case HotFormula::kTrending:
      return views == 0 ? 0 : decayed + values.birth_views * std::exp2((published - now) / list.parameter);
    case HotFormula::kMostViewed:
      return recent;
    case HotFormula::kNewest:
      return 1;
    case HotFormula::kHackerNews:
      return views / std::pow(hours + 2, 1.8);
  }
  return 0;
}

// NDCG@20 of the list at `now`, or NaN if fewer than `least` reads follow. Equal scores of equal
// age get their mean gain.
double ndcg(const ViewHistory& history, const HotCandidate& list, const HotValues& values, double now,
            double length, double least) {
  struct Entry {
    double score, published, gain;
  };
  std::vector<Entry> entries;
  std::vector<double> gains;
  for (std::uint32_t item = 0; item < history.published.size(); ++item) {
    double published = std::numeric_limits<double>::infinity(), gain = 0;
    for (const ViewCount& each : history.counts) {
      if (each.item != item) continue;
      published = std::min(published, middle(each));
      if (middle(each) >= now && middle(each) < now + length) gain += static_cast<double>(each.views);
    }
    if (history.published[item]) published = static_cast<double>(unix_s(*history.published[item]));
    if (published >= now) continue;
    gains.push_back(gain);
    const double score = score_of(history, list, values, item, published, now);
    if (score > 0) entries.push_back({score, published, gain});
  }
  if (std::accumulate(gains.begin(), gains.end(), 0.0) < least) return std::nan("");
  std::ranges::sort(gains, std::greater());
  const auto close = [](double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b); };
  std::ranges::sort(entries, [&](const Entry& a, const Entry& b) {
    return close(a.score, b.score) ? a.published > b.published : a.score > b.score;
  });
  for (std::size_t i = 0; i < entries.size();) {
    std::size_t j = i;
    double sum = 0;
    for (; j < entries.size() && close(entries[i].score, entries[j].score) &&
           entries[i].published == entries[j].published;
         ++j)
      sum += entries[j].gain;
    for (std::size_t k = i; k < j; ++k) entries[k].gain = sum / static_cast<double>(j - i);
    i = j;
  }
  double found = 0, ideal = 0;
  for (std::size_t i = 0; i < 20; ++i) {
    const double discount = 1 / std::log2(static_cast<double>(i) + 2);
    if (i < entries.size()) found += entries[i].gain * discount;
    if (i < gains.size()) ideal += gains[i] * discount;
  }
  return found / ideal;
}

void check_same(double found, double expected) {
  if (std::isnan(expected))
    CHECK(std::isnan(found));
  else
    CHECK(found == Approx(expected).margin(1e-9));
}

// --- Sites

// Every four hours, readers turn to other stories, new or old: what is read now is read next, and
// age says nothing. The first day has far more views than the others.
ViewHistory news_site(double days, std::int64_t views_per_hour) {
  ViewHistory out;
  out.until = at(24 * days);
  const int hours = static_cast<int>(24 * days);
  out.published.resize(300);
  std::mt19937 random(7);
  std::vector<std::uint32_t> stories(out.published.size());
  std::iota(stories.begin(), stories.end(), 0U);
  for (int hour = 0; hour < hours; ++hour) {
    if (hour % 4 == 1) std::ranges::shuffle(stories, random);
    for (int story = 0; story < 30; ++story) {
      const std::int64_t views = views_per_hour / (2 + story);
      out.counts.push_back(
          {stories[static_cast<std::size_t>(story)], at(hour), seconds(300), hour < 24 ? 20 * views : views});
    }
  }
  return out;
}

HotScores made_up_scores(int moments, double step_hours, double difference, double noise) {
  HotScores out;
  out.lists = {{HotFormula::kAccumulate, 1.5}, {HotFormula::kTrending, 900}};
  out.next_hour.resize(2);
  out.next_day.resize(2);
  for (int i = 0; i < moments; ++i) {
    out.moments.push_back(at(i * step_hours));
    const double wave = noise * (i % 2 == 0 ? 1 : -1);
    for (auto* horizon : {&out.next_hour, &out.next_day}) {
      (*horizon)[0].push_back(.5);
      (*horizon)[1].push_back(.5 + difference + wave);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a list of the past has the scores of its formula", "[tuner]") {
  for (const unsigned seed : {1U, 2U}) {
    const ViewHistory history = random_history(seed, 60, 40, 900);
    for (const HotCandidate& list : hot_candidates({})) {
      INFO(list.name());
      const UnixSeconds moment = at(31.5);
      const auto now = static_cast<double>(unix_s(moment));
      std::map<std::uint32_t, double> expected;
      for (std::uint32_t item = 0; item < history.published.size(); ++item) {
        double published = std::numeric_limits<double>::infinity();
        for (const ViewCount& each : history.counts) {
          if (each.item == item) published = std::min(published, middle(each));
        }
        if (history.published[item]) published = static_cast<double>(unix_s(*history.published[item]));
        if (published >= now) continue;
        const double score = score_of(history, list, {}, item, published, now);
        if (score > 0) expected[item] = list.formula == HotFormula::kNewest ? 0 : score;
      }
      const auto found = list_at(history, list, {}, moment);
      CHECK(found.size() == expected.size());
      double before = std::numeric_limits<double>::infinity();
      for (const ScoredItem& each : found) {
        REQUIRE(expected.contains(each.item));
        CHECK(each.score == Approx(expected[each.item]).epsilon(1e-9));
        CHECK(each.score <= before);
        before = each.score;
      }
    }
  }
  CHECK(list_at({}, {}, {}, at(1)).empty());
}

TEST_CASE("the scores are those of an implementation that reads all counts for each list", "[tuner]") {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    const ViewHistory history = random_history(seed, 40, seed < 4 ? 12 : 60, seed < 4 ? 150 : 600);
    HotValues values;
    values.base_hours = seed % 2 == 0 ? 1.93721 : 0.61803;  // so that few scores are equal
    const HotMoments moments{.warm_up = seconds(3 * kHour), .min_next_hour = 5, .min_next_day = 60};
    values.birth_views = seed % 3 == 0 ? 0 : 1.25;
    const HotScores scores = score_hot_lists(history, values, moments);
    REQUIRE(scores.moments.size() > 10);
    std::size_t at_moment = 0, hours = 0, days = 0;
    for (std::int64_t time = kStart; time < kStart + 40 * kHour; time += 2 * kHour) {
      if (at_moment == scores.moments.size() || unix_s(scores.moments[at_moment]) != time) continue;
      for (std::size_t list = 0; list < scores.lists.size(); ++list) {
        INFO(seed << " " << scores.lists[list].name() << " at " << time - kStart);
        const auto now = static_cast<double>(time);
        check_same(scores.next_hour[list][at_moment],
                   ndcg(history, scores.lists[list], values, now, kHour, 5));
        const double day = time + kDay <= kStart + 40 * kHour
                               ? ndcg(history, scores.lists[list], values, now, kDay, 60)
                               : std::nan("");
        check_same(scores.next_day[list][at_moment], day);
        hours += !std::isnan(scores.next_hour[list][at_moment]);
        days += !std::isnan(day);
      }
      ++at_moment;
    }
    CHECK(at_moment == scores.moments.size());
    CHECK(hours > 0);
    CHECK(days > 0);
  }
}

TEST_CASE("items of equal score and age share their gains, also beyond the end of the list", "[tuner]") {
  // 40 items of equal rank, one of which is read next: it is in each of 40 places equally often.
  ViewHistory history{{}, std::vector<std::optional<UnixSeconds>>(41, at(1)), at(40)};
  for (std::uint32_t item = 0; item < 40; ++item) history.counts.push_back({item, at(2), seconds(0), 1});
  history.counts.push_back({40, at(2), seconds(0), 5});  // the best one
  history.counts.push_back({7, at(14.5), seconds(0), 60});
  const HotScores scores = score_hot_lists(history, {});
  REQUIRE(scores.moments == std::vector<UnixSeconds>{at(14)});
  double expected = 0;
  for (int place = 1; place < 20; ++place) expected += 1 / std::log2(place + 2.0) / 40;
  for (std::size_t list = 0; list < scores.lists.size(); ++list) {
    INFO(scores.lists[list].name());
    const HotFormula formula = scores.lists[list].formula;
    if (formula == HotFormula::kNewest || scores.lists[list] == HotCandidate{HotFormula::kMostViewed, 3600})
      continue;
    CHECK(scores.next_hour[list][0] == Approx(expected));
  }
}

TEST_CASE("on a site with few readers, single busy hours do not count", "[tuner]") {
  ViewHistory history{{}, std::vector<std::optional<UnixSeconds>>(3), at(24 * 6)};
  for (int hour = 0; hour < 24 * 6; ++hour)
    history.counts.push_back(
        {static_cast<std::uint32_t>(hour % 3), at(hour), seconds(300), hour % 8 == 0 ? 60 : 5});
  HotScores scores = score_hot_lists(history, {});
  CHECK(std::isnan(mean_of(scores.next_hour[0])));
  CHECK_FALSE(std::isnan(mean_of(scores.next_day[0])));
  for (ViewCount& each : history.counts) each.views = 60;
  scores = score_hot_lists(history, {});
  CHECK_FALSE(std::isnan(mean_of(scores.next_hour[0])));
}

TEST_CASE("the order of items and counts does not matter", "[tuner]") {
  REQUIRE(rc::check("permuted items and counts give the same scores and the same choice", [] {
    const auto seed = *rc::gen::inRange(0U, 1'000'000U);
    const ViewHistory history = random_history(seed, 72, 40, 800);
    std::vector<std::uint32_t> number(history.published.size());
    std::iota(number.begin(), number.end(), 0U);
    std::mt19937 random(seed + 1);
    std::ranges::shuffle(number, random);
    ViewHistory other{history.counts, history.published, history.until};
    for (std::size_t i = 0; i < number.size(); ++i) other.published[number[i]] = history.published[i];
    for (ViewCount& each : other.counts) each.item = number[each.item];
    std::ranges::shuffle(other.counts, random);
    const HotMoments moments{.min_next_hour = 5, .min_next_day = 20};
    const HotDecision a = tune_hot_lists(history, {}, moments), b = tune_hot_lists(other, {}, moments);
    RC_ASSERT(a.scores.moments == b.scores.moments);
    RC_ASSERT(!a.scores.moments.empty());
    RC_ASSERT(a.values == b.values);
    for (std::size_t list = 0; list < a.scores.lists.size(); ++list) {
      for (std::size_t i = 0; i < a.scores.moments.size(); ++i) {
        const double x = a.scores.next_hour[list][i], y = b.scores.next_hour[list][i];
        RC_ASSERT(std::isnan(x) == std::isnan(y));
        RC_ASSERT(std::isnan(x) || std::abs(x - y) < 1e-12);
      }
    }
  }));
}

TEST_CASE("a site whose readers follow the news gets trending, and keeps it", "[tuner]") {
  const ViewHistory history = news_site(6, 3000);
  const HotDecision first = tune_hot_lists(history, {});
  CHECK(first.has_evidence);
  CHECK(first.values.default_model == "trending");
  CHECK(first.values.gamma == 1.5);
  REQUIRE(first.reasons.size() == 3);
  CHECK(first.reasons[0].starts_with("The list served by default: trending, half-life "));
  const HotDecision second = tune_hot_lists(history, first.values);
  CHECK(second.values == first.values);
  CHECK(second.reasons[0].find("keeps trending") != std::string::npos);
}

TEST_CASE("counts of new items by publication date choose another list", "[tuner]") {
  // Every item is read at the same rate for a day after its publication, in bursts: what was read
  // in the last minutes says nothing, the age does.
  ViewHistory history;
  history.until = at(24 * 14);
  std::mt19937 random(1);
  for (std::uint32_t item = 0; item < 14 * 24; ++item) {
    history.published.emplace_back(at(item));
    for (int i = 0; i < 12; ++i) {
      const double hour = item + static_cast<double>(random() % 2400) / 100;
      if (hour < 24 * 14) history.counts.push_back({item, at(hour), seconds(0), 1});
    }
  }
  const HotDecision decision = tune_hot_lists(history, {});
  CHECK(decision.has_evidence);
  const HotFormula served = decision.values.served().formula;
  CHECK((served == HotFormula::kCurrent || served == HotFormula::kEngagement));
}

TEST_CASE("with too little traffic nothing changes, and the reason says so", "[tuner]") {
  for (const ViewHistory& history : {ViewHistory{}, news_site(1, 3000), random_history(1, 300, 20, 50),
                                     ViewHistory{{}, {std::nullopt, at(1)}, at(500)}}) {
    HotValues current;
    current.default_model = "engagement";
    current.engagement_half_life = seconds(12345);
    const HotDecision decision = tune_hot_lists(history, current);
    CHECK_FALSE(decision.has_evidence);
    CHECK(decision.values == current);
    REQUIRE(decision.reasons.size() == 1);
    CHECK(decision.reasons[0].starts_with("Too little traffic yet"));
  }
}

TEST_CASE("invalid counts are ignored", "[tuner]") {
  const ViewHistory good = news_site(4, 3000);
  ViewHistory bad = good;
  const UnixSeconds far{seconds{std::numeric_limits<std::int64_t>::max() / 2}};
  bad.counts.push_back({0, far, seconds(300), 1000000});
  bad.counts.push_back({0, UnixSeconds(seconds(-5)), seconds(300), 1000000});
  bad.counts.push_back({0, at(5), seconds(-300), 1000000});
  bad.counts.push_back({0, at(5), seconds::max(), 1000000});
  bad.counts.push_back({0, at(5), seconds(300), 0});
  bad.counts.push_back({0, at(5), seconds(300), -7});
  bad.counts.push_back({1'000'000, at(5), seconds(300), 7});
  const HotDecision expected = tune_hot_lists(good, {}), found = tune_hot_lists(bad, {});
  CHECK(found.values == expected.values);
  REQUIRE(found.scores.moments == expected.scores.moments);
  for (std::size_t list = 0; list < found.scores.lists.size(); ++list)
    CHECK(mean_of(found.scores.next_hour[list]) == mean_of(expected.scores.next_hour[list]));
}

TEST_CASE("degenerate histories are scored without an error", "[tuner]") {
  ViewHistory one{{}, {std::nullopt}, at(24 * 6)};  // one article
  for (int hour = 0; hour < 24 * 6; ++hour) one.counts.push_back({0, at(hour), seconds(300), 1000});
  HotDecision decision = tune_hot_lists(one, {});
  CHECK(decision.has_evidence);
  CHECK(decision.values == HotValues());  // all lists are equally good
  CHECK(quality(decision.scores, 0).mean == Approx(1));

  ViewHistory burst{{}, {std::nullopt, std::nullopt}, at(24 * 14)};  // all in one bucket
  burst.counts = {{0, at(30), seconds(300), 1'000'000}, {1, at(30), seconds(300), 3}};
  CHECK_FALSE(tune_hot_lists(burst, {}).has_evidence);

  ViewHistory huge = news_site(6, 3000);  // views near the largest integer
  for (ViewCount& each : huge.counts) each.views = std::numeric_limits<std::int64_t>::max();
  decision = tune_hot_lists(huge, {});
  for (const auto& list : decision.scores.next_hour) {
    for (const double value : list) CHECK((std::isnan(value) || (value >= 0 && value <= 1.0000001)));
  }
}

TEST_CASE("a gain must be significant and large enough", "[tuner]") {
  CHECK(gain(made_up_scores(120, 2, .02, 0), 1, 0).is_clear_gain);
  CHECK_FALSE(gain(made_up_scores(120, 2, .009, 0), 1, 0).is_clear_gain);  // too small
  CHECK_FALSE(gain(made_up_scores(120, 2, -.02, 0), 1, 0).is_clear_gain);
  CHECK_FALSE(gain(made_up_scores(6, 6, .02, .1), 1, 0).is_clear_gain);  // too noisy
  CHECK_FALSE(gain(made_up_scores(3, 6, .02, 0), 1, 0).is_clear_gain);   // too few blocks
  CHECK(gain(made_up_scores(60, 2, .02, 0), 1, 0).blocks == 5);          // days
  CHECK(gain(made_up_scores(48, 2, .02, 0), 1, 0).blocks == 16);         // quarters of four days
  const Estimate known = gain(made_up_scores(16, 6, .02, .02), 1, 0);    // .04 and 0, eight times each
  CHECK(known.blocks == 16);
  CHECK(known.mean == Approx(.02));
  CHECK(known.high - known.mean == Approx(2.1314 * .02066 / 4).epsilon(.001));
}

TEST_CASE("moments need enough views after them, and hours before them", "[tuner]") {
  const ViewHistory history = news_site(4, 3000);
  const auto count = [&](const HotMoments& moments) {
    const HotScores scores = score_hot_lists(history, {}, moments);
    const auto passed = [](const auto& all) {
      return std::ranges::count_if(all, [](double value) { return !std::isnan(value); });
    };
    return std::pair(passed(scores.next_hour[0]), passed(scores.next_day[0]));
  };
  CHECK(count({}) == std::pair(41L, 30L));  // from 14 h, every 2 h, to 94 h and 72 h
  CHECK(count({.min_next_hour = kNever}).first == 0);
  CHECK(count({.min_next_day = kNever}).second == 0);
  CHECK(count({.warm_up = seconds(48 * kHour)}) == std::pair(23L, 12L));
  CHECK(count({.period = seconds(48 * kHour)}) == std::pair(24L, 13L));
}
