#include "core/training/train.h"

#include <algorithm>

#include "core/recommend/affinity_scorer.h"
#include "core/training/columns.h"
#include "core/training/validation.h"
#include "tests/model/fixture.h"
#include "tests/support/error_of.h"
#include "tests/support/shared_files.h"

using namespace freshet;
using namespace freshet::model;
using namespace freshet::recommend;
using namespace freshet::training;
using namespace freshet::test;

TEST_CASE("the same data gives the same bytes in any order", "[model]") {
  TemporaryDirectory directory;
  for (const char* algorithm : {"ease", "rp3beta", "auto"}) {
    TrainSettings settings;
    settings.algorithm = algorithm;
    TrainingData data = make_training_data(90, 50, 6);
    REQUIRE(write_model(train_model(data, settings), directory.path() / "a"));
    std::stable_sort(data.events.begin(), data.events.end(),
                     [](const TrainingEvent& a, const TrainingEvent& b) { return a.item < b.item; });
    REQUIRE(write_model(train_model(data, settings), directory.path() / "b"));
    INFO(algorithm);
    CHECK(read_file(directory.path() / "a") == read_file(directory.path() / "b"));
  }
}

TEST_CASE("hidden items and their interactions are not in the model", "[model]") {
  TrainingData data = make_training_data(60, 40);
  data.items[7].hidden = true;
  const TrainedModel trained = train_model(data);
  CHECK(trained.items.size() == 39);
  CHECK(std::none_of(trained.items.begin(), trained.items.end(),
                     [](const auto& item) { return item.id == "i1007"; }));
}

TEST_CASE("counts cover all events, decayed counts halve daily, unknown dates come from the first event",
          "[model]") {
  TrainingData data = make_training_data(60, 40);
  data.items[0].published = kTrainedAt - seconds(5);
  data.events = {{0, 0, readers::Interaction::kView, kTrainedAt},
                 {0, 0, readers::Interaction::kView, kTrainedAt - seconds(86400)},
                 {1, 1, readers::Interaction::kLike, kTrainedAt - seconds(2 * 86400)},
                 {1, 0, readers::Interaction::kView, kTrainedAt + seconds(999)}};
  const TrainedModel trained = train_model(data);
  CHECK(trained.counts[0] == 3);
  CHECK(trained.decayed_counts[0] == Approx(2.5));
  CHECK(trained.decayed_counts[1] == Approx(0.25));
  CHECK(trained.items[0].published == kTrainedAt - seconds(5));
  CHECK(trained.items[1].published == kTrainedAt - seconds(2 * 86400));
}

TEST_CASE("training requires two items with events", "[model]") {
  TrainingData data = make_training_data(60, 40);
  for (TrainingEvent& event : data.events) event.item = 3;
  const auto trained = train(data, {}, kNoProgress);
  REQUIRE_FALSE(trained);
  CHECK(error_of(trained).reason == "no_events");
  CHECK_FALSE(train({}, {}, kNoProgress));
}

TEST_CASE("readers with tastes get matching recommendations, including new items", "[model]") {
  const TrainingData data = make_training_data(300, 100, 20);
  TemporaryDirectory directory;
  REQUIRE(write_model(train_model(data), directory.path() / "m"));
  const auto model = open_model(directory.path() / "m");
  AffinityScorer affinity;
  const std::vector<ProfileItem> profile{{2, 1}, {12, 1}, {27, 1}};  // all of taste 2
  affinity.compute(*model, profile);
  const auto top = affinity.top(12, std::vector<std::uint32_t>{2, 12, 27});
  const auto suits = std::count_if(top.begin(), top.end(), [](auto item) { return item % 5 == 2; });
  CHECK(suits >= 10);
  affinity.compute(*model, profile);
  std::vector<std::uint32_t> known(80);
  for (std::uint32_t i = 0; i < 80; ++i) known[i] = i;
  const auto fresh = affinity.top(4, known);
  REQUIRE(fresh.size() == 4);
  for (const auto item : fresh) CHECK(item % 5 == 2);
}

TEST_CASE("only a reader's newest events count", "[model]") {
  TrainingData data = make_training_data(60, 40);
  for (std::uint32_t i = 0; i < 40; ++i) {
    data.events.push_back({77, i, readers::Interaction::kView, kTrainedAt - seconds(1000 * i)});
  }
  TrainSettings settings;
  settings.algorithm = "rp3beta";
  const TrainedModel all = train_model(data, settings);
  settings.max_per_reader = 12;
  const TrainedModel newest = train_model(data, settings);
  CHECK(newest.relations[0].neighbours.size() < all.relations[0].neighbours.size());
}

TEST_CASE("pruning all columns together keeps the greatest entries, of equals the first", "[model]") {
  Columns columns{{{0, 1.F}, {1, -5.F}}, {{0, 3.F}, {2, 1.F}}, {{1, 1.F}}};
  prune(columns, 3);
  REQUIRE(columns[0].size() == 2);
  REQUIRE(columns[1].size() == 1);
  CHECK(columns[1][0].weight == 3.F);
  CHECK(columns[2].empty());
}

TEST_CASE("ndcg depends on ranks and ignores what cannot fit into the list", "[model]") {
  const std::vector<std::uint32_t> list{5, 6, 7};
  CHECK(ndcg(list, std::vector<std::uint32_t>{5}) == Approx(1));
  CHECK(ndcg(list, std::vector<std::uint32_t>{6}) == Approx(1 / std::log2(3.0)));
  CHECK(ndcg(list, std::vector<std::uint32_t>{1}) == 0);
  std::vector<std::uint32_t> many(100);
  for (std::uint32_t i = 0; i < 100; ++i) many[i] = i;
  CHECK(ndcg(std::vector<std::uint32_t>(many.begin(), many.begin() + 20), many) == Approx(1));
  CHECK(recall(list, std::vector<std::uint32_t>{5, 9}) == Approx(0.5));
}
