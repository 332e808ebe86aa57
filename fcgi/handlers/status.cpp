#include "fcgi/handlers/status.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/json.h"

namespace freshet::handlers {

namespace {

using Value = std::variant<std::int64_t, double, std::string>;
using Rows = std::vector<std::pair<std::string_view, Value>>;

std::int64_t number(std::uint64_t value) { return static_cast<std::int64_t>(value); }

std::string_view state_name(WorkerState state, std::uint32_t in_flight) {
  switch (state) {
    case WorkerState::kEmpty:
      return "Empty";
    case WorkerState::kStarting:
      return "Starting";
    case WorkerState::kReady:
      return in_flight > 0 ? "Running" : "Idle";
    case WorkerState::kDraining:
      return "Finishing";
  }
  return "Unknown";
}

struct Activity {
  std::int64_t idle = 0, active = 0, total = 0;
};

Activity activity(Scoreboard& board) {
  Activity counted;
  for (WorkerSlot& slot : board.slots()) {
    const WorkerState state = slot.state.load();
    if (state == WorkerState::kEmpty) continue;
    ++counted.total;
    if (state == WorkerState::kReady && slot.in_flight.load() == 0) {
      ++counted.idle;
    } else {
      ++counted.active;
    }
  }
  return counted;
}

// PHP-FPM's rows, in its order, as far as a pool without a queue of its own has them.
Rows fpm_rows(Scoreboard& board, const Settings& settings, const Totals& totals, UnixSeconds now) {
  const std::int64_t started = board.pool().started_at.load();
  const Activity processes = activity(board);
  return {{"pool", std::string("freshet")},
          {"process manager", std::string("static")},
          {"start time", started},
          {"start since", std::max<std::int64_t>(0, now.time_since_epoch().count() - started)},
          {"accepted conn", number(totals.accepted)},
          {"listen queue len", std::int64_t{settings.pool.listen_backlog}},
          {"idle processes", processes.idle},
          {"active processes", processes.active},
          {"total processes", processes.total}};
}

Rows our_rows(Scoreboard& board, const Totals& totals) {
  PoolCounters& pool = board.pool();
  return {{"generation", number(pool.generation.load())},
          {"reloads", number(pool.reloads.load())},
          {"failed reloads", number(pool.failed_reloads.load())},
          {"respawns", number(pool.respawns.load())},
          {"requests", number(totals.requests)},
          {"connections", number(totals.connections)},
          {"in flight", number(totals.in_flight)},
          {"max in flight", number(totals.max_in_flight)},
          {"queued writes", number(totals.queued_writes)},
          {"redis ready", number(totals.redis_ready)},
          {"redis commands", number(totals.redis_commands)},
          {"redis round trips", number(totals.redis_round_trips)},
          {"redis errors", number(totals.redis_errors)},
          {"redis reconnects", number(totals.redis_reconnects)},
          {"background queued", number(totals.background_queued)},
          {"background age ms", number(totals.background_age_ms)},
          {"background done", number(totals.background_done)},
          {"background dropped", number(totals.background_dropped)},
          {"spooled", number(totals.spooled)},
          {"spooled bytes", number(totals.spooled_bytes)},
          {"replayed", number(totals.replayed)}};
}

std::string_view recorder_state(Scoreboard& board) {
  const CompanionSlot& process = board.recorder();
  if (!process.wanted.load()) return "off";
  if (process.pid.load() == 0) return "away";
  return kRecorderStateNames[static_cast<std::size_t>(board.recorder_report().state.load())];
}

// What does not concern the state is shown in every state: it is what the last recorder left.
Rows recorder_rows(Scoreboard& board) {
  const CompanionSlot& process = board.recorder();
  const RecorderReport& report = board.recorder_report();
  const std::string_view state = recorder_state(board);
  const bool waits = state == "waiting";
  const auto reason = static_cast<std::size_t>(report.reason.load());
  return {{"recorder", std::string(state)},
          {"recorder reason", std::string(waits ? kRecorderReasonNames[reason] : "")},
          {"recorder waiting since", waits ? report.waiting_since.load() : 0},
          {"recorder pid", std::int64_t{process.pid.load()}},
          {"recorder respawns", number(process.respawns.load())},
          {"recorder entries", number(report.entries.load())},
          {"recorder malformed", number(report.malformed.load())},
          {"recorder items", report.items.load()},
          {"recorder last commit", report.last_commit.load()},
          {"recorder lag entries", number(report.lag_entries.load())},
          {"recorder lag age ms", report.lag_age_ms.load()}};
}

// Of all eight days, and of the newest. No rows when Redis did not say.
Rows seen_rows(const feed::SeenStatus* seen) {
  if (seen == nullptr) return {};
  const feed::SeenDay today = seen->days.empty() ? feed::SeenDay() : seen->days.front();
  return {{"seen filter", seen->filter},
          {"seen bytes", number(seen->bytes)},
          {"seen false positive rate", seen->false_positive_rate},
          {"seen impressions today", today.impressions},
          {"seen fill today", today.fill}};
}

Rows worker_rows(WorkerSlot& slot, UnixSeconds now) {
  const std::int64_t started = slot.started_at.load();
  return {{"pid", std::int64_t{slot.pid.load()}},
          {"state", std::string(state_name(slot.state.load(), slot.in_flight.load()))},
          {"start time", started},
          {"start since", std::max<std::int64_t>(0, now.time_since_epoch().count() - started)},
          {"generation", number(slot.generation.load())},
          {"requests", number(slot.requests.load())},
          {"connections", number(slot.connections.load())},
          {"in flight", number(slot.in_flight.load())},
          {"max in flight", number(slot.max_in_flight.load())},
          {"redis ready", number(slot.redis_ready.load())}};
}

void write(json::Writer& writer, const Rows& rows) {
  for (const auto& [name, value] : rows) {
    writer.key(name);
    if (const auto* text = std::get_if<std::string>(&value)) {
      writer.string(*text);
    } else if (const auto* real = std::get_if<double>(&value)) {
      writer.number(*real);
    } else {
      writer.integer(std::get<std::int64_t>(value));
    }
  }
}

void write(std::string& out, const Rows& rows) {
  for (const auto& [name, value] : rows) {
    out.append(name).append(":").append(name.size() < 21 ? 21 - name.size() : 1, ' ');
    if (const auto* text = std::get_if<std::string>(&value)) {
      out.append(*text);
    } else if (const auto* real = std::get_if<double>(&value)) {
      json::Writer(out).number(*real);
    } else {
      out.append(std::to_string(std::get<std::int64_t>(value)));
    }
    out.push_back('\n');
  }
}

}  // namespace

std::string status_json(Scoreboard& board, const Settings& settings, const feed::SeenStatus* seen,
                        UnixSeconds now, bool full) {
  const Totals totals = board.totals();
  std::string out;
  json::Writer writer(out);
  writer.begin_object();
  write(writer, fpm_rows(board, settings, totals, now));
  write(writer, our_rows(board, totals));
  write(writer, recorder_rows(board));
  write(writer, seen_rows(seen));
  writer.key("refused").begin_object();
  for (std::size_t i = 0; i < totals.refused.size(); ++i) {
    writer.key(refusal_name(static_cast<Refusal>(i))).unsigned_integer(totals.refused[i]);
  }
  writer.end_object();
  if (full) {
    writer.key("processes").begin_array();
    for (WorkerSlot& slot : board.slots()) {
      if (slot.state.load() == WorkerState::kEmpty) continue;
      writer.begin_object();
      write(writer, worker_rows(slot, now));
      writer.end_object();
    }
    writer.end_array();
  }
  writer.end_object();
  return out;
}

std::string status_text(Scoreboard& board, const Settings& settings, const feed::SeenStatus* seen,
                        UnixSeconds now, bool full) {
  const Totals totals = board.totals();
  std::string out;
  write(out, fpm_rows(board, settings, totals, now));
  write(out, our_rows(board, totals));
  write(out, recorder_rows(board));
  write(out, seen_rows(seen));
  for (std::size_t i = 0; i < totals.refused.size(); ++i) {
    const std::string name = "refused " + std::string(refusal_name(static_cast<Refusal>(i)));
    write(out, Rows{{name, number(totals.refused[i])}});
  }
  if (!full) return out;
  for (WorkerSlot& slot : board.slots()) {
    if (slot.state.load() == WorkerState::kEmpty) continue;
    out.append("\n************************\n");
    write(out, worker_rows(slot, now));
  }
  return out;
}

}  // namespace freshet::handlers
