// Timelines (seed 004) on a real Redis, with and without hash tags.
#include <iostream>

#include "tests/store/waterfall_fixture.h"

using namespace freshet;
using namespace freshet::test;

TEST_CASE("the seed's walk: the newest page, down to what came since, up to what is older", "[waterfall]") {
  for (const bool tags : {false, true}) {
    CAPTURE(tags);
    Waterfall site(tags);
    CHECK(site.push(count(100, 115)).pushed == 16);
    const auto first = site.first();
    CHECK(ids_of(first) == count(115, 111));
    CHECK(first.has_more);
    CHECK(first.newer == 0);
    CHECK(site.push(count(116, 124)).pushed == 9);
    const auto down = site.down(first.drop);
    CHECK(ids_of(down) == count(120, 116));
    CHECK(down.has_more);
    CHECK(down.newer == 4);
    const auto up = site.up(first.up);
    CHECK(ids_of(up) == count(110, 106));
    CHECK(up.has_more);
    const auto down_again = site.down(down.drop);
    CHECK(ids_of(down_again) == count(124, 121));
    CHECK_FALSE(down_again.has_more);
    CHECK(down_again.newer == 0);
    CHECK(ids_of(site.up(up.up)) == count(105, 101));
    for (const auto& page : {first, down, up, down_again}) {
      CHECK(page.drop == page.items.front().score);
      CHECK(page.up == page.items.back().score);
      CHECK_FALSE(page.trimmed);
    }
  }
}
