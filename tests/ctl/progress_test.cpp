#include "scripts/ctl/commands/progress.h"

#include <catch2/catch.hpp>

#include "scripts/ctl/check/findings.h"
#include "scripts/ctl/replay/latency_histogram.h"

using namespace freshet::ctl;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("numbers are grouped by thousands", "[ctl]") {
  CHECK(format_number(0) == "0");
  CHECK(format_number(999) == "999");
  CHECK(format_number(1000) == "1,000");
  CHECK(format_number(72312) == "72,312");
  CHECK(format_number(-1234567) == "-1,234,567");
}

TEST_CASE("durations have two significant places", "[ctl]") {
  CHECK(format_duration(milliseconds(850)) == "850 ms");
  CHECK(format_duration(milliseconds(4240)) == "4.2 s");
  CHECK(format_duration(seconds(42)) == "42 s");
  CHECK(format_duration(seconds(185)) == "3:05 min");
  CHECK(format_duration(seconds(7629)) == "2:07:09 h");
}

TEST_CASE("a bar shows share, rate and remaining time", "[ctl]") {
  CHECK(progress_bar({31000, 72312, seconds(4), {}}) ==
        "[########............]  42 %  31,000 of 72,312  7,750/s  ETA 5.3 s");
  CHECK(progress_bar({31000, 72312, seconds(4), seconds(90)}) ==
        "[########............]  42 %  31,000 of 72,312  7,750/s  ETA 1:30 min");
  CHECK(progress_bar({31000, 0, seconds(4), {}}) == "31,000  7,750/s");
  CHECK(progress_bar({31000, 72312, seconds(4), {}, 30000}) ==
        "[########............]  42 %  31,000 of 72,312  250/s  ETA 2:45 min");
}

TEST_CASE("a bar is full only when everything is done", "[ctl]") {
  CHECK(progress_bar({9999, 10000, seconds(10), {}}) ==
        "[###################.]  99 %  9,999 of 10,000  1,000/s  ETA 1 ms");
  CHECK(progress_bar({10000, 10000, seconds(10), {}}) ==
        "[####################] 100 %  10,000 of 10,000  1,000/s  ETA 0 ms");
}

TEST_CASE("a bar without a rate shows no remaining time", "[ctl]") {
  CHECK(progress_bar({0, 10, seconds(0), {}}) == "[....................]   0 %  0 of 10  0/s  ETA ?");
}

TEST_CASE("percentiles are accurate to the width of a bucket", "[ctl]") {
  LatencyHistogram latencies;
  CHECK(latencies.percentile(0.5).count() == 0);
  for (int us = 1; us <= 10000; ++us) latencies.add(std::chrono::microseconds(us));
  CHECK(latencies.percentile(0.5).count() == Approx(5000).epsilon(0.012));
  CHECK(latencies.percentile(0.99).count() == Approx(9900).epsilon(0.012));
  CHECK(latencies.percentile(1.0).count() == 10000);
  latencies.add(std::chrono::hours(100));
  CHECK(latencies.percentile(1.0) > std::chrono::minutes(29));
}

TEST_CASE("findings are counted by kind with a few examples, and swept ones do not remain", "[ctl]") {
  Findings findings;
  for (int i = 0; i < 7; ++i) findings.add(kinds::kNoCounters, "hot:rank", "item" + std::to_string(i));
  findings.add(kinds::kUnknownKey, "evil\nkey");
  for (int i = 0; i < 6; ++i) findings.mark_swept(kinds::kNoCounters);
  CHECK(findings.count(kinds::kNoCounters) == 7);
  CHECK(findings.remaining(Level::kStale) == 1);
  CHECK(findings.remaining(Level::kViolation) == 1);
  CHECK(findings.remaining(Level::kSuspicious) == 0);
  const std::string text = findings.text();
  CHECK_THAT(text, Catch::Contains("item4\n") && !Catch::Contains("item5") && Catch::Contains("(6 swept)"));
  CHECK_THAT(text, Catch::Contains("evil\\nkey"));
}
