#include "core/training/ranking/compare_rankings.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "core/training/in_memory_model.h"
#include "core/training/learn_rerank.h"
#include "core/training/train.h"

using namespace freshet;
using model::RankingMethod;
using training::LearnedRanking;
using training::TrainingData;

namespace {

constexpr UnixSeconds kStart{seconds{1'600'041'600}};  // midnight
constexpr seconds kHour{3600}, kDay{86400};
constexpr auto kView = readers::Interaction::kView;

LearnedRanking learn(const TrainingData& data, const recommend::RankingSettings& settings = {}) {
  return training::learn_ranking(
      data, settings,
      [](const TrainingData& past, std::vector<float> reranker) -> std::shared_ptr<const model::Model> {
        TrainSettings rp3beta;
        rp3beta.algorithm = "rp3beta";
        auto trained = training::train_with_parameters(past, rp3beta, {});
        if (!trained) return nullptr;
        trained->reranker = std::move(reranker);
        return training::to_model(std::move(*trained));
      });
}

TrainingData old_items(int items, int days) {
  TrainingData data;
  data.now = kStart + days * kDay;
  for (int i = 0; i < items; ++i)
    data.items.push_back({"i" + std::to_string(1000 + i), {}, {}, {}, {}, kStart - kDay, false});
  return data;
}

// Each hour another three of 100 old items are what everybody reads. 240 readers come once a day.
TrainingData hourly_hits(int days) {
  TrainingData data = old_items(100, days);
  std::mt19937 random(2);
  for (int hour = 0; hour < days * 24; ++hour) {
    const std::uint32_t first = static_cast<std::uint32_t>(random() % 97);
    for (std::uint32_t reader = 0; reader < 10; ++reader) {
      const UnixSeconds at = kStart + hour * kHour + seconds{random() % 3600};
      const std::uint32_t number = static_cast<std::uint32_t>(hour % 24) * 10 + reader;
      for (std::uint32_t i = 0; i < 3; ++i)
        if (random() % 3 != 0) data.events.push_back({number, first + i, kView, at + seconds{i}});
    }
  }
  return data;
}

// 200 readers of `tastes` tastes view three items of their own taste each day, at random.
TrainingData tastes(std::uint32_t tastes, int days) {
  TrainingData data = old_items(300, days);
  std::mt19937 random(3);
  for (int day = 0; day < days; ++day) {
    for (std::uint32_t reader = 0; reader < 200; ++reader) {
      const UnixSeconds at = kStart + day * kDay + seconds{random() % 80000};
      for (std::uint32_t i = 0; i < 3; ++i) {
        const auto item = static_cast<std::uint32_t>(random() % (300 / tastes)) * tastes + reader % tastes;
        data.events.push_back({reader, item, kView, at + seconds{i}});
      }
    }
  }
  return data;
}

}  // namespace

TEST_CASE("where everybody reads what is read now, the trend with a short half-life is chosen", "[ranking]") {
  const LearnedRanking learned = learn(hourly_hits(8));
  CHECK(learned.choice.ranking.method == RankingMethod::kTrend);
  CHECK(learned.choice.ranking.trend_half_life > seconds{0});
  CHECK(learned.choice.ranking.trend_half_life <= kHour);
  CHECK_FALSE(learned.choice.ranking.discoveries);
  CHECK(learned.reranker.empty());
  CHECK(learned.choice.cases >= training::RankingComparison::kMinCases);
  double views_by_age = 0, chosen = 0;
  for (const training::ComparedRanking& each : learned.choice.compared) {
    if (each.ranking.trend_half_life == seconds{0} && each.ranking.method == RankingMethod::kTrend)
      views_by_age = each.ndcg;
    if (each.is_chosen) chosen = each.ndcg;
  }
  CHECK(chosen > 2 * views_by_age);
}

TEST_CASE("where readers have tastes, a ranking that knows the reader is chosen", "[ranking]") {
  const LearnedRanking learned = learn(tastes(10, 14));
  CHECK(learned.choice.ranking.method != RankingMethod::kTrend);
  CHECK(learned.choice.ranking.method != RankingMethod::kUntested);
  CHECK(learned.reranker.empty() == (learned.choice.ranking.method != RankingMethod::kReranker));
}

TEST_CASE("without a clear gain the simplest ranking is chosen", "[ranking]") {
  CHECK(learn(tastes(1, 8)).choice.ranking.method == RankingMethod::kTrend);
}

TEST_CASE("too few readers are no evidence", "[ranking]") {
  TrainingData few = hourly_hits(8);
  std::erase_if(few.events, [](const training::TrainingEvent& each) { return each.reader % 10 != 0; });
  const LearnedRanking learned = learn(few);
  CHECK(learned.choice.cases < training::RankingComparison::kMinCases);
  CHECK(learned.choice.ranking == model::ChosenRanking{});
  CHECK(learned.choice.compared.empty());
  CHECK(learn({}).choice.ranking == model::ChosenRanking{});
  TrainingData one_reader = hourly_hits(8);
  for (auto& each : one_reader.events) each.reader = 0;
  CHECK(learn(one_reader).choice.ranking == model::ChosenRanking{});
  TrainingData one_item = hourly_hits(8);
  for (auto& each : one_item.events) each.item = 0;
  CHECK(learn(one_item).choice.ranking == model::ChosenRanking{});
}

TEST_CASE("clocks that jump give a choice all the same", "[ranking]") {
  TrainingData data = hourly_hits(8);
  for (std::size_t i = 0; i < data.events.size(); i += 50) data.events[i].at = UnixSeconds{seconds{i % 100}};
  data.view_counts.push_back({3, UnixSeconds{}, seconds{300}, std::int64_t{1} << 62});
  data.view_counts.push_back({4, data.now + 30 * kDay, seconds{300}, 5});
  for (const training::ComparedRanking& each : learn(data).choice.compared) CHECK(std::isfinite(each.ndcg));
}

TEST_CASE("the same events give the same choice", "[ranking]") {
  const TrainingData data = hourly_hits(8);
  const auto first = learn(data).choice, second = learn(data).choice;
  REQUIRE(first.compared.size() == second.compared.size());
  for (std::size_t i = 0; i < first.compared.size(); ++i)
    CHECK(first.compared[i].ndcg == second.compared[i].ndcg);
}

TEST_CASE("replayed sums of views are those of all readers where they were counted", "[ranking]") {
  TrainingData data = old_items(2, 1);
  data.events = {
      {0, 0, kView, kStart}, {0, 0, readers::Interaction::kLike, kStart}, {0, 1, kView, kStart + kHour}};
  const auto views = [](const training::EventReplay& replay,
                        std::uint32_t item) {  // decayed by 24 h, and at birth
    return hot::score_at(replay.trend(item)[4], replay.known().now, kDay) -
           hot::decay(replay.known().now - (kStart - kDay), kDay);
  };
  training::EventReplay by_events(data);
  by_events.advance_to(kStart + 2 * kHour);
  CHECK(views(by_events, 0) == Approx(hot::decay(2 * kHour, kDay)));  // a like is no view
  CHECK(views(by_events, 1) == Approx(hot::decay(kHour, kDay)));

  data.view_counts = {{1, kStart + kHour, kHour, 100}, {1, kStart + 2 * kHour, kHour, 1000}};
  training::EventReplay counted(data);
  counted.advance_to(kStart + 2 * kHour);  // the second count is not complete yet
  CHECK(views(counted, 0) == Approx(hot::decay(2 * kHour, kDay)));
  CHECK(views(counted, 1) == Approx(100 * hot::decay(kHour / 2, kDay)));  // without the event
  counted.advance_to(kStart + 3 * kHour);
  CHECK(views(counted, 1) ==
        Approx(100 * hot::decay(kHour * 3 / 2, kDay) + 1000 * hot::decay(kHour / 2, kDay)));
}
