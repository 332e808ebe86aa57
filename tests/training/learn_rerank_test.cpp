#include "core/training/learn_rerank.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "core/training/rerank_fit.h"
#include "core/training/train.h"
#include "core/training/in_memory_model.h"

using namespace freshet;

namespace {

constexpr UnixSeconds kBegin{seconds{1'600'041'600}};  // a midnight
constexpr seconds kDay{86400};

// Choices of one taken among 30, random numbers but for the rule that makes them be taken.
template <class Rule>
std::vector<training::RankingExample> planted(int count, const Rule& utility) {
  std::mt19937 random(5);
  std::vector<training::RankingExample> out(static_cast<std::size_t>(count));
  for (training::RankingExample& choice : out) {
    double best = -1e30;
    std::size_t taken = 0;
    for (std::size_t i = 0; i < 30; ++i) {
      recommend::FeatureVector x{};
      for (float& one : x) one = static_cast<float>(random() % 2000) / 1000 - 1;
      if (const double value = utility(x); value > best) {
        best = value;
        taken = i;
      }
      choice.candidates.push_back(x);
    }
    choice.labels.assign(30, 0);
    choice.labels[taken] = 1;
  }
  return out;
}

double hit_rate(const recommend::Reranker& reranker, const std::vector<training::RankingExample>& choices) {
  double hits = 0;
  std::vector<float> logits;
  for (const training::RankingExample& choice : choices) {
    reranker.logits(choice.candidates, logits);
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    hits += choice.labels[static_cast<std::size_t>(best)];
  }
  return hits / static_cast<double>(choices.size());
}

// A site of `days` days: 10 new items a day; each of 30 readers takes two of yesterday's items a
// day, always those that have their own number modulo 5: what has trended for a day is what all
// readers' last items were not.
training::TrainingData site(int days) {
  training::TrainingData data;
  std::mt19937 random(3);
  data.now = kBegin + days * kDay;
  for (int day = 0; day < days; ++day) {
    for (std::uint32_t i = 0; i < 10; ++i) {
      const auto item = static_cast<std::uint32_t>(data.items.size());
      data.items.push_back({"d" + std::to_string(1000 + day) + "i" + std::to_string(i),
                            {},
                            {},
                            {},
                            {},
                            kBegin + day * kDay + seconds{3600},
                            false});
      for (std::uint32_t reader = 0; reader < 30; ++reader) {
        if (item % 5 != reader % 5) continue;
        const int later = random() % 8 == 0 ? 0 : 1;
        if (day + later >= days) continue;
        data.events.push_back({reader, item, readers::Interaction::kView,
                               kBegin + (day + later) * kDay + seconds{7200 + random() % 60000}});
      }
    }
  }
  return data;
}

const training::RelationTrainer kTrain =
    [](const training::TrainingData& past) -> std::shared_ptr<const model::Model> {
  TrainSettings settings;
  settings.algorithm = "rp3beta";
  auto trained = training::train_with_parameters(past, settings, {});
  return trained ? training::to_model(std::move(*trained)) : nullptr;
};

}  // namespace

TEST_CASE("the re-ranker learns what is taken from what was taken", "[rerank]") {
  const auto linear = [](const recommend::FeatureVector& x) { return static_cast<double>(2 * x[3] - x[7]); };
  const auto choices = planted(1200, linear);
  const std::vector<training::RankingExample> seen(choices.begin(), choices.begin() + 1000);
  const std::vector<training::RankingExample> unseen(choices.begin() + 1000, choices.end());
  CHECK(hit_rate(training::fit_reranker(seen), unseen) > 0.8);
  CHECK(hit_rate(recommend::Reranker{}, unseen) < 0.2);
}

TEST_CASE("hidden units learn what is not linear", "[rerank]") {
  const auto bent = [](const recommend::FeatureVector& x) { return static_cast<double>(-std::abs(x[2])); };
  const auto choices = planted(1000, bent);
  training::FitSettings settings;
  settings.epochs = 20;
  CHECK(hit_rate(training::fit_reranker(choices, settings), choices) > 0.3);  // by chance .03
}

TEST_CASE("the same choices make the same re-ranker", "[rerank]") {
  const auto choices = planted(200, [](const recommend::FeatureVector& x) { return static_cast<double>(x[0]); });
  CHECK(training::fit_reranker(choices).to_floats() == training::fit_reranker(choices).to_floats());
}

TEST_CASE("parameters survive the file; garbage is refused", "[rerank]") {
  const auto choices = planted(200, [](const recommend::FeatureVector& x) { return static_cast<double>(x[0]); });
  const auto parameters = training::fit_reranker(choices).to_floats();
  const auto again = recommend::Reranker::from_floats(parameters);
  REQUIRE(again);
  CHECK(again->to_floats() == parameters);
  CHECK_FALSE(recommend::Reranker::from_floats({}));
  const auto broken = [&](std::size_t at, float value) {
    auto other = parameters;
    other[at] = value;
    return recommend::Reranker::from_floats(other).has_value();
  };
  CHECK_FALSE(broken(0, recommend::kRerankVersion + 1));
  CHECK_FALSE(broken(5, std::numeric_limits<float>::quiet_NaN()));
  CHECK_FALSE(broken(9, std::numeric_limits<float>::infinity()));
  CHECK_FALSE(broken(parameters.size() - 1, 1e30F));
  auto longer = parameters;
  longer.push_back(0);
  CHECK_FALSE(recommend::Reranker::from_floats(longer));
}

TEST_CASE("numbers far from those learned from give finite logits", "[rerank]") {
  const auto choices = planted(100, [](const recommend::FeatureVector& x) { return static_cast<double>(x[0]); });
  const auto reranker = training::fit_reranker(choices);
  recommend::FeatureVector far{};
  far.fill(1e30F);
  std::vector<float> logits;
  reranker.logits({&far, 1}, logits);
  CHECK(std::isfinite(logits.at(0)));
}

TEST_CASE("logits are those of the formula", "[rerank]") {
  const auto choices =
      planted(100, [](const recommend::FeatureVector& x) { return static_cast<double>(x[0] * x[1]); });
  const auto reranker = training::fit_reranker(choices);
  for (const training::RankingExample& choice : choices) {
    std::vector<float> logits;
    reranker.logits(choice.candidates, logits);
    REQUIRE(logits.size() == choice.candidates.size());
    for (std::size_t c = 0; c < logits.size(); ++c) {
      std::array<double, recommend::kFeatures> x{};
      double expected = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double deviations =
            (double{choice.candidates[c][i]} - double{reranker.mean[i]}) * double{reranker.scale[i]};
        x[i] = std::clamp(deviations, -6.0, 6.0);
        expected += double{reranker.linear[i]} * x[i];
      }
      for (const auto& unit : reranker.hidden) {
        double in = double{unit.bias};
        for (std::size_t i = 0; i < x.size(); ++i) in += double{unit.weights[i]} * x[i];
        expected += double{unit.output_weight} * std::tanh(in);
      }
      if (std::abs(double{logits[c]} - expected) > 1e-4) FAIL(logits[c] << " instead of " << expected);
    }
  }
}

TEST_CASE("a re-ranker is learned from a site's past days, always the same", "[rerank]") {
  const auto data = site(40);
  const auto learned = training::learn_rerank(data, {}, kTrain);
  REQUIRE_FALSE(learned.empty());
  CHECK(recommend::Reranker::from_floats(learned));
  CHECK(training::learn_rerank(data, {}, kTrain) == learned);
}

TEST_CASE("without enough history there is no re-ranker", "[rerank]") {
  CHECK(training::learn_rerank({}, {}, kTrain).empty());
  CHECK(training::learn_rerank(site(4), {}, kTrain).empty());
  // As the data sets without times have it: everything at one moment.
  auto at_once = site(40);
  for (auto& each : at_once.events) each.at = kBegin;
  CHECK(training::learn_rerank(at_once, {}, kTrain).empty());
}

TEST_CASE("a day's model is trained on nothing that came later", "[rerank]") {
  const auto data = site(30);
  int calls = 0;
  training::learn_rerank(data, {}, [&](const training::TrainingData& past) {
    ++calls;
    std::vector<bool> known(past.items.size());
    for (const auto& each : past.events) {
      CHECK(each.at < past.now);
      known[each.item] = true;
    }
    for (std::size_t item = 0; item < past.items.size(); ++item) {
      if (past.items[item].published >= past.now) CHECK(past.items[item].hidden);
      CHECK_FALSE((known[item] && past.items[item].hidden));
    }
    return kTrain(past);
  });
  CHECK(calls >= 7);
}
