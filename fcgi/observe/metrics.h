// /metrics: the state of the pool in the OpenMetrics text format (1.0.0), from the scoreboard only.
// One table defines each family's name, meaning and the shipped alerts (nginx/freshet-alerts.yml)
// that use it; freshet-metrics(7) is generated from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/time.h"
#include "core/config/settings.h"
#include "fcgi/process/scoreboard.h"

namespace freshet::observe {

inline constexpr std::string_view kMetricsContentType =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

enum class MetricType : std::uint8_t { kCounter, kGauge, kHistogram, kInfo };
std::string_view metric_type_name(MetricType type);

// Inputs of a page, read once.
struct MetricView {
  Scoreboard& board;
  const Settings& settings;
  Totals totals;
  RedisKeyStats key_stats;
};

// Writes the samples of one family.
class SampleWriter {
 public:
  SampleWriter(std::string& out, std::string_view family, MetricType type)
      : out_(out), family_(family), type_(type) {}
  // `labels` as between the braces: route="GET /api/hot",status="2xx". Adds _total to a counter's
  // name and _info to an info's.
  void add(std::string_view labels, double value);
  void add(double value) { add({}, value); }
  void add(const HistogramTotals& histogram, std::string_view labels);

 private:
  void write_line(std::string_view suffix, std::string_view labels, double value);
  std::string& out_;
  std::string_view family_;
  MetricType type_;
};

struct MetricFamily {
  std::string_view name;  // without _total, _bucket, _info
  MetricType type;
  std::string_view labels;  // label names, "route, status"; empty: none
  std::string_view help;    // one sentence
  std::string_view alert;   // shipped alerts that use it, "A, B"; empty: none
  void (*write)(SampleWriter& samples, const MetricView& view);
};
std::span<const MetricFamily> metric_families();

// Renders the whole page, with "# EOF". O(slots + routes).
std::string render_metrics(Scoreboard& board, const Settings& settings);

}  // namespace freshet::observe
