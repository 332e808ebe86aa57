#include "fcgi/observe/metrics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace freshet::observe {
namespace {

void append_double(std::string& out, double value) {
  if (std::isnan(value)) {
    out.append("NaN");
    return;
  }
  std::array<char, 32> text{};
  // Integers in full, others as Prometheus writes them: 1772798400, 0.0003, 5e-05.
  char* const last = text.data() + text.size();
  const auto end = value == std::floor(value)
                       ? std::to_chars(text.data(), last, value, std::chars_format::fixed).ptr
                       : std::to_chars(text.data(), last, value, std::chars_format::general).ptr;
  out.append(text.data(), end);
}

// OpenMetrics' canonical form of a bucket bound, the same bytes everywhere: 5e-05, 0.0001, 1.0.
void append_bound(std::string& out, std::int64_t bound_us) {
  std::array<char, 32> text{};
  const double seconds = static_cast<double>(bound_us) / 1e6;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), seconds, std::chars_format::general).ptr;
  out.append(text.data(), end);
  if (bound_us % 1'000'000 == 0) out.append(".0");
}

constexpr std::array<std::string_view, 4> kTypeNames{"counter", "gauge", "histogram", "info"};
constexpr std::array<std::string_view, 4> kSuffixes{"_total", "", "", "_info"};

}  // namespace

std::string_view metric_type_name(MetricType type) { return kTypeNames[static_cast<std::size_t>(type)]; }

void SampleWriter::write_line(std::string_view suffix, std::string_view labels, double value) {
  out_.append(family_).append(suffix);
  if (!labels.empty()) out_.append("{").append(labels).append("}");
  out_.push_back(' ');
  append_double(out_, value);
  out_.push_back('\n');
}

void SampleWriter::add(std::string_view labels, double value) {
  write_line(kSuffixes[static_cast<std::size_t>(type_)], labels, value);
}

void SampleWriter::add(const HistogramTotals& histogram, std::string_view labels) {
  std::uint64_t cumulative = 0;
  std::string with_bound;
  for (std::size_t i = 0; i < kDurationBuckets; ++i) {
    cumulative += histogram.counts[i];
    with_bound.assign(labels).append(labels.empty() ? "le=\"" : ",le=\"");
    if (i < kDurationBounds.size()) {
      append_bound(with_bound, kDurationBounds[i]);
    } else {
      with_bound.append("+Inf");
    }
    with_bound.append("\"");
    write_line("_bucket", with_bound, static_cast<double>(cumulative));
  }
  write_line("_count", labels, static_cast<double>(cumulative));
  write_line("_sum", labels, static_cast<double>(histogram.sum_us) / 1e6);
}

std::string render_metrics(Scoreboard& board, const Settings& settings) {
  const MetricView view{board, settings, board.totals(), board.redis_sample().key_stats.load()};
  std::string out;
  out.reserve(64UL * 1024);
  for (const MetricFamily& metric : metric_families()) {
    out.append("# TYPE ").append(metric.name).append(" ").append(metric_type_name(metric.type)).append("\n");
    out.append("# HELP ").append(metric.name).append(" ").append(metric.help).append("\n");
    SampleWriter samples(out, metric.name, metric.type);
    metric.write(samples, view);
  }
  out.append("# EOF\n");
  return out;
}

}  // namespace freshet::observe
