#include "core/feed/decay.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>

using namespace freshet;

namespace {

constexpr seconds kDay{86400};

// Elasticsearch's definition of `gauss` in function_score, computed literally.
double by_definition(double distance, double offset, double scale, double decay) {
  const double sigma_squared = -scale * scale / (2 * std::log(decay));
  const double beyond = std::max(0.0, std::abs(distance) - offset);
  return std::exp(-beyond * beyond / (2 * sigma_squared));
}

}  // namespace

TEST_CASE("the decay is 1 up to the offset and has the configured value one scale further", "[rank]") {
  const feed::GaussDecay decay{RecallSettings{}};  // offset 1 h, scale 7 d, decay 0.5
  CHECK(decay.at(seconds{0}) == 1.0);
  CHECK(decay.at(seconds{3600}) == 1.0);
  CHECK(decay.at(seconds{3601}) < 1.0);
  CHECK(decay.at(seconds{3600} + 7 * kDay) == Approx(0.5).epsilon(1e-14));
  CHECK(decay.at(seconds{3600} + 14 * kDay) == Approx(0.0625).epsilon(1e-14));  // 0.5^(2²)
  CHECK(decay.at(seconds{3600} + 21 * kDay) == Approx(1.0 / 512).epsilon(1e-14));
}

TEST_CASE("the decay matches the values in Elasticsearch's documentation", "[rank]") {
  // "decay: 0.33, scale: 5 days, offset: 0": at ten days 0.33^4.
  const feed::GaussDecay decay{seconds{0}, 5 * kDay, 0.33};
  CHECK(decay.at(5 * kDay) == Approx(0.33).epsilon(1e-14));
  CHECK(decay.at(10 * kDay) == Approx(0.01185921).epsilon(1e-12));
}

TEST_CASE("a date in the future counts as now", "[rank]") {
  const feed::GaussDecay decay{seconds{0}, kDay, 0.5};
  const UnixSeconds now{seconds{1770000000}};
  CHECK(decay.between(now + 30 * kDay, now) == 1.0);
  CHECK(decay.between(now - kDay, now) == Approx(0.5));
}

TEST_CASE("the decay follows its definition and never rises with age", "[rank]") {
  CHECK(rc::check("definition", [] {
    const auto offset = *rc::gen::inRange(0, 1000000);
    const auto scale = *rc::gen::inRange(1, 10000000);
    const double at_scale = *rc::gen::inRange(1, 999) / 1000.0;
    const auto age = *rc::gen::inRange(0, 100000000);
    const feed::GaussDecay decay{seconds{offset}, seconds{scale}, at_scale};
    RC_ASSERT(std::abs(decay.at(seconds{age}) - by_definition(age, offset, scale, at_scale)) <= 1e-12);
    RC_ASSERT(decay.at(seconds{age + 1}) <= decay.at(seconds{age}));
  }));
}

TEST_CASE("age_below() returns an age at which the decay is below the factor, and at most seconds too late",
          "[rank]") {
  CHECK(rc::check("below", [] {
    const auto offset = *rc::gen::inRange(0, 1000000);
    const auto scale = *rc::gen::inRange(100, 10000000);
    const double at_scale = *rc::gen::inRange(1, 999) / 1000.0;
    const double factor = std::pow(10.0, -*rc::gen::inRange(0, 300));
    const feed::GaussDecay decay{seconds{offset}, seconds{scale}, at_scale};
    const seconds age = decay.age_below(factor);
    RC_ASSERT(decay.at(age) < factor);
    RC_ASSERT(decay.at(age - seconds{3}) >= factor * (1 - 1e-9));
  }));
  const feed::GaussDecay decay{RecallSettings{}};
  CHECK(decay.at(decay.age_below(0)) == 0.0);
}
