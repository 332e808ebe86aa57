#include "core/hot/engagement.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>

using namespace freshet;

namespace {

struct Article {
  hot::EngagementCounts counts;
  UnixSeconds first;
};

const EngagementSettings kDefaults;

double score(const Article& a, UnixSeconds now) {
  return hot::base_score(a.counts, kDefaults) * hot::decay(now - a.first, kDefaults.half_life);
}
double key(const Article& a) {
  return hot::rank_key(hot::base_score(a.counts, kDefaults), a.first, kDefaults.half_life);
}
bool clearly_different(double a, double b) { return std::abs(a - b) > 1e-9 * std::max(a, b); }

}  // namespace

namespace rc {
template <>
struct Arbitrary<Article> {
  static Gen<Article> arbitrary() {
    return gen::map(
        gen::tuple(gen::inRange<std::int64_t>(1, 1000000), gen::inRange<std::int64_t>(0, 1000000),
                   gen::inRange<std::int64_t>(0, 180000), gen::inRange<std::int64_t>(0, 4000000)),
        [](const auto& t) {
          const auto [pv, uv, dwell, first] = t;
          return Article{{pv, std::min(uv, pv), dwell * pv, pv}, UnixSeconds{seconds{1770000000 + first}}};
        });
  }
};
}  // namespace rc

TEST_CASE("the base score is a weighted sum", "[rank]") {
  // 1·10 + 3·4 + 0.002·(50,000/10).
  CHECK(hot::base_score({10, 4, 50000, 10}, kDefaults) == Approx(32.0).epsilon(1e-15));
  CHECK(hot::base_score({0, 0, 0, 0}, kDefaults) == 0.0);
}

TEST_CASE("a half-life halves the score and two quarter it", "[rank]") {
  CHECK(100 * hot::decay(seconds{86400}, kDefaults.half_life) == 50.0);
  CHECK(100 * hot::decay(seconds{172800}, kDefaults.half_life) == 25.0);
}

TEST_CASE("a first-seen time in the future does not raise the score above its base", "[rank]") {
  CHECK(100 * hot::decay(seconds{-365 * 86400}, kDefaults.half_life) == 100.0);
}

TEST_CASE("one long view does not outweigh ninety readers with a dwell prior", "[rank]") {
  const hot::EngagementCounts one{1, 1, 180000, 1}, ninety{90, 90, 0, 90};
  CHECK(hot::base_score(one, kDefaults) >
        hot::base_score(ninety, kDefaults));  // with the plain mean: 364 against 360
  EngagementSettings shrunk;
  shrunk.dwell_prior_views = 10;
  CHECK(hot::base_score(one, shrunk) < hot::base_score(ninety, shrunk));
  CHECK(hot::shrunk_mean_dwell({0, 0, 180000, 1}, 9, 10000) == Approx(27000.0));
}

TEST_CASE("rank keys order articles as their decayed scores do at any later time", "[rank]") {
  CHECK(rc::check("order", [](const Article& a, const Article& b) {
    const UnixSeconds now =
        std::max(a.first, b.first) + seconds{*rc::gen::inRange<std::int64_t>(0, 31536000)};
    RC_PRE(clearly_different(score(a, now), score(b, now)));
    RC_ASSERT((key(a) < key(b)) == (score(a, now) < score(b, now)));
  }));
}

TEST_CASE("a rank key converts back to the decayed score within 1e-9", "[rank]") {
  CHECK(rc::check("value", [](const Article& a) {
    const UnixSeconds now = a.first + seconds{*rc::gen::inRange<std::int64_t>(0, 31536000)};
    const double from_key = hot::score_at(key(a), now, kDefaults.half_life);
    RC_ASSERT(std::abs(from_key - score(a, now)) <= 1e-9 * score(a, now));
    RC_ASSERT(std::isfinite(from_key));
    RC_ASSERT(from_key > 0);
  }));
}

TEST_CASE("the key of a score converts back to that score", "[rank]") {
  const UnixSeconds now{seconds{1770000000}};
  CHECK(hot::score_at(hot::rank_key(1e-9, now, kDefaults.half_life), now, kDefaults.half_life) ==
        Approx(1e-9).epsilon(1e-9));
}
