#include "core/recommend/ranker.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>

#include "core/recommend/rerank.h"
#include "core/training/in_memory_model.h"

using namespace freshet;
using recommend::Catalogue;
using recommend::LiveItem;
using recommend::ProfileEvent;
using recommend::RankedCandidate;
using recommend::Ranker;
using recommend::RankingSettings;

namespace {

constexpr UnixSeconds kNow{seconds{1'700'000'000}};
constexpr seconds kHour{3600};

std::string name(std::uint32_t number) { return "i" + std::to_string(1000 + number); }

// A model with random relations of two types and two terms, one of them per item.
training::TrainedModel random_world(std::uint32_t items, unsigned seed) {
  std::mt19937 random(seed);
  training::TrainedModel out;
  out.trained_at = kNow - 2 * kHour;
  out.algorithm = "rp3beta";
  out.blend_weights.by_relation[0] = 0.75F;
  out.blend_weights.by_relation[1] = 0.5F;
  out.blend_weights.by_relation[2] = 0;
  for (auto& part : out.relations) part.starts.push_back(0);
  out.vocabulary = {10, 20};
  out.idf = {1, 1};
  for (std::uint32_t item = 0; item < items; ++item) {
    out.items.push_back({name(item), "t", {}, "a", {}, kNow - seconds(random() % 3'000'000), false});
    out.counts.push_back(static_cast<float>(random() % 100));
    out.decayed_counts.push_back(static_cast<float>(random() % 10));
    out.terms.push_back({{item % 2, 1.F}});
    for (auto& part : out.relations) {
      for (std::uint32_t other = 0; other < items; ++other) {
        if (other != item && random() % 3 == 0)
          part.neighbours.push_back({other, static_cast<float>(random() % 1000) / 1000});
      }
      std::stable_sort(part.neighbours.begin() + static_cast<std::ptrdiff_t>(part.starts.back()),
                       part.neighbours.end(), [](auto& a, auto& b) { return a.weight > b.weight; });
      part.starts.push_back(part.neighbours.size());
    }
  }
  return out;
}

LiveItem live(const std::string& id, double points, UnixSeconds published,
              std::vector<model::TermWeight> terms = {}) {
  return {id, "title", "author", {}, published, points, std::move(terms)};
}

RankingSettings formula_settings() {
  RankingSettings settings;
  settings.discover_every = 0;
  return settings;
}

std::vector<ProfileEvent> three_events() {
  return {{0, readers::Interaction::kLike, kNow - kHour},
          {1, readers::Interaction::kView, kNow - 2 * kHour},
          {2, readers::Interaction::kView, kNow - 3 * kHour}};
}

std::vector<std::string> ids(const Catalogue& catalogue, const std::vector<RankedCandidate>& ranked) {
  std::vector<std::string> out;
  for (const RankedCandidate& each : ranked) out.emplace_back(catalogue.id(each.item));
  return out;
}

// Parameters of a re-ranker that uses a single feature.
std::vector<float> single_feature_reranker(recommend::Feature feature, float weight) {
  recommend::Reranker reranker;
  reranker.scale.fill(0.1F);
  reranker.linear[static_cast<std::size_t>(feature)] = weight;
  return reranker.to_floats();
}

}  // namespace

TEST_CASE("scores match the formula, computed independently from the relations", "[ranking]") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const training::TrainedModel world = random_world(40, seed);
    const Catalogue catalogue(training::to_model(world), {});
    std::mt19937 random(seed);
    std::vector<ProfileEvent> profile;
    std::map<std::uint32_t, double> weights;
    for (int i = 0; i < 12; ++i) {
      const auto kind = static_cast<readers::Interaction>(random() % readers::kInteractions.size());
      const UnixSeconds at = kNow - seconds(random() % 9'000'000);
      profile.push_back({static_cast<std::uint32_t>(random() % 40), kind, at});
      constexpr double kWorth[] = {1, 2, 3, 3, 4, 5};  // view, like, share, favorite, reply, post
      const double days = static_cast<double>((kNow - at).count()) / 86400;
      double& weight = weights[profile.back().item];
      weight = std::max(weight, kWorth[static_cast<std::size_t>(kind)] * std::pow(0.5, days / 30));
    }
    std::vector<double> affinity(40, 0);
    for (const auto& [item, weight] : weights) {
      for (const std::size_t p : {0U, 1U}) {
        const auto& rows = world.relations[p];
        for (auto at = rows.starts[item]; at < rows.starts[item + 1]; ++at)
          affinity[rows.neighbours[at].item] += (p == 0 ? 0.75 : 0.5) * weight * rows.neighbours[at].weight;
      }
    }
    double greatest = 0;
    for (std::uint32_t item = 0; item < 40; ++item) {
      if (!weights.contains(item)) greatest = std::max(greatest, affinity[item]);
    }
    Ranker ranker(formula_settings());
    const auto& ranked = ranker.rank(catalogue, profile, kNow, true);
    REQUIRE(ranked.size() == 40);
    for (std::size_t i = 0; i < ranked.size(); ++i) {
      const std::uint32_t item = ranked[i].item;
      const double hours = static_cast<double>((kNow - world.items[item].published).count()) / 3600;
      const double trend = (1 + static_cast<double>(world.counts[item])) / std::pow(hours + 2, 1.5);
      const double expected = trend * (1 + 2 * affinity[item] / greatest);
      CHECK(ranked[i].score == Approx(expected).epsilon(1e-4));
      CHECK(ranked[i].trend == Approx(trend).epsilon(1e-9));
      CHECK(ranked[i].in_profile == weights.contains(item));
      CHECK(ranked[i].cf + ranked[i].content == Approx(ranked[i].affinity).margin(1e-9));
      if (i > 0) CHECK(ranked[i - 1].score >= ranked[i].score);
    }
  }
}

TEST_CASE("equal scores are ordered by newness, then by id", "[ranking]") {
  // Both are clamped to now, so they have the same age.
  const Catalogue catalogue(nullptr, {live("b", 0, kNow + kHour), live("a", 0, kNow + 2 * kHour),
                                      live("old", 0, kNow - kHour), live("c", 0, kNow)});
  Ranker ranker(formula_settings());
  CHECK(ids(catalogue, ranker.rank(catalogue, {}, kNow)) == std::vector<std::string>{"a", "b", "c", "old"});
}

TEST_CASE("candidates with equal re-ranker scores are ordered by newness", "[ranking]") {
  training::TrainedModel world = random_world(10, 1);
  world.reranker = single_feature_reranker(recommend::Feature::kAge, 0);
  const Catalogue catalogue(training::to_model(world), {});
  Ranker ranker(formula_settings());
  const auto profile = three_events();
  const auto& ranked = ranker.rank(catalogue, profile, kNow, true);
  CHECK(std::is_sorted(ranked.begin(), ranked.end(), [](const RankedCandidate& a, const RankedCandidate& b) {
    return a.age_hours < b.age_hours;
  }));
}

TEST_CASE("a reader without history gets the trend, even with a re-ranker", "[ranking]") {
  training::TrainedModel world = random_world(10, 1);
  world.reranker = single_feature_reranker(recommend::Feature::kAge, 5);  // would prefer the oldest item
  const Catalogue catalogue(
      training::to_model(world),
      {live("x", 50, kNow - kHour), live("y", 5, kNow - kHour), live(name(3), 500, kNow - kHour)});
  Ranker ranker({});
  const auto& ranked = ranker.rank(catalogue, {}, kNow);
  CHECK(ids(catalogue, ranked) == std::vector<std::string>{name(3), "x", "y"});
  for (const RankedCandidate& each : ranked) CHECK(each.score == each.trend);
}

TEST_CASE("the model's re-ranker orders candidates for a reader with history", "[ranking]") {
  training::TrainedModel world = random_world(10, 1);
  world.reranker = single_feature_reranker(recommend::Feature::kAge, 1);
  const std::vector<ProfileEvent> profile = three_events();
  RankingSettings settings = formula_settings();
  for (const bool rerank : {true, false}) {
    settings.rerank = rerank;
    const Catalogue catalogue(training::to_model(world), {});
    Ranker ranker(settings);
    const auto& ranked = ranker.rank(catalogue, profile, kNow, true);
    CHECK(
        std::is_sorted(ranked.begin(), ranked.end(), [](const RankedCandidate& a, const RankedCandidate& b) {
          return a.age_hours > b.age_hours;
        }) == rerank);
    if (rerank) CHECK(ranked.front().score == 1);
  }
}

TEST_CASE("re-ranker parameters of another version are ignored", "[ranking]") {
  training::TrainedModel world = random_world(10, 1);
  const std::vector<ProfileEvent> profile = three_events();
  const Catalogue plain(training::to_model(world), {});
  Ranker ranker(formula_settings());
  const auto expected = ids(plain, ranker.rank(plain, profile, kNow, true));
  world.reranker = single_feature_reranker(recommend::Feature::kAge, 1);
  world.reranker.front() += 1;
  const Catalogue other(training::to_model(world), {});
  CHECK(ids(other, ranker.rank(other, profile, kNow, true)) == expected);
}

TEST_CASE("the model's ranking chooses the trend and the weight of affinity; settings win", "[ranking]") {
  training::TrainedModel world = random_world(20, 3);
  world.ranking = {model::RankingMethod::kTrend, seconds{900}, 2, false};
  world.reranker = single_feature_reranker(recommend::Feature::kAge, 5);
  std::vector<LiveItem> items;
  for (int i = 0; i < 8; ++i) {  // the more points, the longer ago the last views
    items.push_back(live("n" + std::to_string(i), i * 10, kNow - kHour));
    items.back().trend = hot::trend_of_view(kNow - i * kHour);
  }
  const Catalogue catalogue(training::to_model(world), items);
  const auto rank = [&](const RankingSettings& settings) {
    return Ranker(settings).rank(catalogue, three_events(), kNow);
  };
  const auto by_trend = rank({});
  CHECK(ids(catalogue, by_trend)[0] == "n0");
  for (const RankedCandidate& each : by_trend) {
    CHECK(each.score == each.trend);  // neither affinity nor the re-ranker
    CHECK(each.trend == static_cast<double>(each.decayed_views[1]));
    CHECK_FALSE(each.discovery);
  }
  for (std::size_t i = 0; i < by_trend.size(); ++i) {
    if (catalogue.id(by_trend[i].item) == "n2")
      CHECK(by_trend[i].decayed_views[2] == Approx(0.25));  // two hours ago, halved every hour
  }
  RankingSettings settings;
  settings.trend_half_life = seconds{0};
  CHECK(ids(catalogue, rank(settings))[0] == "n7");
  settings = {};
  settings.cf_weight = 3;
  for (const RankedCandidate& each : rank(settings))
    CHECK(each.score == Approx(each.trend * (1 + 3 * each.affinity)));
  settings.rerank = true;
  CHECK(rank(settings).front().score == 1);  // odds
  settings = {};
  settings.discover_every = 2;
  const auto with_discoveries = rank(settings);
  CHECK(std::ranges::any_of(with_discoveries, &RankedCandidate::discovery));
}

TEST_CASE("a ranking that was not tested keeps the re-ranker and discoveries", "[ranking]") {
  training::TrainedModel world = random_world(5, 1);
  const auto formula = [&] { return recommend::RankingFormula::of({}, training::to_model(world).get()); };
  CHECK(formula().rerank);
  CHECK(formula().cf_weight == 2);
  CHECK(formula().discover_every == 6);
  CHECK_FALSE(formula().half_life);
  world.ranking = {model::RankingMethod::kAffinity, seconds{3600}, 0.5F, true};
  CHECK_FALSE(formula().rerank);
  CHECK(formula().cf_weight == 0.5);
  CHECK(formula().discover_every == 6);
  CHECK(formula().half_life == 2);
  world.ranking.trend_half_life = seconds{7};  // not among the sums
  CHECK_FALSE(formula().half_life);
  CHECK(formula().name(nullptr, true) == "views by age");
}

TEST_CASE("decayed views are finite; those of items that are not live are estimated", "[ranking]") {
  training::TrainedModel world = random_world(3, 1);
  world.decayed_counts = {8, 8, 8};
  hot::TrendSums ahead = hot::trend_of_view(kNow + seconds{864'000'000});
  hot::TrendSums broken = hot::no_trend();
  broken[1] = std::numeric_limits<double>::quiet_NaN();
  std::vector<LiveItem> items{live("unseen", 0, kNow - 6 * kHour), live("ahead", 1, kNow),
                              live("broken", 1, kNow)};
  items[1].trend = ahead;
  items[2].trend = broken;
  const Catalogue catalogue(training::to_model(world), items);
  const auto views = [&](std::string_view id) {
    return catalogue.decayed_views(*catalogue.find(id), kNow, 0.5);
  };
  CHECK(views("unseen")[3] == Approx(0.5));  // one view at its publication, six hours ago
  CHECK(views("unseen")[4] == Approx(std::exp2(-0.25)));
  CHECK(views(name(0))[4] == Approx(4));
  CHECK(views(name(0))[3] == Approx(1));
  for (const char* id : {"ahead", "broken"})
    for (const float each : views(id)) CHECK((std::isfinite(each) && each >= 0));
}

TEST_CASE("an item newer than the model gets its affinity from its content", "[ranking]") {
  const training::TrainedModel world = random_world(10, 1);
  // The reader liked item 0, which has the first term.
  const std::vector<ProfileEvent> profile{{0, readers::Interaction::kLike, kNow}};
  const Catalogue catalogue(training::to_model(world), {live("like", 3, kNow - kHour, {{0, 0.5F}}),
                                                        live("unlike", 3, kNow - kHour, {{1, 0.5F}})});
  Ranker ranker(formula_settings());
  std::map<std::string, RankedCandidate> by_id;
  for (const RankedCandidate& each : ranker.rank(catalogue, profile, kNow))
    by_id[std::string(catalogue.id(each.item))] = each;
  CHECK(by_id.at("like").content > 0);
  CHECK(by_id.at("unlike").content == 0);
  CHECK(by_id.at("like").score > by_id.at("unlike").score);
}

TEST_CASE("discovery positions go to items with high affinity", "[ranking]") {
  training::TrainedModel world = random_world(200, 3);
  const Catalogue catalogue(training::to_model(world), {});
  const std::vector<ProfileEvent> profile{{7, readers::Interaction::kLike, kNow - kHour}};
  RankingSettings settings;
  settings.discovery_min_events = 1;
  Ranker plain(formula_settings()), ranker(settings);
  const auto usual = ids(catalogue, plain.rank(catalogue, profile, kNow, true));
  const auto ranked = ranker.rank(catalogue, profile, kNow, true);
  std::vector<std::string> others;
  std::size_t open = 0;
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    if (!ranked[i].in_profile) ++open;
    if (ranked[i].discovery) {
      CHECK(open % recommend::RankingFormula{}.discover_every == 0);
      CHECK(ranked[i].affinity > 0.3);  // a third of the relations are 0, the others uniform up to 1
    }
    if (i > 0) CHECK(ranked[i - 1].score >= ranked[i].score);
  }
  CHECK(std::count_if(ranked.begin(), ranked.begin() + 24, [](auto& each) { return each.discovery; }) >= 3);
  // Nothing but the discoveries moved.
  std::set<std::string> raised;
  for (const RankedCandidate& each : ranked) {
    if (each.discovery) raised.emplace(catalogue.id(each.item));
  }
  const auto without = [&](std::vector<std::string> all) {
    std::erase_if(all, [&](const std::string& id) { return raised.contains(id); });
    return all;
  };
  CHECK(without(ids(catalogue, ranked)) == without(usual));
  // The choice differs on another day.
  std::set<std::string> tomorrow;
  for (const RankedCandidate& each : ranker.rank(catalogue, profile, kNow + seconds{86400}, true)) {
    if (each.discovery) tomorrow.emplace(catalogue.id(each.item));
  }
  CHECK(tomorrow != raised);
  // Too small a profile gets no discoveries.
  settings.discovery_min_events = 2;
  Ranker reluctant(settings);
  CHECK(ids(catalogue, reluctant.rank(catalogue, profile, kNow, true)) == usual);
}

TEST_CASE("a reader's first interaction brings related items onto the first page", "[ranking]") {
  const training::TrainedModel world = random_world(200, 5);
  std::vector<LiveItem> news;  // unrelated, but new
  for (int i = 0; i < 620; ++i) news.push_back(live("new" + std::to_string(i), 50, kNow - seconds{60} * i));
  for (const bool learned : {false, true}) {
    training::TrainedModel judged = world;
    if (learned) judged.reranker = single_feature_reranker(recommend::Feature::kTrend, 9);
    const Catalogue catalogue(training::to_model(judged), news);
    Ranker ranker(RankingSettings{});
    const auto events = three_events();
    for (std::size_t known = 0; known <= events.size(); ++known) {
      const auto ranked = ranker.rank(catalogue, std::span(events).first(known), kNow);
      const auto personal =
          std::count_if(ranked.begin(), ranked.begin() + 20, [](auto& each) { return each.affinity > 0; });
      INFO("learned " << learned << ", events " << known);
      CHECK(personal == (known == 0 ? 0 : 3));
    }
  }
}

TEST_CASE("excluded items take no affinity candidate's or discovery's position", "[ranking]") {
  const training::TrainedModel world = random_world(200, 5);
  const Catalogue catalogue(training::to_model(world), {live(name(150), 1, kNow)});
  RankingSettings settings;
  settings.affinity_candidates = 20;
  settings.discover_every = 6;
  Ranker ranker(settings);
  std::vector<std::uint32_t> excluded;
  const auto profile = three_events();
  for (int round = 0; round < 5; ++round) {
    const auto ranked = ranker.rank(catalogue, profile, kNow, false, excluded);
    const auto personal = std::count_if(ranked.begin(), ranked.end(), [](const RankedCandidate& each) {
      return each.source == recommend::CandidateSource::kAffinity;
    });
    CHECK(personal >= 19);  // one is live
    for (const RankedCandidate& each : ranked) {
      const bool is_excluded = std::find(excluded.begin(), excluded.end(), each.item) != excluded.end();
      CHECK((!is_excluded || each.item == 150));
      CHECK_FALSE((is_excluded && each.discovery));
    }
    for (const RankedCandidate& each : ranked) excluded.push_back(each.item);
  }
  // The state is clean for the next reader.
  CHECK(ids(catalogue, ranker.rank(catalogue, profile, kNow)) ==
        ids(catalogue, Ranker(settings).rank(catalogue, profile, kNow)));
}

TEST_CASE("every candidate is listed once with finite numbers for any catalogue", "[ranking]") {
  const double hostile[] = {0, 1, 1e18, 1e308, INFINITY, -INFINITY, NAN, -5};
  const UnixSeconds times[] = {UnixSeconds{}, kNow, kNow + seconds{1'000'000'000},
                               UnixSeconds{seconds{kMaxUnixSeconds}}, kNow - kHour};
  for (unsigned seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t most) { return static_cast<std::uint32_t>(random() % most); };
    const std::uint32_t items = below(30);
    training::TrainedModel world = random_world(items, seed);
    if (below(2) == 0)
      world.reranker =
          single_feature_reranker(static_cast<recommend::Feature>(below(recommend::kFeatures)), 9);
    for (float& count : world.counts) count = static_cast<float>(hostile[below(std::size(hostile))]);
    std::vector<LiveItem> now_live;
    for (unsigned i = below(40); i > 0; --i)
      now_live.push_back(live(name(below(60)), hostile[below(std::size(hostile))],
                              times[below(std::size(times))], {{below(2), 1.F}}));
    const auto with_model = below(4) != 0 ? training::to_model(world) : nullptr;
    const Catalogue catalogue(with_model, now_live);
    std::vector<ProfileEvent> profile;
    for (unsigned i = below(300); i > 0 && catalogue.size() > 0; --i)
      profile.push_back(
          {below(catalogue.size()), readers::Interaction::kView, times[below(std::size(times))]});
    RankingSettings settings;
    settings.discover_every = below(4);
    Ranker ranker(settings);
    for (const bool all : {false, true}) {
      const auto& ranked = ranker.rank(catalogue, profile, kNow, all);
      std::set<std::uint32_t> seen;
      for (const RankedCandidate& each : ranked) {
        CHECK(seen.insert(each.item).second);
        CHECK(each.item < catalogue.size());
        CHECK(std::isfinite(each.score));
        CHECK(each.score >= 0);
        CHECK(std::isfinite(each.trend + each.affinity + each.points + each.age_hours));
      }
      if (all) CHECK(seen.size() == catalogue.size());
      for (const std::uint32_t item : catalogue.live_items()) CHECK(seen.contains(item));
    }
  }
}

TEST_CASE("an empty catalogue yields no candidates", "[ranking]") {
  const Catalogue catalogue(nullptr, {});
  Ranker ranker({});
  CHECK(ranker.rank(catalogue, {}, kNow, true).empty());
}
