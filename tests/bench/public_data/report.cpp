#include "tests/bench/public_data/report.h"

#include <fmt/format.h>

#include "core/base/json.h"

namespace freshet::bench {
namespace {

std::string format_value(double value, const std::string& unit) {
  if (unit == "bytes") return fmt::format("{:.2f} MB", value / 1e6);
  if (unit == "us") return fmt::format("{:.0f} us", value);
  if (unit == "s") return fmt::format("{:.2f} s", value);
  return fmt::format("{:.4f}", value);
}

std::string format_value(const std::optional<double>& value, const std::string& unit) {
  return value ? format_value(*value, unit) : "";
}

bool is_reached(const Metric& metric, const std::optional<double>& goal) {
  return goal && (metric.less_is_better ? metric.value <= *goal : metric.value >= *goal);
}

const char* verdict(const Metric& metric) {
  if (!metric.must) return "";
  if (is_reached(metric, metric.stretch)) return "stretch";
  return is_reached(metric, metric.must) ? "reached" : "MISSED";
}

}  // namespace

std::string EvaluationReport::table() const {
  std::string out = title_ + "\n";
  const auto row = [&](const auto&... cells) {
    out += fmt::format("  {:<5}{:<44}{:>12}{:>12}{:>12}  {}\n", cells...);
  };
  row("goal", "measure", "value", "must", "stretch", "");
  for (const Metric& metric : metrics_) {
    row(metric.goal, metric.name, format_value(metric.value, metric.unit),
        format_value(metric.must, metric.unit), format_value(metric.stretch, metric.unit), verdict(metric));
  }
  for (const std::string& note : notes_) out += "  " + note + "\n";
  return out;
}

std::string EvaluationReport::json() const {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("metrics").begin_array();
  for (const Metric& metric : metrics_) {
    writer.begin_object().key("goal").string(metric.goal).key("name").string(metric.name);
    writer.key("value").number(metric.value);
    if (!metric.unit.empty()) writer.key("unit").string(metric.unit);
    writer.end_object();
  }
  writer.end_array().key("notes").begin_array();
  for (const std::string& note : notes_) writer.string(note);
  writer.end_array().end_object();
  return out + "\n";
}

}  // namespace freshet::bench
