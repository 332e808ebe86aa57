#include "core/tuning/feed_tuner.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <optional>
#include <random>

#include "core/database/database.h"
#include "core/tuning/feed_history.h"
#include "core/tuning/scratch_folder.h"
#include "tests/support/unix_socket.h"

using namespace freshet;
using namespace freshet::tuning;

namespace {

constexpr seconds kDay{86400};
const UnixSeconds kStart{seconds{1'700'006'400}};  // midnight

UnixSeconds day(double days) {
  return kStart + seconds{static_cast<std::int64_t>(days * static_cast<double>(kDay.count()))};
}

// `cases` of each of the days; the gain of every other candidate over the first, with some noise.
FeedScores scores_with(int days, int cases, double gain, double noise = 0.01, unsigned seed = 7) {
  FeedScores out;
  out.candidates = feed_candidates({});
  out.ndcg.resize(out.candidates.size());
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, noise);
  for (int i = 0; i < days * cases; ++i) {
    out.days.push_back(day(i / cases));
    for (std::size_t each = 0; each < out.ndcg.size(); ++each)
      out.ndcg[each].push_back(0.4 + (each == 0 ? 0 : gain) + normal(random));
  }
  return out;
}

}  // namespace

TEST_CASE("the feed's candidates begin with the current one, and keep what the administrator set") {
  const FeedCandidate current{std::chrono::days(3), 0.01, 0.3};
  const auto all = feed_candidates(current);
  CHECK(all.front() == current);
  CHECK(all.size() == 1 + 3 * 3 * 4);
  CHECK(all[1] == FeedCandidate{std::chrono::days(30), 0.005, 0});
  const auto fixed = feed_candidates(current, {.decay_scale = true, .trend_weight = true});
  CHECK(fixed.size() == 1 + 3);
  for (const FeedCandidate& each : fixed) {
    CHECK(each.decay_scale == current.decay_scale);
    CHECK(each.trend_weight == current.trend_weight);
  }
  CHECK(feed_candidates(current, {true, true, true}) == std::vector{current});
  CHECK(current.name() == "scale 3 d, interests 0.01, trend 0.3");
}

TEST_CASE("another feed is chosen only if its gain is clear") {
  const FeedDecision clear = tune_feed(scores_with(10, 30, 0.05));
  CHECK(clear.has_evidence);
  CHECK(clear.values == clear.scores.candidates[1]);  // all others are equally good: the simplest
  CHECK(clear.reason.find("The feed: scale 30 d, interests 0.005, trend 0 (next day 0.4") == 0);
  CHECK(clear.reason.find(", 10 days.") != std::string::npos);
  const FeedDecision kept = tune_feed(scores_with(10, 30, 0.005));  // too small
  CHECK(kept.has_evidence);
  CHECK(kept.values == FeedCandidate());
  CHECK(kept.reason.find("no other is clearly better") != std::string::npos);
}

TEST_CASE("equally good feeds are not replaced by chance") {
  std::size_t changed = 0;
  for (unsigned seed = 1; seed <= 60; ++seed)
    changed += tune_feed(scores_with(13, 30, 0, 0.3, seed)).values == FeedCandidate() ? 0U : 1U;
  CHECK(changed <= 6);  // 3 are expected at 95 %
}

TEST_CASE("too few visits or days keep the feed") {
  for (const auto& [days, cases] : {std::pair(10, 19), {4, 60}, {0, 0}}) {
    const FeedDecision kept = tune_feed(scores_with(days, cases, 0.2));
    CHECK_FALSE(kept.has_evidence);
    CHECK(kept.values == FeedCandidate());
    CHECK(kept.reason.find("too few readers come back yet") != std::string::npos);
  }
}

TEST_CASE("a feed of the past has items published by midnight that the reader has not touched") {
  FeedHistory history;
  const auto add = [&](const std::string& id, double published) {
    history.items.push_back({ItemId::trusted(id), day(published)});
    return static_cast<std::uint32_t>(history.items.size() - 1);
  };
  const std::uint32_t read = add("read", 0.1), old_cat = add("old-cat", 0.2), dog = add("dog", 0.9);
  const std::uint32_t hot = add("hot", 1.0), next_cat = add("next-cat", 2.5);
  history.readers = {{{day(0.5), read}, {day(2.1), old_cat}, {day(2.6), next_cat}, {day(2.7), read}},
                     {{day(2.2), dog}},                   // no interests yet
                     {{day(1.5), dog}, {day(2.1), dog}},  // nothing new
                     {{day(0.5), read}, {day(2.3), hot}, {day(3.1), dog}}};
  for (const std::uint32_t reader : {0U, 1U, 2U, 3U}) history.visits.push_back({day(2), reader});
  std::vector<UnixSeconds> asked;
  const FeedSource source{.item = [&](std::uint32_t number) -> Result<std::optional<items::Item>> {
                            if (number == dog) return std::nullopt;  // it was removed
                            items::Item item;
                            item.id = history.items[number].id;
                            item.published_at = history.items[number].published;
                            item.title = number == hot ? "weather" : "a cat";
                            return item;
                          },
                          .hottest =
                              [&](UnixSeconds at) {
                                asked.push_back(at);
                                return std::vector{ItemId::trusted("old-cat")};
                              }};
  const ScratchFolder folder{std::filesystem::temp_directory_path()};
  const seconds scale = std::chrono::days(7);
  const auto scores = score_feed(history, source,
                                 {{scale, 1e-9, 0},   // newest: hot, old-cat, (read)
                                  {scale, 0.5, 0},    // interests: old-cat, hot
                                  {scale, 1e-9, 1}},  // the trend: old-cat, hot
                                 Settings(), folder.path());
  REQUIRE(scores);
  CHECK(scores->days == std::vector{day(2), day(2)});
  CHECK(asked == std::vector{day(2)});
  const double second = 1 / std::log2(3);
  CHECK_THAT(scores->ndcg[0], Catch::Matchers::Approx(std::vector<double>{second, 1}));
  CHECK_THAT(scores->ndcg[1], Catch::Matchers::Approx(std::vector<double>{1, second}));
  CHECK_THAT(scores->ndcg[2], Catch::Matchers::Approx(std::vector<double>{1, second}));
}

namespace {

struct FeedDatabase {
  test::TemporaryDirectory directory;
  std::string path = (directory.path() / "f.db").string();
  std::unique_ptr<database::Database> database;

  FeedDatabase() {
    auto opened = database::Database::open(path, database::Database::Mode::kWrite);
    REQUIRE(opened);
    database = *std::move(opened);
  }
  void put(const std::string& id, double published, bool hidden = false) const {
    items::Item item;
    item.id = ItemId::trusted(id);
    item.title = "title of " + id;
    item.text = "text";
    item.tags = {TagName::trusted("one"), TagName::trusted("two")};
    item.published_at = day(published);
    item.hidden = hidden;
    REQUIRE(database->put_item(item));
  }
  void interact(const std::string& reader, const std::string& item, double at,
                readers::Interaction kind = readers::Interaction::kView) const {
    REQUIRE(database->readers().put_interaction(
        {ReaderId::trusted(reader), ItemId::trusted(item), kind, day(at)}));
  }
};

}  // namespace

TEST_CASE("the history of feeds has readers who came back on complete days") {
  const FeedDatabase site;
  site.put("b", 2);
  site.put("a", 1);
  site.put("hidden", 1, true);
  site.put("future", 11);
  site.interact("r", "a", 3.5);
  site.interact("r", "unknown", 4.5);
  site.interact("r", "b", 5.5, readers::Interaction::kLike);
  site.interact("r", "b", 10.5);    // today
  site.interact("once", "a", 6.5);  // does not come back
  site.interact("early", "a", -20.0);
  site.interact("early", "b", -19.0);  // before the period
  auto reader = FeedHistoryReader::open(site.path);
  REQUIRE(reader);
  InteractionSettings weights;
  weights.view_weight = 0;
  const auto history = reader->read(day(10.7), weights);
  REQUIRE(history);
  REQUIRE(history->items.size() == 2);
  CHECK(history->items[0].id.view() == "a");
  CHECK(history->items[1].id.view() == "b");
  REQUIRE(history->visits.size() == 2);
  CHECK(history->visits[0].day == day(4));
  CHECK(history->visits[1].day == day(5));
  REQUIRE(history->readers.size() == 1);
  REQUIRE(history->readers[0].size() == 2);
  CHECK(history->readers[0][0].at == day(3.5));
  CHECK_FALSE(history->readers[0][0].is_interest);
  CHECK(history->readers[0][1].item == 1);
  CHECK(history->readers[0][1].is_interest);
  const auto item = reader->item(1);
  REQUIRE(item);
  REQUIRE(*item);
  CHECK((*item)->title == "title of b");
  CHECK((*item)->text == "text");
  CHECK((*item)->tags.size() == 2);
  CHECK((*item)->published_at == day(2));
}

TEST_CASE("the history of feeds is bounded") {
  const FeedDatabase site;
  REQUIRE(site.database->begin());
  for (int i = 0; i < 20; ++i) site.put("i" + std::to_string(i), i / 2.0);
  for (int i = 0; i < 50; ++i) {
    for (int at = 1; at < 9; ++at)
      site.interact("r" + std::to_string(i), "i" + std::to_string((i + at) % 20), at + 0.5);
  }
  REQUIRE(site.database->commit());
  auto reader = FeedHistoryReader::open(site.path);
  REQUIRE(reader);
  const auto history =
      reader->read(day(10), {}, {.days = 10, .visits_per_day = 10, .items = 8, .events_per_reader = 3});
  REQUIRE(history);
  CHECK(history->items.size() == 8);
  CHECK(history->items.front().published == day(6));  // a quarter are published by day 7
  CHECK(history->visits.size() == 2 * 10);
  CHECK(history->visits.front().day == day(7));
  for (const auto& events : history->readers) CHECK(events.size() <= 3);
}
