// Checks the goals for recommendation quality with the program that prints them
// (tests/bench/public_data).
#include <catch2/catch.hpp>

#include "tests/bench/public_data/sets.h"
#include "tests/support/shared_files.h"

using namespace freshet;
using namespace freshet::bench;

namespace {

// `goals`: how many the report has at least.
void expect_reached(std::string_view name, const std::filesystem::path& path, int goals_expected = 3) {
  for (const DataSet& set : kDataSets) {
    if (set.name != name) continue;
    const auto report = set.evaluate(path.string(), [](std::string_view, double) {});
    REQUIRE(report);
    int goals = 0;
    for (const Metric& metric : report->metrics()) {
      if (!metric.must || metric.goal.starts_with('T') || metric.goal.starts_with('S')) continue;  // times
      INFO(metric.goal << " " << metric.name << " " << metric.value);
      CHECK((metric.less_is_better ? metric.value <= *metric.must : metric.value >= *metric.must));
      ++goals;
    }
    CHECK(goals >= goals_expected);
  }
}

}  // namespace

TEST_CASE("ML-1M is ranked as well as required", "[quality]") {
  if (const auto path = test::shared_path("data/ml1m-lcfn")) expect_reached("ml1m", *path);
}

TEST_CASE("citeulike-a is ranked as well as required, including new items", "[quality]") {
  if (const auto path = test::shared_path("data/citeulike-a")) expect_reached("citeulike", *path);
}

TEST_CASE("the tuner's hot lists predict as well as required", "[quality]") {
  expect_reached("hot-stackexchange", FRESHET_SAMPLE, 1);
  if (const auto path = test::shared_path("data/deskdrop")) expect_reached("hot-deskdrop", *path, 1);
}

TEST_CASE("a folder without the data is refused", "[quality]") {
  for (const DataSet& set : kDataSets) {
    const auto report = set.evaluate("/nowhere", [](std::string_view, double) {});
    CHECK_FALSE(report);
  }
}
