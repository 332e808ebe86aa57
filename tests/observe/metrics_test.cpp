#include "fcgi/observe/metrics.h"

#include <catch2/catch.hpp>
#include <regex>
#include <set>

using namespace freshet;
using namespace freshet::observe;

TEST_CASE("every metric follows Prometheus' naming rules and has a one-sentence help text", "[metrics]") {
  std::set<std::string_view> names;
  for (const MetricFamily& metric : metric_families()) {
    CAPTURE(metric.name);
    CHECK(names.insert(metric.name).second);
    CHECK(std::regex_match(std::string(metric.name), std::regex("freshet_[a-z][a-z0-9_]*[a-z]")));
    for (const char* end :
         {"_total", "_bucket", "_count", "_sum", "_info", "_ms", "_milliseconds", "_percent"})
      CHECK_FALSE(metric.name.ends_with(end));
    CHECK(metric.help.ends_with('.'));
    CHECK(metric.help.find('\n') == std::string_view::npos);
    if (metric.type == MetricType::kHistogram) CHECK(metric.name.ends_with("_seconds"));
  }
}

TEST_CASE("a metrics page consists of families of samples and an end mark", "[metrics]") {
  Scoreboard board(2);
  Settings settings;
  board.set_route_name(1, "GET /api/hot");
  WorkerSlot& slot = board.slots()[0];
  slot.state = WorkerState::kReady;
  slot.routes[1].latency.add(std::chrono::microseconds(300));
  slot.routes[1].status[1] = 1;
  slot.redis_errors_by_class[0] = 3;
  const std::string text = render_metrics(board, settings);
  CHECK(text.ends_with("\n# EOF\n"));
  for (const char* line :
       {"# TYPE freshet_requests counter\n",
        "freshet_requests_total{route=\"GET /api/hot\",status=\"2xx\"} 1\n",
        "freshet_request_duration_seconds_bucket{route=\"GET /api/hot\",le=\"0.00025\"} 0\n",
        "freshet_request_duration_seconds_bucket{route=\"GET /api/hot\",le=\"0.0005\"} 1\n",
        "freshet_request_duration_seconds_bucket{route=\"GET /api/hot\",le=\"+Inf\"} 1\n",
        "freshet_request_duration_seconds_count{route=\"GET /api/hot\"} 1\n",
        "freshet_request_duration_seconds_sum{route=\"GET /api/hot\"} 0.0003\n",
        "freshet_pool_workers{state=\"idle\"} 1\n", "freshet_redis_errors_total{class=\"away\"} 3\n"}) {
    CAPTURE(line);
    CHECK(text.find(line) != std::string::npos);
  }
  // Values that were never sampled are absent.
  CHECK(text.find("freshet_hot_members{") == std::string::npos);
  RedisKeyStats numbers;
  numbers.sampled_at = 1'772'798'400;
  numbers.hot_rank = 42;
  board.redis_sample().key_stats.store(numbers);
  const std::string sampled = render_metrics(board, settings);
  CHECK(sampled.find("freshet_hot_members{key=\"hot:rank\"} 42\n") != std::string::npos);
  CHECK(sampled.find("freshet_store_sample_time_seconds 1772798400\n") != std::string::npos);
}

namespace {

// Fills a board so that all numbers shown differ.
void fill_with_distinct_values(Scoreboard& board) {
  std::uint64_t next = 1001;
  WorkerSlot& slot = board.slots()[0];
  slot.state = WorkerState::kReady;
  for (auto* const each :
       {&slot.accepted, &slot.slow_requests, &slot.over_budget, &slot.list_hits, &slot.list_misses,
        &slot.redis_commands, &slot.redis_round_trips, &slot.redis_reconnects, &slot.background_queued,
        &slot.background_done, &slot.background_dropped, &slot.spooled_bytes, &slot.spooled, &slot.replayed,
        &slot.background_age_ms, &slot.queued_writes, &slot.rss_bytes, &slot.peak_rss_bytes, &slot.cpu_us})
    *each = next++;
  for (auto* const each : {&slot.connections, &slot.in_flight, &slot.detached})
    *each = static_cast<std::uint32_t>(next++);
  PoolCounters& pool = board.pool();
  for (auto* const each : {&pool.generation, &pool.reloads, &pool.failed_reloads, &pool.respawns,
                           &pool.max_active, &pool.max_children_reached, &pool.emergency_restarts})
    *each = static_cast<std::uint32_t>(next++);
  for (auto* const each :
       {&slot.item_cache_hits, &slot.item_cache_misses, &slot.item_cache_bytes, &slot.invalidations_ignored,
        &slot.feed_impressions, &slot.feed_pages_degraded, &slot.views_of_tracked})
    *each = next++;
  slot.feed_pages = 5000;
}

}  // namespace

TEST_CASE("every family shows its own number, in the unit of its name", "[metrics]") {
  Scoreboard board(2);
  Settings settings;
  fill_with_distinct_values(board);
  const std::string text = render_metrics(board, settings);
  for (const char* line : {"freshet_connections_accepted_total 1001\n",
                           "freshet_requests_slow_total 1002\n",
                           "freshet_requests_over_budget_total 1003\n",
                           "freshet_hot_list_reads_total{result=\"hit\"} 1004\n",
                           "freshet_hot_list_reads_total{result=\"miss\"} 1005\n",
                           "freshet_redis_commands_total 1006\n",
                           "freshet_redis_round_trips_total 1007\n",
                           "freshet_redis_reconnects_total 1008\n",
                           "freshet_background_queue_commands 1009\n",
                           "freshet_background_commands_total{outcome=\"done\"} 1010\n",
                           "freshet_background_commands_total{outcome=\"dropped\"} 1011\n",
                           "freshet_spool_bytes 1012\n",
                           "freshet_background_commands_total{outcome=\"spooled\"} 1013\n",
                           "freshet_background_commands_total{outcome=\"replayed\"} 1014\n",
                           "freshet_background_age_seconds 1.015\n",
                           "freshet_writes_queued_total 1016\n",
                           "freshet_worker_resident_memory_bytes 1017\n",
                           "freshet_worker_peak_memory_bytes 1018\n",
                           "freshet_worker_cpu_seconds_total 0.001019\n",
                           "freshet_connections 1020\n",
                           "freshet_requests_in_flight 1021\n",
                           "freshet_requests_detached 1022\n",
                           "freshet_pool_generation 1023\n",
                           "freshet_pool_reloads_total 1024\n",
                           "freshet_pool_reload_failures_total 1025\n",
                           "freshet_pool_respawns_total 1026\n",
                           "freshet_pool_max_active_workers 1027\n",
                           "freshet_pool_max_children_reached_total 1028\n",
                           "freshet_pool_emergency_restarts_total 1029\n",
                           "freshet_item_cache_reads_total{result=\"hit\"} 1030\n",
                           "freshet_item_cache_reads_total{result=\"miss\"} 1031\n",
                           "freshet_item_cache_bytes 1032\n",
                           "freshet_feed_pages_total{result=\"complete\"} 3965\n",
                           "freshet_feed_pages_total{result=\"degraded\"} 1035\n",
                           "freshet_invalidations_ignored_total 1033\n",
                           "freshet_feed_impressions_total 1034\n",
                           "freshet_views_of_tracked_articles_total 1036\n",
                           "freshet_pool_workers{state=\"busy\"} 1\n",
                           "freshet_pool_workers{state=\"idle\"} 0\n"}) {
    CAPTURE(line, text);
    CHECK(text.find("\n" + std::string(line)) != std::string::npos);
  }
}

TEST_CASE("a duration equal to a bucket's bound is counted in it, a longer one in the next", "[metrics]") {
  Scoreboard board(1);
  board.slots()[0].state = WorkerState::kReady;
  board.slots()[0].routes[0].latency.add(std::chrono::microseconds(50));
  board.slots()[0].routes[0].latency.add(std::chrono::microseconds(51));
  const std::string text = render_metrics(board, Settings());
  const std::string bucket = "freshet_request_duration_seconds_bucket{route=\"none\",le=\"";
  CHECK(text.find(bucket + "5e-05\"} 1\n") != std::string::npos);
  CHECK(text.find(bucket + "0.0001\"} 2\n") != std::string::npos);
}
