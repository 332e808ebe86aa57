#include "fcgi/handlers/status_rows.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "fcgi/handlers/served_list.h"

namespace freshet::handlers {
namespace {

std::int64_t to_int64(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::int64_t seconds_since(UnixSeconds now, std::int64_t then) {
  return std::max<std::int64_t>(0, now.time_since_epoch().count() - then);
}

std::string fpm_state_name(const WorkerSlot& slot) {
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
  const HelperSlot& process = board.recorder();
  if (!process.enabled.load(kRelaxed)) return "off";
  if (process.pid.load(kRelaxed) == 0) return "away";
  return kRecorderStateNames[static_cast<std::size_t>(board.recorder_report().state.load(kRelaxed))];
}

// Rows that do not depend on the state are reported in every state, as the last recorder left them.
Rows recorder_rows(Scoreboard& board) {
  const HelperSlot& process = board.recorder();
  const RecorderReport& report = board.recorder_report();
  const std::string_view state = recorder_state(board);
  const bool is_waiting = state == "waiting";
  const auto reason = static_cast<std::size_t>(report.reason.load(kRelaxed));
  return {{"recorder", std::string(state)},
          {"recorder reason", std::string(is_waiting ? kRecorderPauseReasonNames[reason] : "")},
          {"recorder holder", std::string(board.redis_sample().recorder_owner.load().data())},
          {"recorder waiting since", is_waiting ? report.paused_since.load(kRelaxed) : std::int64_t{0}},
          {"recorder pid", std::int64_t{process.pid.load(kRelaxed)}},
          {"recorder respawns", to_int64(process.respawns.load(kRelaxed))},
          {"recorder entries", to_int64(report.entries.load(kRelaxed))},
          {"recorder malformed", to_int64(report.malformed.load(kRelaxed))},
          {"recorder items", report.items.load(kRelaxed)},
          {"recorder last commit", report.last_commit.load(kRelaxed)},
          {"recorder lag entries", to_int64(report.lag_entries.load(kRelaxed))},
          {"recorder lag age ms", report.lag_age_ms.load(kRelaxed)},
          {"recorder reindexed items", report.reindexed_items.load(kRelaxed)},
          {"recorder items to reindex", report.items_to_reindex.load(kRelaxed)}};
}

// Rows that a worker sampled from Redis some seconds ago. Empty before the first sample.
Rows sampled_rows(Scoreboard& board) {
  const RedisKeyStats numbers = board.redis_sample().key_stats.load();
  if (numbers.sampled_at == 0) return {};
  return {{"sampled at", numbers.sampled_at},
          {"redis server", std::string(numbers.server.data())},
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

// How full Redis is, and in how many hours it will be full if that can be predicted.
Rows memory_rows(Scoreboard& board) {
  const redis::MemoryLevel level = board.redis_sample().memory.load();
  if (level.at_ms == 0) return {};
  Rows rows{{"redis used bytes", level.used}, {"redis max bytes", level.max}, {"redis full", level.full}};
  if (const auto hours_left = redis::hours_until_full(level))
    rows.push_back({"redis full in hours", *hours_left});
  return rows;
}

void append(Rows& rows, Rows more) {
  rows.insert(rows.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

Rows redis_rows(const Totals& totals) {
  return {{"redis ready", to_int64(totals.redis_ready)},
          {"redis commands", to_int64(totals.redis_commands)},
          {"redis round trips", to_int64(totals.redis_round_trips)},
          {"redis errors", to_int64(totals.redis_errors)},
          {"redis reconnects", to_int64(totals.redis_reconnects)},
          {"redis p99 us", totals.redis_latency.quantile_us(0.99)},
          {"redis breakers open", to_int64(totals.breakers[1] + totals.breakers[2])}};
}

// For a request in progress, the time so far.
std::int64_t duration_us(const RequestSnapshot& request, bool running) {
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
  // As in PHP-FPM, every worker that is not idle is active, including starting and finishing ones.
  return {{"pool", std::string("freshet")},
          {"process manager", settings.pool.pm_mode},
          {"start time", Timestamp{started}},
          {"start since", seconds_since(now, started)},
          {"accepted conn", to_int64(totals.accepted)},
          {"listen queue", to_int64(pool.listen_queue.load(kRelaxed))},
          {"max listen queue", to_int64(pool.max_listen_queue.load(kRelaxed))},
          {"listen queue len", std::int64_t{settings.pool.listen_backlog}},
          {"idle processes", std::int64_t{idle}},
          {"active processes", std::int64_t{totals.workers} - idle},
          {"total processes", std::int64_t{totals.workers}},
          {"max active processes", to_int64(pool.max_active.load(kRelaxed))},
          {"max children reached", to_int64(pool.max_children_reached.load(kRelaxed))},
          {"slow requests", to_int64(totals.slow_requests)}};
}

Rows freshet_rows(Scoreboard& board, const Settings& settings, const Totals& totals) {
  PoolCounters& pool = board.pool();
  Rows rows{{"memory peak", to_int64(totals.peak_rss_bytes)},
            {"generation", to_int64(pool.generation.load(kRelaxed))},
            {"reloads", to_int64(pool.reloads.load(kRelaxed))},
            {"failed reloads", to_int64(pool.failed_reloads.load(kRelaxed))},
            {"last reload", pool.reloaded_at.load(kRelaxed)},
            {"respawns", to_int64(pool.respawns.load(kRelaxed))},
            {"emergency restarts", to_int64(pool.emergency_restarts.load(kRelaxed))},
            {"requests", to_int64(totals.requests)},
            {"connections", to_int64(totals.connections)},
            {"in flight", to_int64(totals.in_flight)},
            {"max in flight", to_int64(totals.max_in_flight)},
            {"late", to_int64(totals.detached)},
            {"over budget", to_int64(totals.over_budget)},
            {"accept lag p99 us", totals.loop_iterations.quantile_us(0.99)},
            {"queued writes", to_int64(totals.queued_writes)},
            {"hot list", model_text(default_list(settings), settings)},
            {"feed", feed_text(settings.recall)},
            {"hot list tuned at", unix_s(settings.tuned_at)},
            {"hot list hits", to_int64(totals.list_hits)},
            {"hot list misses", to_int64(totals.list_misses)},
            {"card hits", to_int64(totals.item_cache_hits)},
            {"card misses", to_int64(totals.item_cache_misses)},
            {"card bytes", to_int64(totals.item_cache_bytes)},
            {"items shown", to_int64(totals.feed_impressions)},
            {"views of tracked articles", to_int64(totals.views_of_tracked)},
            {"feed pages", to_int64(totals.feed_pages)},
            {"feed pages degraded", to_int64(totals.feed_pages_degraded)},
            {"announcements ignored", to_int64(totals.invalidations_ignored)}};
  append(rows, redis_rows(totals));
  append(rows, {{"redis lost since", board.redis_sample().data_lost_since.load(kRelaxed)},
                {"background queued", to_int64(totals.background_queued)},
                {"background age ms", to_int64(totals.background_age_ms)},
                {"background done", to_int64(totals.background_done)},
                {"background dropped", to_int64(totals.background_dropped)},
                {"spooled", to_int64(totals.spooled)},
                {"spooled bytes", to_int64(totals.spooled_bytes)},
                {"replayed", to_int64(totals.replayed)},
                {"index ready", to_int64(totals.index_ready)},
                {"index documents", totals.index_documents},
                {"model ready", to_int64(totals.model_ready)},
                {"model trained at", totals.model_trained_at},
                {"missing", join_dependency_names(
                                missing_dependencies(dependency_state(totals), board.redis_sample()))}});
  append(rows, memory_rows(board));
  append(rows, recorder_rows(board));
  append(rows, sampled_rows(board));
  return rows;
}

Rows refused_rows(const Totals& totals) {
  Rows rows;
  for (std::size_t i = 0; i < totals.refused.size(); ++i)
    rows.push_back({std::string(refusal_name(static_cast<Refusal>(i))), to_int64(totals.refused[i])});
  return rows;
}

Rows redis_error_rows(const Totals& totals) {
  Rows rows;
  for (std::size_t i = 0; i < totals.redis_errors_by_class.size(); ++i)
    rows.push_back({std::string(redis::error_class_name(static_cast<redis::ErrorClass>(i))),
                    to_int64(totals.redis_errors_by_class[i])});
  return rows;
}

Rows worker_rows(const Scoreboard& board, const WorkerSlot& slot, UnixSeconds now) {
  const std::int64_t started = slot.started_at.load(kRelaxed);
  const RequestSnapshot request = slot.request.load();
  return {{"pid", std::int64_t{slot.pid.load(kRelaxed)}},
          {"state", fpm_state_name(slot)},
          {"start time", Timestamp{started}},
          {"start since", seconds_since(now, started)},
          {"requests", to_int64(slot.requests.load(kRelaxed))},
          {"request duration", duration_us(request, slot.in_flight.load(kRelaxed) != 0)},
          {"request method", or_dash(request.method.data())},
          {"request uri", or_dash(request.path.data())},
          {"content length", request.content_length},
          {"user", std::string("-")},
          {"script", std::string("-")},
          {"last request cpu", Percent{static_cast<double>(slot.cpu_permille.load(kRelaxed)) / 10}},
          {"last request memory", to_int64(slot.rss_bytes.load(kRelaxed))},
          {"generation", to_int64(slot.generation.load(kRelaxed))},
          {"stage", board.phase_text(slot)},
          {"connections", to_int64(slot.connections.load(kRelaxed))},
          {"in flight", to_int64(slot.in_flight.load(kRelaxed))},
          {"max in flight", to_int64(slot.max_in_flight.load(kRelaxed))},
          {"late", to_int64(slot.detached.load(kRelaxed))},
          {"slow requests", to_int64(slot.slow_requests.load(kRelaxed))},
          {"redis ready", to_int64(slot.redis_ready.load(kRelaxed))}};
}

}  // namespace freshet::handlers
