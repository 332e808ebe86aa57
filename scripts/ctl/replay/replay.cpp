#include "scripts/ctl/replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/base/json.h"
#include "scripts/ctl/commands/json_report.h"
#include "scripts/ctl/commands/print.h"
#include "scripts/ctl/replay/past_lists.h"
#include "scripts/ctl/replay/player.h"
#include "scripts/ctl/replay/timing.h"

namespace freshet::ctl {
namespace {

constexpr std::size_t kListLength = 20;

Result<std::optional<UnixSeconds>> time_option(const std::string& text) {
  if (text.empty()) return std::optional<UnixSeconds>();
  auto at = parse_time(text, wall_now());
  if (!at) return fail(ErrorCode::kInvalid, "bad_time", {}, text + " is neither RFC 3339 nor Unix seconds");
  return std::optional<UnixSeconds>(*at);
}

Result<Selection> make_selection(const ReplayOptions& options) {
  FRESHET_TRY(from, time_option(options.from));
  FRESHET_TRY(until, time_option(options.until));
  Selection selection{*from, *until, options.types};
  if (options.limit > 0 && options.at.empty()) selection.limit = static_cast<std::size_t>(options.limit);
  return selection;
}

std::int64_t count_of(const ReplayTotals& totals, ReportOutcome outcome) {
  return totals.by_outcome[static_cast<std::size_t>(outcome)];
}

// "12 (400: 10, 429: 2)"
std::string status_breakdown(const ReplayTotals& totals, ReportOutcome outcome) {
  std::string parts;
  for (const auto& [status, times] : totals.refusals) {
    if ((outcome == ReportOutcome::kRefused) != (status >= 400 && status < 500)) continue;
    parts += fmt::format("{}{}: {}", parts.empty() ? " (" : ", ", status, format_number(times));
  }
  return format_number(count_of(totals, outcome)) + (parts.empty() ? "" : parts + ")");
}

double to_ms(LatencyHistogram::Microseconds span) { return span.count() / 1000; }

void print_totals(const Player& player, const std::vector<LogEvent>& log, const ReplayOptions& options) {
  const ReplayTotals& totals = player.totals();
  const double s = std::max(1e-9, std::chrono::duration<double>(player.elapsed()).count());
  ctl::print("replayed {} events in {} ({} requests/s), {} to {} at speed {}", format_number(totals.events),
             format_duration(player.elapsed()),
             format_number(static_cast<std::int64_t>(static_cast<double>(totals.sent) / s)),
             to_rfc3339(log.front().at), to_rfc3339(log.back().at), options.speed);
  if (options.shift_to_now)
    ctl::print(", shifted by {:.1f} days", static_cast<double>(player.shift().count()) / 86400);
  if (options.loop) ctl::print(", {} complete rounds", totals.rounds);
  ctl::print("\n  requests   {}: counted {}, dedup {}, bots {}, queued {}\n", format_number(totals.sent),
             format_number(count_of(totals, ReportOutcome::kCounted)),
             format_number(count_of(totals, ReportOutcome::kDedup)),
             format_number(count_of(totals, ReportOutcome::kBot)),
             format_number(count_of(totals, ReportOutcome::kQueued)));
  ctl::print("  refused    4xx {}; others {}; no reply {}; repeated {}\n",
             status_breakdown(totals, ReportOutcome::kRefused),
             status_breakdown(totals, ReportOutcome::kFailed), format_number(totals.lost),
             format_number(totals.resent));
  ctl::print("  latency    p50 {:.2f} ms, p99 {:.2f} ms, max {:.2f} ms\n",
             to_ms(totals.latencies.percentile(0.5)), to_ms(totals.latencies.percentile(0.99)),
             to_ms(totals.latencies.max()));
}

void print_json_totals(const Player& player) {
  const ReplayTotals& totals = player.totals();
  report_json([&](json::Writer& out) {
    out.key("events").integer(totals.events).key("requests").integer(totals.sent);
    out.key("rounds")
        .integer(totals.rounds)
        .key("counted")
        .integer(count_of(totals, ReportOutcome::kCounted));
    out.key("dedup")
        .integer(count_of(totals, ReportOutcome::kDedup))
        .key("bots")
        .integer(count_of(totals, ReportOutcome::kBot));
    out.key("queued").integer(count_of(totals, ReportOutcome::kQueued)).key("refused");
    out.integer(count_of(totals, ReportOutcome::kRefused))
        .key("failed")
        .integer(count_of(totals, ReportOutcome::kFailed));
    out.key("lost").integer(totals.lost).key("resent").integer(totals.resent);
    out.key("p50_ms").number(to_ms(totals.latencies.percentile(0.5)));
    out.key("p99_ms").number(to_ms(totals.latencies.percentile(0.99)));
    out.key("seconds").number(to_seconds(player.elapsed()));
    out.key("interrupted").boolean(player.interrupted());
  });
}

int exit_status(const Player& player, const ReplayOptions& options) {
  if (player.interrupted()) return 1;
  const ReplayTotals& totals = player.totals();
  const std::int64_t refused =
      count_of(totals, ReportOutcome::kRefused) + count_of(totals, ReportOutcome::kFailed);
  if (options.strict && refused + totals.lost > 0) return 1;
  return totals.sent > refused ? 0 : 1;
}

using PublishTimes = std::unordered_map<std::string, UnixSeconds>;

Result<int> send_all(const EventLog& log, const PublishTimes& published, const ReplayOptions& options,
                     const Target& target) {
  FRESHET_TRY(address, http_address(target));
  auto speed = parse_speed(options.speed);
  if (!speed) return fail(ErrorCode::kInvalid, "bad_speed", {}, "--speed must be a number above 0, or max");
  PlayOptions play;
  play.speed = *speed;
  play.connections = options.connections;
  if (options.route != "views") play.routes.push_back(Route::kTrack);
  if (options.route != "track") play.routes.push_back(Route::kViews);
  play.shift_to_now = options.shift_to_now;
  play.loop = options.loop;
  play.event_ids = options.event_ids;
  play.quiet = options.quiet;
  play.user_agent = options.user_agent;
  Player player(log.events, published, *address, play);
  auto played = player.play();
  if (!played && player.totals().sent == 0) return tl::unexpected(played.error());
  if (options.json)
    print_json_totals(player);
  else
    print_totals(player, log.events, options);
  if (!played) return tl::unexpected(played.error());
  return exit_status(player, options);
}

void print_list(const std::vector<PastScore>& list, const EventLog& log, bool as_json) {
  std::string out;
  json::Writer writer(out);
  writer.begin_array();
  int place = 0;
  if (!as_json) ctl::print("{:>4}  {:>12}  {:>7}  {:>6}  item\n", "", "score", "pv", "uv");
  for (const PastScore& each : list) {
    const auto item = log.items.find(each.item);
    const std::string title = item == log.items.end() ? std::string() : item->second.title;
    if (as_json) {
      writer.begin_object().key("id").string(each.item).key("score").number(each.score);
      writer.key("pv").integer(each.pv).key("uv").integer(each.uv);
      if (!title.empty()) writer.key("title").string(title);
      writer.end_object();
    } else {
      ctl::print("{:>4}  {:>12.6g}  {:>7}  {:>6}  {}  {}\n", ++place, each.score, format_number(each.pv),
                 format_number(each.uv), printable(each.item), printable(title));
    }
  }
  writer.end_array();
  if (as_json) print_json_line(out);
}

Result<int> list_at(const EventLog& log, const ReplayOptions& options, const Target& target) {
  FRESHET_TRY(at, time_option(options.at));
  FRESHET_TRY(settings, load_settings(target));
  const std::size_t limit = options.limit > 0 ? static_cast<std::size_t>(options.limit) : kListLength;
  const auto mode = options.mode == "current" ? PastMode::kCurrent : PastMode::kAccumulate;
  print_list(options.model == "views" ? views_list_at(log, **at, mode, *settings, limit)
                                      : engagement_list_at(log, **at, *settings, limit),
             log, options.json);
  return 0;
}

}  // namespace

Result<int> run_replay(const ReplayOptions& options, const Target& target) {
  FRESHET_TRY(selection, make_selection(options));
  FRESHET_TRY(log, read_log(options.log));
  // Before filtering: an item's age follows from the whole log.
  const auto published = publish_times(*log);
  derive_sessions(log->events);
  log->events = filter_events(std::move(log->events), *selection);
  if (log->events.empty())
    return fail(ErrorCode::kInvalid, "empty_log", {}, options.log + " has no matching events");
  return options.at.empty() ? send_all(*log, published, options, target) : list_at(*log, options, target);
}

}  // namespace freshet::ctl
