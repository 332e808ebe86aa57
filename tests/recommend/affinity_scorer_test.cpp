// Compares the served scores with dense reference implementations of the papers' formulas.
#include "core/recommend/affinity_scorer.h"

#include <Eigen/Dense>
#include <cmath>
#include <random>

#include "core/training/ease.h"
#include "tests/model/fixture.h"

using namespace freshet;
using namespace freshet::model;
using namespace freshet::recommend;
using namespace freshet::training;
using namespace freshet::test;

namespace {

// Reader × item matrix; 1 where a reader interacted with an item. Items are in model order, which
// equals data order here.
Eigen::MatrixXd touches(const TrainingData& data, int readers) {
  Eigen::MatrixXd x = Eigen::MatrixXd::Zero(readers, static_cast<Eigen::Index>(data.items.size()));
  for (const TrainingEvent& event : data.events) x(event.reader, event.item) = 1;
  return x;
}

Eigen::MatrixXd ease_reference(const Eigen::MatrixXd& x, double lambda) {
  const EaseSettings settings;
  const double mean = x.sum() / static_cast<double>((x.rowwise().sum().array() > 0).count());
  Eigen::MatrixXd weighted = x;
  for (Eigen::Index u = 0; u < x.rows(); ++u) {
    if (x.row(u).sum() > 0)
      weighted.row(u) *= std::pow(mean / x.row(u).sum(), double{settings.reader_exponent});
  }
  Eigen::MatrixXd g = weighted.transpose() * x;
  for (Eigen::Index i = 0; i < g.rows(); ++i) {
    g(i, i) += lambda + double{settings.dropout} / (1 - double{settings.dropout}) * g(i, i);
  }
  const Eigen::MatrixXd p = g.inverse();
  Eigen::MatrixXd b(p.rows(), p.cols());
  for (Eigen::Index j = 0; j < p.cols(); ++j) b.col(j) = -p.col(j) / p(j, j);
  b.diagonal().setZero();
  return b;
}

Eigen::MatrixXd rp3_reference(const Eigen::MatrixXd& x, double alpha, double beta) {
  const Eigen::Index items = x.cols();
  Eigen::MatrixXd w = Eigen::MatrixXd::Zero(items, items);
  for (Eigen::Index i = 0; i < items; ++i) {
    for (Eigen::Index j = 0; j < items; ++j) {
      if (i == j || x.col(i).sum() == 0 || x.col(j).sum() == 0) continue;
      double walk = 0;
      for (Eigen::Index u = 0; u < x.rows(); ++u) {
        walk += x(u, i) * x(u, j) / std::pow(std::max(1.0, x.row(u).sum()), alpha);
      }
      w(i, j) = walk / std::pow(x.col(i).sum(), alpha) / std::pow(x.col(j).sum(), beta);
    }
  }
  return w;
}

void expect_scores(const TrainedModel& trained, const TrainingData& data, const Eigen::MatrixXd& relations) {
  TemporaryDirectory directory;
  REQUIRE(write_model(trained, directory.path() / "m"));
  const auto model = open_model(directory.path() / "m");
  const std::vector<ProfileItem> profile{{3, 1.F}, {17, 2.5F}, {30, 0.25F}};
  AffinityScorer affinity;
  affinity.compute(*model, profile);
  const auto items = static_cast<Eigen::Index>(data.items.size());
  Eigen::VectorXd cf = Eigen::VectorXd::Zero(items), content = Eigen::VectorXd::Zero(items);
  for (const ProfileItem& entry : profile) {
    const auto add = [&](Relation part, Eigen::VectorXd& sums) {
      const auto p = static_cast<std::size_t>(part);
      const TrainedModel::Rows& rows = trained.relations[p];
      for (auto at = rows.starts[entry.item]; at < rows.starts[entry.item + 1]; ++at) {
        const Neighbour& one = rows.neighbours[at];
        sums(one.item) +=
            double{trained.blend_weights.by_relation[p]} * double{entry.weight} * double{one.weight};
      }
    };
    cf += double{trained.blend_weights.by_relation[0]} * double{entry.weight} *
          relations.row(entry.item).transpose();
    add(Relation::kColdStart, cf);
    add(Relation::kContent, content);
  }
  for (std::uint32_t item = 0; item < data.items.size(); ++item) {
    CHECK(affinity.cf(item) == Approx(cf(item)).margin(1e-4));
    CHECK(affinity.content(item) == Approx(content(item)).margin(1e-4));
    CHECK(affinity.total(item) == affinity.cf(item) + affinity.content(item));
  }
}

}  // namespace

TEST_CASE("EASE scores match the dense formula", "[model]") {
  const TrainingData data = make_training_data(120, 60, 6);
  TrainSettings settings;
  settings.algorithm = "ease";
  const TrainedModel trained = train_model(data, settings);
  REQUIRE(trained.algorithm == "ease");
  expect_scores(trained, data, ease_reference(touches(data, 120), double{trained.parameters.lambda}));
}

TEST_CASE("RP3beta scores match the dense formula", "[model]") {
  const TrainingData data = make_training_data(120, 60, 6);
  TrainSettings settings;
  settings.algorithm = "rp3beta";
  const TrainedModel trained = train_model(data, settings);
  REQUIRE(trained.algorithm == "rp3beta");
  expect_scores(
      trained, data,
      rp3_reference(touches(data, 120), double{trained.parameters.alpha}, double{trained.parameters.beta}));
}

TEST_CASE("sparse scoring of a large model matches scoring every item", "[model]") {
  TrainedModel trained;
  constexpr std::uint32_t kItems = 70000;  // needs 32-bit indexes, and leaves many blocks untouched
  std::mt19937 random(5);
  for (std::uint32_t i = 0; i < kItems; ++i) {
    trained.items.push_back({std::to_string(1000000 + i)});
    for (std::size_t p = 0; p < kRelations; ++p) {
      trained.relations[p].starts.push_back(trained.relations[p].neighbours.size());
      if (i % 10 != 0) continue;
      for (std::uint32_t n = 0; n < 5; ++n) {
        trained.relations[p].neighbours.push_back(
            {static_cast<std::uint32_t>(random() % kItems), 1.F / static_cast<float>(n + 1)});
      }
    }
  }
  for (auto& part : trained.relations) part.starts.push_back(part.neighbours.size());
  trained.counts.resize(kItems);
  trained.decayed_counts.resize(kItems);
  trained.terms.resize(kItems);
  trained.blend_weights.by_relation[1] = 0.5F;
  trained.blend_weights.by_relation[2] = 2;
  trained.algorithm = "rp3beta";
  TemporaryDirectory directory;
  REQUIRE(write_model(trained, directory.path() / "m"));
  const auto model = open_model(directory.path() / "m");

  AffinityScorer affinity;
  for (int round = 0; round < 20; ++round) {  // reuses the scratch memory
    std::vector<ProfileItem> profile;
    for (int i = 0; i < 30; ++i) profile.push_back({static_cast<std::uint32_t>(random() % 7000 * 10), 1.5F});
    affinity.compute(*model, profile);
    std::vector<double> expected(kItems, 0);
    for (const ProfileItem& entry : profile) {
      for (std::size_t p = 0; p < kRelations; ++p) {
        for (const Neighbour& n : model->row(static_cast<Relation>(p), entry.item)) {
          expected[n.item] +=
              double{trained.blend_weights.by_relation[p]} * double{entry.weight} * double{n.weight};
        }
      }
    }
    std::vector<std::uint32_t> order(kItems);
    for (std::uint32_t i = 0; i < kItems; ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return affinity.total(a) > affinity.total(b); });
    for (std::uint32_t i = 0; i < kItems; ++i) {
      if (std::abs(double{affinity.total(i)} - expected[i]) > 1e-4) FAIL("item " << i);
    }
    const auto top = affinity.top(20);
    CHECK(top == std::vector<std::uint32_t>(order.begin(), order.begin() + 20));
    const std::vector<std::uint32_t> without{top[0], top[3], top[0]};
    const auto rest = affinity.top(18, without);
    CHECK(rest.size() == 18);
    CHECK(rest[0] == top[1]);
    CHECK(rest[2] == top[4]);
    CHECK(affinity.top(20) == top);  // scores were restored
  }
}
