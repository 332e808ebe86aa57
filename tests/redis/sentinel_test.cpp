#include "core/redis/sentinel.h"

#include <catch2/catch.hpp>
#include <chrono>

#include "core/async/event_loop.h"

using namespace freshet;
using namespace std::chrono_literals;

TEST_CASE("Without sentinels the resolver schedules no lookup", "[sentinel]") {
  EventLoop loop;
  redis::SentinelResolver finder(loop, {});
  finder.start();
  CHECK_FALSE(loop.next_timer_due());
}
