// Quality goals for `evaluate_public deskdrop` (quality.md, Q7 and Q8). All days take two minutes
// and run at night. The first 75 days take a sixth of that and run with every change; the models
// know little by then, so these bounds are measured values.
#include <catch2/catch.hpp>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "core/tuning/scratch_folder.h"
#include "tests/bench/public_data/data.h"
#include "tests/bench/public_data/sets.h"
#include "tests/support/shared_files.h"

using namespace freshet;

namespace {

constexpr const char* kFile = "users_interactions.csv";

// Copies the events of the first `days` days, which are not in order. Each is a line that starts
// with the time.
void copy_days(const std::filesystem::path& from, const std::filesystem::path& to, std::int64_t days) {
  std::ifstream in(from / kFile);
  std::string names, line;
  std::getline(in, names);
  std::vector<std::string> lines;
  std::int64_t first = INT64_MAX;
  while (std::getline(in, line)) {
    lines.push_back(line);
    first = std::min<std::int64_t>(first, std::stoll(line));
  }
  std::ofstream out(to / kFile);
  out << names << '\n';
  for (const std::string& each : lines) {
    if (std::stoll(each) < first + days * 86400) out << each << '\n';
  }
}

bench::EvaluationReport evaluate(const std::string& folder) {
  auto report = bench::evaluate_deskdrop(folder, [](std::string_view, double) {});
  REQUIRE(report);
  return *std::move(report);
}

}  // namespace

TEST_CASE("the first days of Deskdrop are ranked as well as measured before, and better than by trend",
          "[quality]") {
  const auto folder = test::shared_path("data/deskdrop");
  if (!folder) return;
  const tuning::ScratchFolder beginning{std::filesystem::temp_directory_path()};
  copy_days(*folder, beginning.path(), 75);
  const auto report = evaluate(beginning.path().string());
  std::map<std::string, double> value;
  for (const bench::Metric& each : report.metrics()) value[each.name] = each.value;
  CHECK(value.at("ndcg@20 served") >= 0.355);               // .3608
  CHECK(value.at("recall@20 served") >= 0.63);              // .6431
  CHECK(value.at("coverage@20 served") >= 0.90);            // .9229
  CHECK(value.at("ndcg@20 by the minute served") >= 0.41);  // .4193
  CHECK(value.at("ndcg@20 served") > value.at("ndcg@20 by views: (1 + points) / (hours + 2)^1.5") + 0.02);
  CHECK(value.at("ndcg@20 by the minute served") > value.at("ndcg@20 by the minute by views"));
  CHECK(value.at("ndcg@20 knowing a reader's newest 200") >
        value.at("ndcg@20 knowing a reader's newest 0") + 0.02);
}

TEST_CASE("ranking reaches the goals for Deskdrop", "[.][long]") {
  const auto folder = test::shared_path("data/deskdrop");
  if (!folder) return;
  int goals = 0;
  const auto report = evaluate(folder->string());
  for (const bench::Metric& each : report.metrics()) {
    if (!each.must) continue;
    INFO(each.goal << " " << each.name);
    CHECK(each.value >= *each.must);
    ++goals;
  }
  CHECK(goals == 3);
}
