#include "core/items/covisits.h"

#include <catch2/catch.hpp>

using namespace freshet;

TEST_CASE("reads after an item are stored as text", "[items]") {
  const std::vector<items::Covisit> written{{ItemId::trusted("a b"), 497222.25}, {ItemId::trusted("c"), -3}};
  const auto read = items::parse_covisits(items::encode_covisits(written));
  REQUIRE(read.size() == 2);
  CHECK(read[0].next.str() == "a b");
  CHECK(read[0].recent == 497222.25);
  CHECK(read[1].next.str() == "c");
  CHECK(read[1].recent == -3);
  CHECK(items::parse_covisits("").empty());
  CHECK(items::parse_covisits("a").empty());
  CHECK(items::parse_covisits("a\x1fnan\x1f\x1f"
                              "2\x1f"
                              "b\x1f"
                              "1e400\x1f"
                              "c\x1f"
                              "5")
            .size() == 1);
}

TEST_CASE("a read after an item counts half after an hour", "[items]") {
  const UnixSeconds now{seconds{1'790'000'000}};
  const double recent = std::log2(6.0) + 1'790'000'000 / 3600.0;
  CHECK(items::covisit_weight(recent, now) == Approx(6));
  CHECK(items::covisit_weight(recent, now + seconds(3600)) == Approx(3));
  CHECK(items::covisit_weight(recent, now - seconds(10 * 365 * 86400)) == std::exp2(40));
  CHECK(items::covisit_weight(-1e300, now) == 0);
}
