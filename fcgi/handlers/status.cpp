#include "fcgi/handlers/status.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <optional>
#include <utility>

#include "core/base/json.h"
#include "fcgi/handlers/status_history.h"
#include "fcgi/handlers/status_rows.h"

namespace freshet::handlers {
namespace {

struct FormatRow {
  std::string_view parameter;
  StatusFormat format;
  std::string_view content_type;
};
constexpr std::array kFormats{
    FormatRow{"html", StatusFormat::kHtml, "text/html; charset=utf-8"},
    FormatRow{"xml", StatusFormat::kXml, "text/xml; charset=utf-8"},
    FormatRow{"json", StatusFormat::kJson, "application/json"},
    FormatRow{"openmetrics", StatusFormat::kOpenMetrics,
              "application/openmetrics-text; version=1.0.0; charset=utf-8"},
    FormatRow{"", StatusFormat::kText, "text/plain; charset=utf-8"},
};

std::string two_digits(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", value);
  return text.data();
}

std::string format_date(std::int64_t at) {
  const std::time_t seconds = at;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%d/%b/%Y:%H:%M:%S %z", &parts)};
}

// Raw for programs; if `human_readable`, a timestamp is written as a date.
std::string format_value(const Row& row, bool human_readable) {
  if (const auto* text = std::get_if<std::string>(&row.value)) return *text;
  if (const auto* integer = std::get_if<std::int64_t>(&row.value)) return std::to_string(*integer);
  if (const auto* at = std::get_if<Timestamp>(&row.value))
    return human_readable ? format_date(at->at) : std::to_string(at->at);
  if (const auto* percent = std::get_if<Percent>(&row.value)) return two_digits(percent->value);
  std::string out;
  json::Writer(out).number(std::get<double>(row.value));
  return out;
}

std::string escape_markup(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out.append("&lt;");
    else if (c == '>')
      out.append("&gt;");
    else if (c == '&')
      out.append("&amp;");
    else if (c == '"')
      out.append("&quot;");
    else if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7F)
      out.push_back('?');
    else
      out.push_back(c);
  }
  return out;
}

struct RowGroup {
  std::string_view name;
  Rows rows;
};
struct StatusContent {
  Rows pool;
  std::vector<RowGroup> groups;
  std::vector<Rows> workers;  // only if `full`
  bool full = false;
  std::optional<std::vector<PoolSample>> history;
};

// --- Text

void write_lines(std::string& out, const Rows& rows, std::string_view prefix = {}) {
  for (const Row& row : rows) {
    // The only name that PHP-FPM spells differently in text.
    const std::string name = std::string(prefix) + (row.name == "request uri" ? "request URI" : row.name);
    out.append(name).append(":").append(name.size() < 21 ? 21 - name.size() : 1, ' ');
    for (const char c : format_value(row, true))
      out.push_back(static_cast<unsigned char>(c) < 0x20 ? '?' : c);
    out.push_back('\n');
  }
}

std::string text_page(const StatusContent& page) {
  std::string out;
  write_lines(out, page.pool);
  for (const RowGroup& group : page.groups) write_lines(out, group.rows, std::string(group.name) + " ");
  for (const Rows& worker : page.workers) {
    out.append("\n************************\n");
    write_lines(out, worker);
  }
  return out;
}

// --- JSON

void write_json(json::Writer& writer, const Rows& rows) {
  for (const Row& row : rows) {
    writer.key(row.name);
    if (const auto* text = std::get_if<std::string>(&row.value)) {
      writer.string(*text);
    } else if (const auto* real = std::get_if<double>(&row.value)) {
      writer.number(*real);
    } else if (const auto* percent = std::get_if<Percent>(&row.value)) {
      writer.number(percent->value);
    } else if (const auto* at = std::get_if<Timestamp>(&row.value)) {
      writer.integer(at->at);
    } else {
      writer.integer(std::get<std::int64_t>(row.value));
    }
  }
}

std::string json_page(const StatusContent& page) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object();
  write_json(writer, page.pool);
  for (const RowGroup& group : page.groups) {
    writer.key(group.name).begin_object();
    write_json(writer, group.rows);
    writer.end_object();
  }
  if (page.full) {
    writer.key("processes").begin_array();
    for (const Rows& worker : page.workers) {
      writer.begin_object();
      write_json(writer, worker);
      writer.end_object();
    }
    writer.end_array();
  }
  if (page.history) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    writer.key("history");
    write_history(writer, *page.history, std::chrono::duration_cast<milliseconds>(now));
  }
  writer.end_object();
  return out;
}

// --- HTML and XML

void write_html(std::string& out, const Rows& rows, const std::string& prefix) {
  for (const Row& row : rows) {
    out.append("<tr><th scope=\"row\">").append(prefix).append(escape_markup(row.name)).append("</th><td>");
    out.append(escape_markup(format_value(row, true))).append("</td></tr>\n");
  }
}

std::string html_page(const StatusContent& page) {
  // In the style of this server's pages; readable without it.
  constexpr std::string_view kTable = "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"";
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Freshet: "
      "status</title>\n"
      "<link rel=\"icon\" href=\"data:,\">\n<link rel=\"stylesheet\" href=\"/freshet.css\"></head>\n<body>\n"
      "<nav aria-label=\"Pages\"><a href=\"/dashboard\">Dashboard</a></nav>\n<main "
      "class=\"docs\">\n<h1>Status</h1>\n";
  out.append(kTable).append("The pool\">\n<table>\n");
  write_html(out, page.pool, {});
  for (const RowGroup& group : page.groups) write_html(out, group.rows, std::string(group.name) + " ");
  out.append("</table></div>\n");
  if (!page.workers.empty()) {
    out.append(kTable).append("Workers\">\n<table>\n<tr>");
    for (const Row& row : page.workers.front())
      out.append("<th scope=\"col\">").append(row.name).append("</th>");
    out.append("</tr>\n");
    for (const Rows& worker : page.workers) {
      out.append("<tr>");
      for (const Row& row : worker)
        out.append("<td>").append(escape_markup(format_value(row, true))).append("</td>");
      out.append("</tr>\n");
    }
    out.append("</table></div>\n");
  }
  return out.append("</main>\n</body></html>\n");
}

void write_xml(std::string& out, const Rows& rows, std::string_view prefix, std::string_view end) {
  for (const Row& row : rows) {
    std::string name = std::string(prefix) + row.name;
    for (char& c : name) c = c == ' ' || c == '_' ? '-' : c;
    out.append("<").append(name).append(">").append(escape_markup(format_value(row, false)));
    out.append("</").append(name).append(">").append(end);
  }
}

std::string xml_page(const StatusContent& page) {
  std::string out = "<?xml version=\"1.0\" ?>\n<status>\n";
  write_xml(out, page.pool, "", "\n");
  for (const RowGroup& group : page.groups) write_xml(out, group.rows, std::string(group.name) + " ", "\n");
  if (page.full) {
    out.append("<processes>\n");
    for (const Rows& worker : page.workers) {
      out.append("<process>");
      write_xml(out, worker, "", "");
      out.append("</process>\n");
    }
    out.append("</processes>\n");
  }
  return out.append("</status>\n");
}

// --- PHP-FPM's own metrics, for existing scrapers

struct FpmMetric {
  std::string_view row, name, type, help;
};
constexpr std::array kFpmMetrics{
    FpmMetric{"start since", "start_since", "counter", "Seconds since the master started."},
    FpmMetric{"accepted conn", "accepted_connections", "counter",
              "The number of connections accepted by the pool."},
    FpmMetric{"listen queue", "listen_queue", "gauge", "The number of connections waiting to be accepted."},
    FpmMetric{"max listen queue", "max_listen_queue", "counter",
              "The maximum number of connections waiting to be accepted since the start."},
    FpmMetric{"listen queue len", "listen_queue_length", "gauge", "The size of the listen queue."},
    FpmMetric{"idle processes", "idle_processes", "gauge", "The number of idle processes."},
    FpmMetric{"active processes", "active_processes", "gauge", "The number of active processes."},
    FpmMetric{"total processes", "total_processes", "gauge", "The number of idle + active processes."},
    FpmMetric{"max active processes", "max_active_processes", "counter",
              "The maximum number of active processes since the start."},
    FpmMetric{"max children reached", "max_children_reached", "counter",
              "How often pm.max_children was reached."},
    FpmMetric{"slow requests", "slow_requests", "counter", "Requests that exceeded request_slowlog_timeout."},
};

std::string openmetrics_page(const StatusContent& page) {
  std::string out = "# HELP phpfpm_up Could the pool be reached?\n# TYPE phpfpm_up gauge\nphpfpm_up 1\n";
  for (const FpmMetric& metric : kFpmMetrics) {
    for (const Row& row : page.pool) {
      if (row.name != metric.row) continue;
      out.append("# HELP phpfpm_").append(metric.name).append(" ").append(metric.help);
      out.append("\n# TYPE phpfpm_").append(metric.name).append(" ").append(metric.type);
      out.append("\nphpfpm_").append(metric.name).append(" ").append(format_value(row, false)).append("\n");
    }
  }
  return out.append("# EOF\n");
}

std::string render_page(const StatusContent& page, StatusFormat format) {
  switch (format) {
    case StatusFormat::kText:
      return text_page(page);
    case StatusFormat::kJson:
      return json_page(page);
    case StatusFormat::kHtml:
      return html_page(page);
    case StatusFormat::kXml:
      return xml_page(page);
    case StatusFormat::kOpenMetrics:
      return openmetrics_page(page);
  }
  return {};
}

}  // namespace

StatusPage status_page(Scoreboard& board, const Settings& settings, UnixSeconds now, StatusFormat format,
                       bool full, bool history) {
  const Totals totals = board.totals();
  StatusContent page{
      .pool = fpm_rows(board, settings, totals, now),
      .groups = {{"refused", refused_rows(totals)}, {"redis failures", redis_error_rows(totals)}},
      .workers = {},
      .full = full,
      .history = {}};
  if (history) page.history = board.history().samples();
  Rows freshet_values = freshet_rows(board, settings, totals);
  page.pool.insert(page.pool.end(), std::make_move_iterator(freshet_values.begin()),
                   std::make_move_iterator(freshet_values.end()));
  if (full) {
    for (const WorkerSlot& slot : board.slots()) {
      if (slot.state.load(std::memory_order_relaxed) != WorkerState::kEmpty)
        page.workers.push_back(worker_rows(board, slot, now));
    }
  }
  for (const FormatRow& row : kFormats) {
    if (row.format == format) return {render_page(page, format), row.content_type};
  }
  return {};
}

StatusFormat parse_status_format(const http::Target& target) {
  for (const FormatRow& row : kFormats) {
    if (!row.parameter.empty() && target.parameter(row.parameter)) return row.format;
  }
  return StatusFormat::kText;
}

}  // namespace freshet::handlers
