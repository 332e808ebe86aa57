#include "fcgi/observe/metrics.h"

#include <catch2/catch.hpp>
#include <regex>
#include <set>

using namespace freshet;
using namespace freshet::observe;

TEST_CASE("Every metric is named as Prometheus wants it and explained in one sentence", "[metrics]") {
  std::set<std::string_view> names;
  for (const Metric& metric : metrics()) {
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

TEST_CASE("A page of metrics is families of samples and an end", "[metrics]") {
  Scoreboard board(2);
  Settings settings;
  board.name_route(1, "GET /api/hot");
  WorkerSlot& slot = board.slots()[0];
  slot.state = WorkerState::kReady;
  slot.routes[1].latency.add(std::chrono::microseconds(300));
  slot.routes[1].status[1] = 1;
  slot.redis_errors_by_class[0] = 3;
  const std::string text = metrics_text(board, settings);
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
  // What was never sampled is not said.
  CHECK(text.find("freshet_hot_members{") == std::string::npos);
  StoreNumbers numbers;
  numbers.taken_at = 1'772'798'400;
  numbers.hot_rank = 42;
  board.sample().numbers.store(numbers);
  const std::string sampled = metrics_text(board, settings);
  CHECK(sampled.find("freshet_hot_members{key=\"hot:rank\"} 42\n") != std::string::npos);
  CHECK(sampled.find("freshet_store_sample_time_seconds 1772798400\n") != std::string::npos);
}
