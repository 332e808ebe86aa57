#include "fcgi/handlers/status_rows.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace freshet::handlers {
namespace {

std::int64_t number(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::int64_t since(UnixSeconds now, std::int64_t then) {
  return std::max<std::int64_t>(0, now.time_since_epoch().count() - then);
}

std::string state_name(const WorkerSlot& slot) {
  switch (slot.state.load(kRelaxed)) {
    case WorkerState::kEmpty:
      return "Empty";
    case WorkerState::kStarting:
      return "Starting";
    case WorkerState::kReady:
      return is_idle(slot) ? "Idle" : "Running";
    case WorkerState::kDraining:
      return "Finishing";
  }
  return "Unknown";
}

std::string_view recorder_state(Scoreboard& board) {
  const CompanionSlot& process = board.recorder();
  if (!process.wanted.load(kRelaxed)) return "off";
  if (process.pid.load(kRelaxed) == 0) return "away";
  return kRecorderStateNames[static_cast<std::size_t>(board.recorder_report().state.load(kRelaxed))];
}

// What does not concern the state is shown in every state: it is what the last recorder left.
Rows recorder_rows(Scoreboard& board) {
  const CompanionSlot& process = board.recorder();
  const RecorderReport& report = board.recorder_report();
  const std::string_view state = recorder_state(board);
  const bool waits = state == "waiting";
  const auto reason = static_cast<std::size_t>(report.reason.load(kRelaxed));
  return {{"recorder", std::string(state)},
          {"recorder reason", std::string(waits ? kRecorderPauseReasonNames[reason] : "")},
          {"recorder holder", std::string(board.sample().recorder_holder.load().data())},
          {"recorder waiting since", waits ? report.paused_since.load(kRelaxed) : std::int64_t{0}},
          {"recorder pid", std::int64_t{process.pid.load(kRelaxed)}},
          {"recorder respawns", number(process.respawns.load(kRelaxed))},
          {"recorder entries", number(report.entries.load(kRelaxed))},
          {"recorder malformed", number(report.malformed.load(kRelaxed))},
          {"recorder items", report.items.load(kRelaxed)},
          {"recorder last commit", report.last_commit.load(kRelaxed)},
          {"recorder lag entries", number(report.lag_entries.load(kRelaxed))},
          {"recorder lag age ms", report.lag_age_ms.load(kRelaxed)}};
}

// What a worker read of Redis some seconds ago. No rows before the first time.
Rows sampled_rows(Scoreboard& board) {
  const StoreNumbers numbers = board.sample().numbers.load();
  if (numbers.taken_at == 0) return {};
  return {{"sampled at", numbers.taken_at},
          {"hot rank", numbers.hot_rank},
          {"hot published", numbers.hot_published},
          {"hot hidden", numbers.hot_hidden},
          {"stream entries", numbers.stream_entries},
          {"seen filter", std::string(numbers.seen_filter.data())},
          {"seen bytes", numbers.seen_bytes},
          {"seen false positive rate", numbers.seen_false_positive_rate},
          {"seen impressions today", numbers.seen_impressions_today},
          {"seen fill today", numbers.seen_fill_today}};
}

// How full Redis is, and when that is foreseen: when it will be.
Rows memory_rows(Scoreboard& board) {
  const redis::MemoryLevel level = board.sample().memory.load();
  if (level.at_ms == 0) return {};
  Rows rows{{"redis used bytes", level.used}, {"redis max bytes", level.max}, {"redis full", level.full}};
  if (const auto left = redis::hours_until_full(level)) rows.push_back({"redis full in hours", *left});
  return rows;
}

void append(Rows& rows, Rows more) {
  rows.insert(rows.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

Rows redis_rows(const Totals& totals) {
  return {{"redis ready", number(totals.redis_ready)},
          {"redis commands", number(totals.redis_commands)},
          {"redis round trips", number(totals.redis_round_trips)},
          {"redis errors", number(totals.redis_errors)},
          {"redis reconnects", number(totals.redis_reconnects)},
          {"redis p99 us", totals.redis_latency.quantile_us(0.99)},
          {"redis breakers open", number(totals.breakers[1] + totals.breakers[2])}};
}

// Of a request that is still inside: until now.
std::int64_t duration_us(const ShownRequest& request, bool running) {
  if (request.duration_us != 0 || request.received_us == 0 || !running) return request.duration_us;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count() - request.received_us;
}

std::string or_dash(const char* text) { return *text == '\0' ? "-" : text; }

}  // namespace

Rows fpm_rows(Scoreboard& board, const Settings& settings, const Totals& totals, UnixSeconds now) {
  PoolCounters& pool = board.pool();
  const std::int64_t started = pool.started_at.load(kRelaxed);
  const auto slots = board.slots();
  const auto idle = std::ranges::count_if(slots, is_idle);
  // Whoever is not idle is active, as PHP-FPM counts: also one that starts or finishes.
  return {{"pool", std::string("freshet")},
          {"process manager", settings.pool.pm_mode},
          {"start time", Moment{started}},
          {"start since", since(now, started)},
          {"accepted conn", number(totals.accepted)},
          {"listen queue", number(pool.listen_queue.load(kRelaxed))},
          {"max listen queue", number(pool.max_listen_queue.load(kRelaxed))},
          {"listen queue len", std::int64_t{settings.pool.listen_backlog}},
          {"idle processes", std::int64_t{idle}},
          {"active processes", std::int64_t{totals.workers} - idle},
          {"total processes", std::int64_t{totals.workers}},
          {"max active processes", number(pool.max_active.load(kRelaxed))},
          {"max children reached", number(pool.max_children_reached.load(kRelaxed))},
          {"slow requests", number(totals.slow_requests)}};
}

Rows our_rows(Scoreboard& board, const Totals& totals) {
  PoolCounters& pool = board.pool();
  Rows rows{{"memory peak", number(totals.peak_rss_bytes)},
            {"generation", number(pool.generation.load(kRelaxed))},
            {"reloads", number(pool.reloads.load(kRelaxed))},
            {"failed reloads", number(pool.failed_reloads.load(kRelaxed))},
            {"last reload", pool.reloaded_at.load(kRelaxed)},
            {"respawns", number(pool.respawns.load(kRelaxed))},
            {"emergency restarts", number(pool.emergency_restarts.load(kRelaxed))},
            {"requests", number(totals.requests)},
            {"connections", number(totals.connections)},
            {"in flight", number(totals.in_flight)},
            {"max in flight", number(totals.max_in_flight)},
            {"late", number(totals.late)},
            {"over budget", number(totals.over_budget)},
            {"accept lag p99 us", totals.turns.quantile_us(0.99)},
            {"queued writes", number(totals.queued_writes)},
            {"hot list hits", number(totals.list_hits)},
            {"hot list misses", number(totals.list_misses)},
            {"card hits", number(totals.card_hits)},
            {"card misses", number(totals.card_misses)},
            {"card bytes", number(totals.card_bytes)},
            {"items shown", number(totals.shown)},
            {"feed pages", number(totals.feed_pages)},
            {"feed pages degraded", number(totals.feed_pages_degraded)},
            {"announcements ignored", number(totals.announcements_ignored)}};
  append(rows, redis_rows(totals));
  append(rows, {{"redis lost since", board.sample().lost_since.load(kRelaxed)},
                {"background queued", number(totals.background_queued)},
                {"background age ms", number(totals.background_age_ms)},
                {"background done", number(totals.background_done)},
                {"background dropped", number(totals.background_dropped)},
                {"spooled", number(totals.spooled)},
                {"spooled bytes", number(totals.spooled_bytes)},
                {"replayed", number(totals.replayed)},
                {"index ready", number(totals.index_ready)},
                {"index documents", totals.index_documents},
                {"model ready", number(totals.model_ready)},
                {"model trained at", totals.model_trained_at},
                {"missing", join_dependency_names(missing(has_of(totals), board.sample()))}});
  append(rows, memory_rows(board));
  append(rows, recorder_rows(board));
  append(rows, sampled_rows(board));
  return rows;
}

Rows refused_rows(const Totals& totals) {
  Rows rows;
  for (std::size_t i = 0; i < totals.refused.size(); ++i)
    rows.push_back({std::string(refusal_name(static_cast<Refusal>(i))), number(totals.refused[i])});
  return rows;
}

Rows redis_error_rows(const Totals& totals) {
  Rows rows;
  for (std::size_t i = 0; i < totals.redis_errors_by_class.size(); ++i)
    rows.push_back({std::string(redis::error_class_name(static_cast<redis::ErrorClass>(i))),
                    number(totals.redis_errors_by_class[i])});
  return rows;
}

Rows worker_rows(const Scoreboard& board, const WorkerSlot& slot, UnixSeconds now) {
  const std::int64_t started = slot.started_at.load(kRelaxed);
  const ShownRequest request = slot.request.load();
  return {{"pid", std::int64_t{slot.pid.load(kRelaxed)}},
          {"state", state_name(slot)},
          {"start time", Moment{started}},
          {"start since", since(now, started)},
          {"requests", number(slot.requests.load(kRelaxed))},
          {"request duration", duration_us(request, slot.in_flight.load(kRelaxed) != 0)},
          {"request method", or_dash(request.method.data())},
          {"request uri", or_dash(request.path.data())},
          {"content length", request.content_length},
          {"user", std::string("-")},
          {"script", std::string("-")},
          {"last request cpu", Percent{static_cast<double>(slot.cpu_permille.load(kRelaxed)) / 10}},
          {"last request memory", number(slot.rss_bytes.load(kRelaxed))},
          {"generation", number(slot.generation.load(kRelaxed))},
          {"stage", board.stage_text(slot)},
          {"connections", number(slot.connections.load(kRelaxed))},
          {"in flight", number(slot.in_flight.load(kRelaxed))},
          {"max in flight", number(slot.max_in_flight.load(kRelaxed))},
          {"late", number(slot.late.load(kRelaxed))},
          {"slow requests", number(slot.slow_requests.load(kRelaxed))},
          {"redis ready", number(slot.redis_ready.load(kRelaxed))}};
}

}  // namespace freshet::handlers
