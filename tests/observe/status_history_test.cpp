// The pool's five-minute history: samples and the values derived from them.
#include "fcgi/handlers/status_history.h"

#include <catch2/catch.hpp>

#include "fcgi/process/scoreboard.h"

using namespace freshet;

namespace {

using Column = std::vector<std::optional<double>>;

struct RenderedHistory {
  std::string text;
  json::Document document;
  RenderedHistory(const std::vector<PoolSample>& samples, std::int64_t now_ms) {
    json::Writer writer(text);
    handlers::write_history(writer, samples, milliseconds(now_ms));
    REQUIRE(document.parse(text, {8, 100'000}));
  }
  Column column(const char* name) const {
    Column values;
    const json::Value elements = document.root()[name];
    for (const json::Value value : elements.elements()) values.push_back(value.number());
    return values;
  }
};

PoolSample make_sample(std::int64_t at_ms, std::uint64_t requests = 0) {
  PoolSample result;
  result.at_ms = at_ms;
  result.requests = requests;
  return result;
}

constexpr std::optional<double> kNone;

}  // namespace

TEST_CASE("a sample contains the pool's counters, dead workers included", "[history]") {
  Scoreboard board(2);
  WorkerSlot& slot = board.slots()[0];
  slot.state = WorkerState::kReady;
  slot.requests = 7;
  slot.routes[2].latency.add(std::chrono::microseconds(400));
  slot.routes[3].latency.add(std::chrono::microseconds(400));
  slot.routes[3].status[3] = 2;
  slot.routes[2].status[4] = 1;
  slot.queued_writes = 5;
  slot.replayed = 3;
  board.retire(slot);
  slot.state = WorkerState::kReady;
  board.recorder_report().lag_entries = 9;
  const PoolSample pool_sample = sample_pool(board, milliseconds(5));
  CHECK(pool_sample.at_ms == 5);
  CHECK(pool_sample.requests == 7);
  CHECK(pool_sample.latency[duration_bucket(std::chrono::microseconds(400))] == 2);
  CHECK(pool_sample.client_errors == 2);
  CHECK(pool_sample.server_errors == 1);
  CHECK(pool_sample.queued_writes == 2);
  CHECK(pool_sample.recorder_lag == 9);
  CHECK(pool_sample.idle + pool_sample.active == 1);
}

TEST_CASE("the ring keeps the newest five minutes in order and drops samples that come too soon",
          "[history]") {
  auto history = std::make_unique<PoolHistory>();
  CHECK(history->samples().empty());
  const std::int64_t step = milliseconds(kHistoryInterval).count();
  for (std::int64_t i = 1; i <= 500; ++i) {
    history->add(make_sample(i * step, static_cast<std::uint64_t>(i)));
    history->add(make_sample(i * step + step / 2 - 1));
    const auto samples_kept = history->samples();
    REQUIRE(samples_kept.back().requests == static_cast<std::uint64_t>(i));
    REQUIRE(std::ranges::is_sorted(samples_kept, {}, &PoolSample::at_ms));
  }
  const auto samples_kept = history->samples();
  CHECK(samples_kept.front().at_ms == 500 * step - milliseconds(kHistorySpan + kHistoryRateWindow).count());
  CHECK(RenderedHistory(samples_kept, 500 * step).column("ms ago").size() == 101);
  CHECK(RenderedHistory(samples_kept, 500 * step).column("requests").front() ==
        0.333);  // not null: an older sample was kept for it
}

TEST_CASE("rates cover nine seconds, or the time since the last sample", "[history]") {
  std::vector<PoolSample> samples{make_sample(1000, 10), make_sample(4000, 40), make_sample(7000, 40),
                                  make_sample(10000, 100), make_sample(13000, 190)};
  samples.push_back(make_sample(73000, 250));
  const RenderedHistory written(samples, 73500);
  CHECK(written.column("ms ago") == Column{72500, 69500, 66500, 63500, 60500, 500});
  CHECK(written.column("requests") == Column{kNone, 10, 5, 10, 16.667, 1});
  CHECK(written.column("degraded percent") == Column{kNone, kNone, kNone, kNone, kNone, kNone});
  CHECK(written.column("recorder lag entries").size() == 6);
}

TEST_CASE("percentiles cover the interval between samples and interpolate within a bucket", "[history]") {
  PoolSample before = make_sample(0), after = make_sample(3000);
  before.latency[2] = 1000;
  after.latency[2] = 1000;
  after.latency[6] = 90;  // 2.5 to 5 ms
  after.latency[8] = 10;  // 10 to 25 ms
  after.redis_latency.back() = 1;
  const RenderedHistory written({before, after}, 3000);
  CHECK(written.column("p50 ms")[1] == Approx(2.5 + 2.5 * 50 / 90).margin(0.001));
  CHECK(written.column("p99 ms")[1] == Approx(10 + 15 * 0.9).margin(0.001));
  CHECK(written.column("redis p50 ms") == Column{kNone, 30000});
}

TEST_CASE("percentages cover the interval between samples and are null without requests", "[history]") {
  PoolSample before = make_sample(0), after = make_sample(3000);
  before.list_hits = 100;
  after.list_hits = 103;
  after.list_misses = 1;
  after.feed_pages = 4;
  after.feed_pages_degraded = 1;
  const RenderedHistory written({before, after}, 3000);
  CHECK(written.column("hot list hits percent") == Column{kNone, 75});
  CHECK(written.column("card hits percent") == Column{kNone, kNone});
  CHECK(written.column("degraded percent") == Column{kNone, 25});
}
