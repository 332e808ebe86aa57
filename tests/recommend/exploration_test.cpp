// Positions for new items: their rules, and a simulation of the feedback loop in which clicks
// depend on a hidden quality.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <set>
#include <string>

#include "core/recommend/ranker.h"

using namespace freshet;
using recommend::Catalogue;
using recommend::LiveItem;
using recommend::RankedCandidate;
using recommend::Ranker;
using recommend::RankingSettings;

namespace {

constexpr UnixSeconds kStart{seconds{1'700'006'400}};  // midnight
constexpr seconds kHour{3600};
constexpr std::size_t kPage = 20;

RankingSettings settings(double explore) {
  RankingSettings out;
  out.explore = explore;
  return out;
}

LiveItem live(const std::string& id, double clicks, double impressions, UnixSeconds published) {
  LiveItem out{id, "title", "author", {}, published, clicks, {}};
  out.exposure = {clicks, impressions};
  return out;
}

// A hundred items with many clicks, and `count` new ones without any.
std::vector<LiveItem> site(int count, double impressions, seconds age = kHour) {
  std::vector<LiveItem> out;
  for (int i = 0; i < 100; ++i)
    out.push_back(live("old" + std::to_string(i), 1000 + i, 5000, kStart - 24 * kHour));
  for (int i = 0; i < count; ++i)
    out.push_back(live("new" + std::to_string(i), 0, impressions, kStart - age));
  return out;
}

std::vector<std::string> page(const Catalogue& catalogue, const std::vector<RankedCandidate>& ranked,
                              std::size_t length = kPage) {
  std::vector<std::string> out;
  for (const RankedCandidate& each : ranked) {
    if (!each.in_profile && out.size() < length) out.emplace_back(catalogue.id(each.item));
  }
  return out;
}

// --- the simulation

struct SimulatedItem {
  std::string id;
  double quality = 0;  // probability of a click by a reader who looks at it
  UnixSeconds published;
  double clicks = 0, impressions = 0;
  bool is_new = false;
};

struct Outcome {
  double clicks = 0, impressions = 0, explored = 0;
  std::vector<SimulatedItem> items;
};

// 100 readers look at a page every hour for three days; lower positions get less attention. An item
// appears each hour, of which every `good_every`-th is four times as good as the hundred that have
// all the clicks at first; the others are bad.
Outcome simulate(double explore, int good_every) {
  constexpr int kHours = 72, kReaders = 100;
  std::mt19937_64 random(7);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  Outcome out;
  for (int i = 0; i < 100; ++i)
    out.items.push_back(
        {"old" + std::to_string(i), 0.1, kStart - 30 * kHour, 300 + static_cast<double>(i), 3000});
  std::vector<std::set<std::string>> clicked(kReaders);
  Ranker ranker(settings(explore));
  for (int hour = 0; hour < kHours; ++hour) {
    const UnixSeconds now = kStart + hour * kHour;
    const bool is_good = good_every > 0 && hour % good_every == 0;
    out.items.push_back({"new" + std::to_string(hour), is_good ? 0.4 : 0.02, now, 0, 0, true});
    std::vector<LiveItem> live_items;
    for (const SimulatedItem& each : out.items)
      live_items.push_back(live(each.id, each.clicks, each.impressions, each.published));
    const Catalogue catalogue(nullptr, std::move(live_items));  // indexes are those of out.items
    for (int reader = 0; reader < kReaders; ++reader) {
      std::vector<std::uint32_t> excluded;
      for (const std::string& id : clicked[static_cast<std::size_t>(reader)])
        excluded.push_back(catalogue.find(id).value());
      std::size_t position = 0;
      for (const RankedCandidate& each : ranker.rank(catalogue, {}, now, false, excluded, nullptr,
                                                     static_cast<std::uint64_t>(reader + 1))) {
        if (each.in_profile) continue;
        if (position == kPage) break;
        SimulatedItem& item = out.items[each.item];
        ++item.impressions;
        ++out.impressions;
        out.explored += each.exploration ? 1 : 0;
        const double attention = 1 / std::log2(static_cast<double>(++position) + 1);
        if (uniform() >= item.quality * attention) continue;
        ++item.clicks;
        ++out.clicks;
        clicked[static_cast<std::size_t>(reader)].insert(item.id);
      }
    }
  }
  return out;
}

// The share of good new items, at least half a day old, that got 20 clicks.
double share_found(const Outcome& outcome) {
  double good = 0, found = 0;
  for (const SimulatedItem& each : outcome.items) {
    if (!each.is_new || each.quality < 0.1 || each.published > kStart + 60 * kHour) continue;
    ++good;
    found += each.clicks >= 20 ? 1 : 0;
  }
  return found / good;
}

double impressions_per_bad_item(const Outcome& outcome) {
  double bad = 0, impressions = 0;
  for (const SimulatedItem& each : outcome.items) {
    if (!each.is_new || each.quality > 0.1) continue;
    ++bad;
    impressions += each.impressions;
  }
  return impressions / bad;
}

}  // namespace

TEST_CASE("the tenth position of each twenty shows a new item", "[exploration]") {
  const Catalogue catalogue(nullptr, site(10, 0));
  Ranker ranker(settings(0.05)), plain(settings(0));
  const auto without = page(catalogue, plain.rank(catalogue, {}, kStart), 110);
  const auto ranked = ranker.rank(catalogue, {}, kStart, false, {}, nullptr, 1);
  const auto with = page(catalogue, ranked, 110);
  CHECK(std::set(with.begin(), with.end()) == std::set(without.begin(), without.end()));
  CHECK(with.size() == 110);
  std::size_t next = 0;
  std::set<std::string> explored;
  for (std::size_t i = 0; i < 40; ++i) {
    INFO(i);
    CHECK(ranked[i].exploration == (i == 9 || i == 29));
    CHECK(with[i].starts_with("new") == ranked[i].exploration);
    if (ranked[i].exploration)
      explored.insert(with[i]);
    else
      CHECK(with[i] == without[next++]);
  }
  CHECK(explored.size() == 2);
  CHECK(ranked[9].score == ranked[10].score);
}

TEST_CASE("a reader's new items stay for the day, and readers get different ones", "[exploration]") {
  Ranker ranker(settings(0.05));
  const auto explored = [&](int items, UnixSeconds now, std::uint64_t reader) {
    const Catalogue catalogue(nullptr, site(items, 0));
    return page(catalogue, ranker.rank(catalogue, {}, now, false, {}, nullptr, reader))[9];
  };
  std::set<std::string> by_reader, by_day;
  for (std::uint64_t reader = 1; reader <= 50; ++reader) {
    const std::string morning = explored(20, kStart, reader);
    CHECK(explored(20, kStart + 23 * kHour, reader) == morning);
    if (morning != "new19") CHECK(explored(19, kStart, reader) == morning);  // another one disappears
    by_reader.insert(morning);
  }
  for (int day = 0; day < 5; ++day) by_day.insert(explored(20, kStart + 24 * day * kHour, 1));
  CHECK(by_reader.size() > 10);
  CHECK(by_day.size() > 1);
}

TEST_CASE("new items are explored only while they deserve it", "[exploration]") {
  Ranker ranker(settings(0.05));
  const auto explores = [&](std::vector<LiveItem> items, std::uint64_t reader = 1) {
    const Catalogue catalogue(nullptr, std::move(items));
    const auto& ranked = ranker.rank(catalogue, {}, kStart, false, {}, nullptr, reader);
    return std::ranges::any_of(ranked, &RankedCandidate::exploration);
  };
  CHECK(explores(site(3, 30)));
  CHECK_FALSE(explores(site(3, 31)));  // enough impressions without a click
  CHECK(explores(site(3, 30, 168 * kHour)));
  CHECK_FALSE(explores(site(3, 30, 169 * kHour)));      // not new
  CHECK_FALSE(explores(site(3, 0), 0));                 // no reader
  CHECK_FALSE(explores({live("only", 0, 0, kStart)}));  // on the page anyway
  std::vector<LiveItem> clicked = site(0, 0);
  clicked.push_back(live("new", 5, 280, kStart - kHour));
  CHECK(explores(clicked));  // five clicks justify more impressions
  clicked.back().exposure.impressions = 281;
  CHECK_FALSE(explores(clicked));
  clicked.back().exposure = {20, 299};
  CHECK(explores(clicked));
  clicked.back().exposure = {20, 300};  // known
  CHECK_FALSE(explores(clicked));
}

TEST_CASE("items of the profile and excluded ones are not explored", "[exploration]") {
  Ranker ranker(settings(0.05));
  const Catalogue catalogue(nullptr, site(2, 0));
  const std::uint32_t first = catalogue.find("new0").value(), second = catalogue.find("new1").value();
  for (std::uint64_t reader = 1; reader <= 10; ++reader) {
    const auto& ranked = ranker.rank(catalogue, {}, kStart, false, std::vector{first}, nullptr, reader);
    CHECK(page(catalogue, ranked)[9] == "new1");
  }
  const auto& ranked = ranker.rank(catalogue, {{{first, readers::Interaction::kView, kStart - kHour}}},
                                   kStart, false, std::vector{second}, nullptr, 1);
  CHECK(std::ranges::none_of(ranked, &RankedCandidate::exploration));
}

// Without exploration, good new items stay unseen.
TEST_CASE("exploration finds good new items at a bounded cost", "[exploration]") {
  const double share = RankingSettings::from(Settings{}).explore;
  const Outcome without = simulate(0, 6), with = simulate(share, 6);
  INFO("found " << share_found(without) << " and " << share_found(with) << "; clicks " << without.clicks
                << " and " << with.clicks << "; impressions of a bad item " << impressions_per_bad_item(with)
                << "; explored " << with.explored / with.impressions);
  CHECK(share_found(without) < 0.1);
  CHECK(share_found(with) > 0.9);
  CHECK(with.clicks > 1.05 * without.clicks);
  CHECK(with.explored <= 0.05 * with.impressions);
  CHECK(impressions_per_bad_item(with) < 200);

  const Outcome bad_without = simulate(0, 0), bad_with = simulate(share, 0);
  INFO("clicks without good items " << bad_without.clicks << " and " << bad_with.clicks);
  CHECK(bad_with.clicks > 0.93 * bad_without.clicks);
}
