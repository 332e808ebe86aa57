#include "core/hot/views.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>

using namespace freshet;

namespace {
const ViewsSettings kDefaults;
const UnixSeconds kNow{seconds{1770000000}};
double example_score(double views, int hours) {
  return hot::view_score(views, kNow - seconds{hours * 3600}, kNow, kDefaults);
}
}  // namespace

TEST_CASE("three worked examples give 2.2908, 5.4433 and 0.4713", "[rank]") {
  CHECK(example_score(120, 12) == Approx(2.2908).margin(5e-5));
  CHECK(example_score(80, 4) == Approx(5.4433).margin(5e-5));
  CHECK(example_score(300, 72) == Approx(0.4713).margin(5e-5));
}

TEST_CASE("a view counts one, and the day's first one three", "[rank]") {
  CHECK(hot::view_increment(false, kDefaults) == 1.0);
  CHECK(hot::view_increment(true, kDefaults) == 3.0);
}

TEST_CASE("the views model uses the configured weights, base and exponent", "[rank]") {
  ViewsSettings other;
  other.pv_weight = 2;
  other.uv_weight = 5;
  other.base_hours = 3;
  other.gamma = 2;
  CHECK(hot::view_increment(false, other) == 2);
  CHECK(hot::view_increment(true, other) == 7);
  CHECK(hot::power_law(7, other) == Approx(100));
  CHECK(hot::view_score(14, kNow - seconds{7 * 3600}, kNow, other) == Approx(0.14));
}

TEST_CASE("a publish time in the future counts as now", "[rank]") {
  CHECK(hot::view_score(3, kNow + seconds{86400}, kNow, kDefaults) ==
        hot::view_score(3, kNow, kNow, kDefaults));
}

TEST_CASE("view scores are finite, positive and never increase with age", "[rank]") {
  CHECK(rc::check("monotone", [] {
    const auto total = static_cast<double>(*rc::gen::inRange(1, 1000000000));
    const auto age = *rc::gen::inRange<std::int64_t>(-1000000, 1000000000);
    const auto older = age + *rc::gen::inRange<std::int64_t>(0, 1000000000);
    const double young = hot::view_score(total, kNow - seconds{age}, kNow, kDefaults);
    const double old = hot::view_score(total, kNow - seconds{older}, kNow, kDefaults);
    RC_ASSERT(std::isfinite(young) && std::isfinite(old));
    RC_ASSERT(old > 0);
    RC_ASSERT(old <= young);
  }));
}
