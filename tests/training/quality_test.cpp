// Checks the goals for recommendation quality with the program that prints them
// (tests/bench/public_data).
#include <catch2/catch.hpp>

#include "tests/bench/public_data/sets.h"
#include "tests/support/shared_files.h"

using namespace freshet;
using namespace freshet::bench;

namespace {

void expect_reached(std::string_view name, const char* folder) {
  const auto path = test::shared_path(folder);
  if (!path) return;
  for (const DataSet& set : kDataSets) {
    if (set.name != name) continue;
    const auto report = set.evaluate(path->string(), [](std::string_view, double) {});
    REQUIRE(report);
    int goals = 0;
    for (const Metric& metric : report->metrics()) {
      if (!metric.goal.starts_with('Q') || !metric.must) continue;  // times depend on the machine
      INFO(metric.goal << " " << metric.name << " " << metric.value);
      CHECK((metric.less_is_better ? metric.value <= *metric.must : metric.value >= *metric.must));
      ++goals;
    }
    CHECK(goals >= 3);
  }
}

}  // namespace

TEST_CASE("ML-1M is ranked as well as required", "[quality]") { expect_reached("ml1m", "data/ml1m-lcfn"); }

TEST_CASE("citeulike-a is ranked as well as required, including new items", "[quality]") {
  expect_reached("citeulike", "data/citeulike-a");
}

TEST_CASE("a folder without the data is refused", "[quality]") {
  for (const DataSet& set : kDataSets) {
    const auto report = set.evaluate("/nowhere", [](std::string_view, double) {});
    CHECK_FALSE(report);
  }
}
