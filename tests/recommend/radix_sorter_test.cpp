#include "core/recommend/radix_sorter.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "core/recommend/float4.h"

using namespace freshet::recommend;

TEST_CASE("sort_descending returns each position once, highest key first", "[ranking]") {
  RadixSorter order;
  CHECK(order.sort_descending({}).empty());
  CHECK(rc::check([&](const std::vector<std::uint32_t>& keys) {
    const auto places = order.sort_descending(keys);
    std::vector<std::uint32_t> sorted(places.begin(), places.end());
    RC_ASSERT(
        std::is_sorted(sorted.begin(), sorted.end(), [&](auto a, auto b) { return keys[a] > keys[b]; }));
    std::sort(sorted.begin(), sorted.end());
    for (std::uint32_t i = 0; i < keys.size(); ++i) RC_ASSERT(sorted[i] == i);
    RC_ASSERT(sorted.size() == keys.size());
  }));
}

TEST_CASE("coarse keys preserve the order and distinguish numbers that differ by 1e-6", "[ranking]") {
  CHECK(coarse_key(-0.0) == coarse_key(0.0));
  CHECK(rc::check([](double a, double b) {
    a = std::abs(a);
    b = std::abs(b);
    if (a < b) RC_ASSERT(coarse_key(a) <= coarse_key(b));
    if (a < b * (1 - 1e-6) && b > 1e-300) RC_ASSERT(coarse_key(a) < coarse_key(b));
  }));
}

TEST_CASE("log4 is accurate to a millionth", "[ranking]") {
  for (float x = std::numeric_limits<float>::min(); x < 1e38F; x *= 1.0037F) {
    const Float4 logs = log4(Float4{x, 1, x / 2 + 1e-37F, 0.999999F});
    const double expected = std::log(static_cast<double>(x));
    if (std::abs(static_cast<double>(logs[0]) - expected) > std::max(1e-6, 2e-7 * std::abs(expected)))
      FAIL("ln " << x << " is not " << logs[0]);
    REQUIRE(logs[1] == 0);
    REQUIRE(std::abs(logs[3] + 1e-6F) < 1e-7F);
  }
}
