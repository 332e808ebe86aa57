#include "fcgi/process/respawn.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

namespace freshet {
namespace {

using namespace std::chrono_literals;

TEST_CASE("the delay doubles from 0.1 to 5 seconds", "[process]") {
  CHECK(respawn_delay(1) == 100ms);
  CHECK(respawn_delay(2) == 200ms);
  CHECK(respawn_delay(6) == 3200ms);
  CHECK(respawn_delay(7) == 5s);
  CHECK(respawn_delay(1000) == 5s);
}

// Most forks within a minute if every worker dies at once, over ten minutes.
std::size_t busiest_minute(std::size_t workers) {
  struct Seat {
    int deaths = 0;
    SteadyTime due{};
  };
  std::vector<Seat> seats(workers);
  std::vector<SteadyTime> forks;
  RespawnBudget budget(workers);
  for (SteadyTime now{}; now < SteadyTime{} + 10min; now += 10ms)
    for (Seat& seat : seats) {
      if (now < seat.due || (seat.deaths > 0 && budget.earliest_retry(now) > now)) continue;
      if (seat.deaths > 0) budget.spend(now);
      forks.push_back(now);
      seat.due = now + respawn_delay(++seat.deaths);
    }
  std::size_t most = 0;
  for (auto first = forks.begin(); first != forks.end(); ++first)
    most = std::max(
        most, static_cast<std::size_t>(std::upper_bound(first, forks.end(), *first + 1min - 1ms) - first));
  return most;
}

TEST_CASE("workers that never become ready cause at most twenty forks a minute in total", "[process]") {
  for (const std::size_t workers : {1U, 2U, 4U, 8U, 10U}) {
    CAPTURE(workers);
    CHECK(busiest_minute(workers) <= 20);
  }
  CHECK(busiest_minute(64) <= 64 + 10);  // every worker is tried once
}

TEST_CASE("the budget is restored as the minute passes", "[process]") {
  RespawnBudget budget(2);
  SteadyTime now{};
  for (int i = 0; i < 18; ++i) {
    CHECK(budget.earliest_retry(now) == now);
    budget.spend(now);
    now += 1s;
  }
  CHECK(budget.earliest_retry(now) == SteadyTime{} + 1min);
  CHECK(budget.earliest_retry(SteadyTime{} + 1min) == SteadyTime{} + 1min);
}

}  // namespace
}  // namespace freshet
