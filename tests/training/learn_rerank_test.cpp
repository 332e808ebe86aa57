#include "core/training/learn_rerank.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "core/training/in_memory_model.h"
#include "core/training/rerank_fit.h"
#include "core/training/train.h"

using namespace freshet;

namespace {

constexpr UnixSeconds kStart{seconds{1'600'041'600}};  // midnight
constexpr seconds kDay{86400};

// Examples with one positive among 30 random candidates, chosen by the given utility.
template <class Rule>
std::vector<training::RankingExample> make_examples(int count, const Rule& utility) {
  std::mt19937 random(5);
  std::vector<training::RankingExample> out(static_cast<std::size_t>(count));
  for (training::RankingExample& example : out) {
    double best = -1e30;
    std::size_t positive = 0;
    for (std::size_t i = 0; i < 30; ++i) {
      recommend::FeatureVector x{};
      for (float& one : x) one = static_cast<float>(random() % 2000) / 1000 - 1;
      if (const double value = utility(x); value > best) {
        best = value;
        positive = i;
      }
      example.candidates.push_back(x);
    }
    example.labels.assign(30, 0);
    example.labels[positive] = 1;
  }
  return out;
}

double hit_rate(const recommend::Reranker& reranker, const std::vector<training::RankingExample>& examples) {
  double hits = 0;
  std::vector<float> logits;
  for (const training::RankingExample& example : examples) {
    reranker.logits(example.candidates, logits);
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    hits += example.labels[static_cast<std::size_t>(best)];
  }
  return hits / static_cast<double>(examples.size());
}

// A site of `days` days with 10 new items per day. Each of 30 readers views two items per day,
// usually of the previous day, and always those equal to their own number modulo 5. Items that have
// trended for a day are thus usually wrong for a given reader.
training::TrainingData site(int days) {
  training::TrainingData data;
  std::mt19937 random(3);
  data.now = kStart + days * kDay;
  for (int day = 0; day < days; ++day) {
    for (std::uint32_t i = 0; i < 10; ++i) {
      const auto item = static_cast<std::uint32_t>(data.items.size());
      data.items.push_back({"d" + std::to_string(1000 + day) + "i" + std::to_string(i),
                            {},
                            {},
                            {},
                            {},
                            kStart + day * kDay + seconds{3600},
                            false});
      for (std::uint32_t reader = 0; reader < 30; ++reader) {
        if (item % 5 != reader % 5) continue;
        const int later = random() % 8 == 0 ? 0 : 1;
        if (day + later >= days) continue;
        data.events.push_back({reader, item, readers::Interaction::kView,
                               kStart + (day + later) * kDay + seconds{7200 + random() % 60000}});
      }
    }
  }
  return data;
}

const training::RelationTrainer kTrain =
    [](const training::TrainingData& past,
       std::vector<float> reranker) -> std::shared_ptr<const model::Model> {
  TrainSettings settings;
  settings.algorithm = "rp3beta";
  auto trained = training::train_with_parameters(past, settings, {});
  if (!trained) return nullptr;
  trained->reranker = std::move(reranker);
  return training::to_model(std::move(*trained));
};

// The re-ranker, whether or not it is the chosen ranking.
std::vector<float> learn_reranker(const training::TrainingData& data) {
  recommend::RankingSettings settings;
  settings.rerank = true;
  return training::learn_ranking(data, settings, kTrain).reranker;
}

}  // namespace

TEST_CASE("the re-ranker learns a linear utility", "[rerank]") {
  const auto linear = [](const recommend::FeatureVector& x) { return static_cast<double>(2 * x[3] - x[7]); };
  const auto examples = make_examples(1200, linear);
  const std::vector<training::RankingExample> seen(examples.begin(), examples.begin() + 1000);
  const std::vector<training::RankingExample> unseen(examples.begin() + 1000, examples.end());
  CHECK(hit_rate(training::fit_reranker(seen), unseen) > 0.8);
  CHECK(hit_rate(recommend::Reranker{}, unseen) < 0.2);
}

TEST_CASE("hidden units learn a non-linear utility", "[rerank]") {
  const auto nonlinear = [](const recommend::FeatureVector& x) {
    return static_cast<double>(-std::abs(x[2]));
  };
  const auto examples = make_examples(1000, nonlinear);
  training::FitSettings settings;
  settings.epochs = 20;
  CHECK(hit_rate(training::fit_reranker(examples, settings), examples) > 0.3);  // .03 by chance
}

TEST_CASE("the same examples give the same re-ranker", "[rerank]") {
  const auto examples =
      make_examples(200, [](const recommend::FeatureVector& x) { return static_cast<double>(x[0]); });
  CHECK(training::fit_reranker(examples).to_floats() == training::fit_reranker(examples).to_floats());
}

TEST_CASE("parameters survive serialization; invalid ones are refused", "[rerank]") {
  const auto examples =
      make_examples(200, [](const recommend::FeatureVector& x) { return static_cast<double>(x[0]); });
  const auto parameters = training::fit_reranker(examples).to_floats();
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

TEST_CASE("inputs far from the training data give finite logits", "[rerank]") {
  const auto examples =
      make_examples(100, [](const recommend::FeatureVector& x) { return static_cast<double>(x[0]); });
  const auto reranker = training::fit_reranker(examples);
  recommend::FeatureVector far{};
  far.fill(1e30F);
  std::vector<float> logits;
  reranker.logits({&far, 1}, logits);
  CHECK(std::isfinite(logits.at(0)));
}

TEST_CASE("logits match the formula", "[rerank]") {
  const auto examples =
      make_examples(100, [](const recommend::FeatureVector& x) { return static_cast<double>(x[0] * x[1]); });
  const auto reranker = training::fit_reranker(examples);
  for (const training::RankingExample& example : examples) {
    std::vector<float> logits;
    reranker.logits(example.candidates, logits);
    REQUIRE(logits.size() == example.candidates.size());
    for (std::size_t c = 0; c < logits.size(); ++c) {
      std::array<double, recommend::kFeatures> x{};
      double expected = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double deviations =
            (double{example.candidates[c][i]} - double{reranker.mean[i]}) * double{reranker.scale[i]};
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

TEST_CASE("a re-ranker is trained from a site's past days, deterministically", "[rerank]") {
  const auto data = site(40);
  const auto learned = learn_reranker(data);
  REQUIRE_FALSE(learned.empty());
  CHECK(recommend::Reranker::from_floats(learned));
  CHECK(learn_reranker(data) == learned);
}

TEST_CASE("there is no re-ranker without enough history", "[rerank]") {
  CHECK(learn_reranker({}).empty());
  CHECK(learn_reranker(site(3)).empty());
  // Like data sets without times: everything at one moment.
  auto at_once = site(40);
  for (auto& each : at_once.events) each.at = kStart;
  CHECK(learn_reranker(at_once).empty());
}

TEST_CASE("a day's model is not trained on later events", "[rerank]") {
  const auto data = site(30);
  int calls = 0;
  training::learn_ranking(data, {}, [&](const training::TrainingData& past, std::vector<float> reranker) {
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
    return kTrain(past, std::move(reranker));
  });
  CHECK(calls >= 7);
}
