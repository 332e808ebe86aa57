// What `freshetctl evaluate deskdrop` must reach (quality.md, Q7 and Q8): a minute or two.
#include <catch2/catch.hpp>

#include "scripts/ctl/evaluate/evaluate_sets.h"
#include "tests/support/shared_files.h"

using namespace freshet;

TEST_CASE("ranking reaches what Deskdrop must reach", "[quality]") {
  const auto folder = test::shared_path("data/deskdrop");
  if (!folder) return;
  const auto report = ctl::evaluate_deskdrop(folder->string(), [](std::string_view, double) {});
  REQUIRE(report);
  int goals = 0;
  for (const ctl::Metric& each : report->metrics()) {
    if (!each.must) continue;
    INFO(each.goal << " " << each.name);
    CHECK(each.value >= *each.must);
    ++goals;
  }
  CHECK(goals == 3);
}
