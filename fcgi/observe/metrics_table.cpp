// The metric families of /metrics. Names follow Prometheus' conventions: base units, _total for
// counters.
#include <algorithm>
#include <array>
#include <utility>

#include "core/redis/breaker.h"
#include "core/redis/errors.h"
#include "fcgi/observe/metrics.h"
#include "fcgi/process/pool.h"

namespace freshet::observe {
namespace {

using View = MetricView;
double to_double(std::uint64_t value) { return static_cast<double>(value); }
double to_double(std::int64_t value) { return static_cast<double>(value); }
double to_double(std::uint32_t value) { return static_cast<double>(value); }

std::string label(std::string_view name, std::string_view value) {
  return std::string(name).append("=\"").append(value).append("\"");
}

// Writers for single fields of Totals, PoolCounters, RecorderReport and RedisKeyStats.
template <auto kMember>
void total_value(SampleWriter& samples, const View& view) {
  samples.add(to_double(view.totals.*kMember));
}
template <auto kMember>
void pool_value(SampleWriter& samples, const View& view) {
  samples.add(to_double((view.board.pool().*kMember).load(kRelaxed)));
}
template <auto kMember>
void recorder_value(SampleWriter& samples, const View& view) {
  samples.add(to_double((view.board.recorder_report().*kMember).load(kRelaxed)));
}
// No sample before the first reading.
template <auto kMember>
void sampled_value(SampleWriter& samples, const View& view) {
  if (view.key_stats.sampled_at != 0) samples.add(static_cast<double>(view.key_stats.*kMember));
}

// No sample before the first health check of Redis.
void redis_memory(SampleWriter& samples, const View& view, std::int64_t redis::MemoryLevel::*member) {
  const redis::MemoryLevel level = view.board.redis_sample().memory.load();
  if (level.at_ms != 0) samples.add(to_double(level.*member));
}

std::string route_label(const View& view, std::size_t row) {
  return label("route", row == 0 ? "none" : view.board.route_name(row));
}

void build(SampleWriter& samples, const View&) { samples.add(label("version", FRESHET_VERSION), 1); }

void workers(SampleWriter& samples, const View& view) {
  std::array<double, 4> counts{};
  for (const WorkerSlot& slot : view.board.slots()) {
    const WorkerState state = slot.state.load(kRelaxed);
    if (state == WorkerState::kStarting) ++counts[0];
    if (state == WorkerState::kReady) ++counts[is_idle(slot) ? 1 : 2];
    if (state == WorkerState::kDraining) ++counts[3];
  }
  constexpr std::array<std::string_view, 4> kStates{"starting", "idle", "busy", "draining"};
  for (std::size_t i = 0; i < kStates.size(); ++i) samples.add(label("state", kStates[i]), counts[i]);
}

void max_workers(SampleWriter& samples, const View& view) {
  samples.add(static_cast<double>(max_worker_count(view.settings.pool)));
}

void requests(SampleWriter& samples, const View& view) {
  constexpr std::array<std::string_view, 5> kClasses{"1xx", "2xx", "3xx", "4xx", "5xx"};
  for (std::size_t row = 0; row < kMaxRoutes; ++row) {
    if (row != 0 && view.board.route_name(row).empty()) continue;
    for (std::size_t i = 1; i < kClasses.size(); ++i)
      samples.add(route_label(view, row) + "," + label("status", kClasses[i]),
                  to_double(view.totals.routes[row].status[i]));
  }
}

// Only routes that were requested at least once: each has nineteen lines.
void request_durations(SampleWriter& samples, const View& view) {
  for (std::size_t row = 0; row < kMaxRoutes; ++row) {
    const HistogramTotals& latency = view.totals.routes[row].latency;
    if (latency.count() != 0) samples.add(latency, route_label(view, row));
  }
}

void refused(SampleWriter& samples, const View& view) {
  for (std::size_t i = 0; i < view.totals.refused.size(); ++i)
    samples.add(label("reason", refusal_name(static_cast<Refusal>(i))), to_double(view.totals.refused[i]));
}

void redis_errors(SampleWriter& samples, const View& view) {
  for (std::size_t i = 0; i < redis::kErrorClasses; ++i)
    samples.add(label("class", redis::error_class_name(static_cast<redis::ErrorClass>(i))),
                to_double(view.totals.redis_errors_by_class[i]));
}

void breakers(SampleWriter& samples, const View& view) {
  for (std::size_t i = 0; i < view.totals.breakers.size(); ++i)
    samples.add(label("state", redis::breaker_state_name(static_cast<redis::BreakerState>(i))),
                to_double(view.totals.breakers[i]));
}

void list_reads(SampleWriter& samples, const View& view) {
  samples.add(label("result", "hit"), to_double(view.totals.list_hits));
  samples.add(label("result", "miss"), to_double(view.totals.list_misses));
}

void item_cache_reads(SampleWriter& samples, const View& view) {
  samples.add(label("result", "hit"), to_double(view.totals.item_cache_hits));
  samples.add(label("result", "miss"), to_double(view.totals.item_cache_misses));
}

void feed_pages(SampleWriter& samples, const View& view) {
  const std::uint64_t degraded = view.totals.feed_pages_degraded;
  samples.add(label("result", "complete"),
              to_double(view.totals.feed_pages - std::min(degraded, view.totals.feed_pages)));
  samples.add(label("result", "degraded"), to_double(degraded));
}

void background_commands(SampleWriter& samples, const View& view) {
  samples.add(label("outcome", "done"), to_double(view.totals.background_done));
  samples.add(label("outcome", "dropped"), to_double(view.totals.background_dropped));
  samples.add(label("outcome", "spooled"), to_double(view.totals.spooled));
  samples.add(label("outcome", "replayed"), to_double(view.totals.replayed));
}

void hot_members(SampleWriter& samples, const View& view) {
  if (view.key_stats.sampled_at == 0) return;
  const std::array<std::pair<std::string_view, std::int64_t>, 5> keys{
      {{"hot:rank", view.key_stats.hot_rank},
       {"hot:score", view.key_stats.hot_score},
       {"hot:published", view.key_stats.hot_published},
       {"hot:hidden", view.key_stats.hot_hidden},
       {"hot:newest", view.key_stats.hot_newest}}};
  for (const auto& [key, members] : keys) samples.add(label("key", key), to_double(members));
}

// No sample if the recorder is disabled.
void recorder_state(SampleWriter& samples, const View& view) {
  HelperSlot& process = view.board.recorder();
  if (!process.enabled.load(kRelaxed)) return;
  const bool is_running = process.pid.load(kRelaxed) != 0;
  const auto state = static_cast<std::size_t>(view.board.recorder_report().state.load(kRelaxed));
  for (std::size_t i = 0; i < kRecorderStateNames.size(); ++i)
    samples.add(label("state", kRecorderStateNames[i]), is_running && state == i ? 1 : 0);
  samples.add(label("state", "away"), is_running ? 0 : 1);
}

void recorder_restarts(SampleWriter& samples, const View& view) {
  samples.add(to_double(view.board.recorder().respawns.load(kRelaxed)));
}

void recorder_lag(SampleWriter& samples, const View& view) {
  samples.add(static_cast<double>(view.board.recorder_report().lag_age_ms.load(kRelaxed)) / 1e3);
}

void dependency_missing(SampleWriter& samples, const View& view) {
  const std::vector<Dependency> missing =
      missing_dependencies(dependency_state(view.totals), view.board.redis_sample());
  for (std::size_t i = 0; i < kDependencyCount; ++i)
    samples.add(label("what", kDependencyNames[i]),
                std::ranges::count(missing, static_cast<Dependency>(i)) > 0 ? 1 : 0);
}

void model_time(SampleWriter& samples, const View& view) {
  if (view.totals.model_trained_at != 0) samples.add(to_double(view.totals.model_trained_at));
}

constexpr auto kCounter = MetricType::kCounter;
constexpr auto kGauge = MetricType::kGauge;
constexpr auto kHistogram = MetricType::kHistogram;

// clang-format off
constexpr std::array kMetrics{
    MetricFamily{"freshet_build", MetricType::kInfo, "version", "Version of the running service.", "", build},
    MetricFamily{"freshet_start_time_seconds", kGauge, "", "Start time of the master, in unix time.", "", pool_value<&PoolCounters::started_at>},

    MetricFamily{"freshet_pool_workers", kGauge, "state", "Workers by state; a busy one has at least one request in flight.", "FreshetDown, FreshetPoolBusy", workers},
    MetricFamily{"freshet_pool_max_workers", kGauge, "", "pm.max_children, or the number of cores.", "FreshetPoolBusy", max_workers},
    MetricFamily{"freshet_pool_max_active_workers", kGauge, "", "Most workers busy at once since the start.", "", pool_value<&PoolCounters::max_active>},
    MetricFamily{"freshet_pool_max_children_reached", kCounter, "", "Times that more workers were needed than pm.max_children allows.", "", pool_value<&PoolCounters::max_children_reached>},
    MetricFamily{"freshet_pool_generation", kGauge, "", "Serving generation; each reload starts a new one.", "", pool_value<&PoolCounters::generation>},
    MetricFamily{"freshet_pool_reloads", kCounter, "", "Successful reloads.", "", pool_value<&PoolCounters::reloads>},
    MetricFamily{"freshet_pool_reload_failures", kCounter, "", "Failed reloads; the old generation keeps serving.", "FreshetReloadFailed", pool_value<&PoolCounters::failed_reloads>},
    MetricFamily{"freshet_pool_respawns", kCounter, "", "Workers that died unexpectedly and were replaced.", "FreshetWorkersCrashing", pool_value<&PoolCounters::respawns>},
    MetricFamily{"freshet_pool_emergency_restarts", kCounter, "", "New generations started because too many workers crashed.", "", pool_value<&PoolCounters::emergency_restarts>},
    MetricFamily{"freshet_worker_resident_memory_bytes", kGauge, "", "Total resident memory of the running workers.", "", total_value<&Totals::rss_bytes>},
    MetricFamily{"freshet_worker_peak_memory_bytes", kGauge, "", "Highest resident memory of any worker.", "", total_value<&Totals::peak_rss_bytes>},
    MetricFamily{"freshet_worker_cpu_seconds", kCounter, "", "CPU time of all workers, ended ones included.", "", [](SampleWriter& samples, const View& view) { samples.add(to_double(view.totals.cpu_us) / 1e6); }},

    MetricFamily{"freshet_connections_accepted", kCounter, "", "Connections accepted from nginx.", "", total_value<&Totals::accepted>},
    MetricFamily{"freshet_connections", kGauge, "", "Open connections.", "", total_value<&Totals::connections>},
    MetricFamily{"freshet_requests_in_flight", kGauge, "", "Requests in flight.", "", total_value<&Totals::in_flight>},
    MetricFamily{"freshet_requests_detached", kGauge, "", "Of these, requests already answered because their time budget was used up, whose handler still runs.", "", total_value<&Totals::detached>},
    MetricFamily{"freshet_requests", kCounter, "route, status", "Requests answered, by route (none: no route matched) and status class.", "FreshetErrors", requests},
    MetricFamily{"freshet_request_duration_seconds", kHistogram, "route", "Time from the first byte of a request until its response is ready to send.", "FreshetSlow", request_durations},
    MetricFamily{"freshet_requests_slow", kCounter, "", "Requests that took longer than request_slowlog_timeout.", "", total_value<&Totals::slow_requests>},
    MetricFamily{"freshet_requests_over_budget", kCounter, "", "Requests answered early because gateway.request_budget or bulk_budget was used up.", "FreshetOverBudget", total_value<&Totals::over_budget>},
    MetricFamily{"freshet_requests_refused", kCounter, "reason", "Requests refused or not counted, by reason.", "", refused},
    MetricFamily{"freshet_writes_queued", kCounter, "", "Writes answered with 202, to be applied when Redis is available.", "", total_value<&Totals::queued_writes>},
    MetricFamily{"freshet_event_loop_iteration_seconds", kHistogram, "", "Duration of event loop iterations; a ready connection waits for the current one before it is accepted or read.", "FreshetLoopLag", [](SampleWriter& samples, const View& view) { samples.add(view.totals.loop_iterations, {}); }},
    MetricFamily{"freshet_hot_list_reads", kCounter, "result", "Hot lists read, from the worker's snapshot (hit) or not (miss).", "FreshetHotListMisses", list_reads},
    MetricFamily{"freshet_views_of_tracked_articles", kCounter, "", "Views by POST /api/views of articles whose page views count as views, too (views.from_track); a reader reported by both counts twice.", "", total_value<&Totals::views_of_tracked>},
    MetricFamily{"freshet_dependency_missing", kGauge, "what", "1: no worker has this dependency; /health/ready answers 503 if ready.require lists it.", "FreshetIndexUnavailable", dependency_missing},
    MetricFamily{"freshet_feed_pages", kCounter, "result", "Feed pages, complete or degraded (Redis or the index was unavailable, or the page could not be stored).", "", feed_pages},
    MetricFamily{"freshet_item_cache_reads", kCounter, "result", "Item data read, from the worker's cache (hit) or from Redis (miss).", "", item_cache_reads},
    MetricFamily{"freshet_item_cache_bytes", kGauge, "", "Memory of the running workers' item caches.", "", total_value<&Totals::item_cache_bytes>},
    MetricFamily{"freshet_feed_impressions", kCounter, "", "Items on pages of the feed and of recommendations; a repeated feed page counts once.", "", total_value<&Totals::feed_impressions>},
    MetricFamily{"freshet_invalidations_ignored", kCounter, "", "Messages on the channel hot:epoch that Freshet did not send, counted by each worker that received them.", "", total_value<&Totals::invalidations_ignored>},

    MetricFamily{"freshet_redis_ready_workers", kGauge, "", "Workers with a ready connection to Redis.", "FreshetRedisDown", total_value<&Totals::redis_ready>},
    MetricFamily{"freshet_redis_breaker_workers", kGauge, "state", "Workers by the state of their circuit breaker.", "", breakers},
    MetricFamily{"freshet_redis_commands", kCounter, "", "Commands sent for requests.", "", total_value<&Totals::redis_commands>},
    MetricFamily{"freshet_redis_round_trips", kCounter, "", "Pipelines sent for requests.", "", total_value<&Totals::redis_round_trips>},
    MetricFamily{"freshet_redis_round_trip_duration_seconds", kHistogram, "", "Time from sending a pipeline until its last reply was read.", "FreshetRedisSlow", [](SampleWriter& samples, const View& view) { samples.add(view.totals.redis_latency, {}); }},
    MetricFamily{"freshet_redis_errors", kCounter, "class", "Failed pipelines and error replies, by class.", "FreshetRedisErrors", redis_errors},
    MetricFamily{"freshet_redis_reconnects", kCounter, "", "Reconnections to Redis.", "", total_value<&Totals::redis_reconnects>},
    MetricFamily{"freshet_redis_lost_time_seconds", kGauge, "", "Time when Redis was found to have lost its items, in unix time; 0: it has them.", "FreshetRedisLost", [](SampleWriter& samples, const View& view) { samples.add(to_double(view.board.redis_sample().data_lost_since.load(kRelaxed))); }},
    MetricFamily{"freshet_redis_used_memory_bytes", kGauge, "", "used_memory of Redis.", "FreshetRedisFilling", [](SampleWriter& samples, const View& view) { redis_memory(samples, view, &redis::MemoryLevel::used); }},
    MetricFamily{"freshet_redis_max_memory_bytes", kGauge, "", "maxmemory of Redis; 0: no limit.", "FreshetRedisFilling", [](SampleWriter& samples, const View& view) { redis_memory(samples, view, &redis::MemoryLevel::max); }},
    MetricFamily{"freshet_redis_full", kGauge, "", "1: Redis is nearly full, and public writes are spooled.", "FreshetRedisFull", [](SampleWriter& samples, const View& view) { redis_memory(samples, view, &redis::MemoryLevel::full); }},
    MetricFamily{"freshet_redis_full_in_seconds", kGauge, "", "Time until Redis is nearly full if memory keeps growing as in the last one to two hours; absent while it does not grow.", "FreshetRedisFilling",
           [](SampleWriter& samples, const View& view) { if (const auto left = redis::hours_until_full(view.board.redis_sample().memory.load())) samples.add(3600 * *left); }},

    MetricFamily{"freshet_background_queue_commands", kGauge, "", "Commands and rank updates that wait to be written asynchronously.", "", total_value<&Totals::background_queued>},
    MetricFamily{"freshet_background_age_seconds", kGauge, "", "Age of the oldest queued command or spooled event.", "FreshetSpoolOld", [](SampleWriter& samples, const View& view) { samples.add(to_double(view.totals.background_age_ms) / 1e3); }},
    MetricFamily{"freshet_background_commands", kCounter, "outcome", "Asynchronous commands by outcome: done, dropped for good, spooled, or replayed from a spool.", "FreshetWritesLost", background_commands},
    MetricFamily{"freshet_spool_bytes", kGauge, "", "Bytes in the spool files of running workers.", "FreshetSpoolFilling", total_value<&Totals::spooled_bytes>},
    MetricFamily{"freshet_spool_max_bytes", kGauge, "", "Maximum size of one worker's spool file.", "FreshetSpoolFilling", [](SampleWriter& samples, const View& view) { samples.add(static_cast<double>(view.settings.spool.max_bytes)); }},

    MetricFamily{"freshet_store_sample_time_seconds", kGauge, "", "Time of the last reading of the key statistics below, in unix time.", "FreshetSampleStale", sampled_value<&RedisKeyStats::sampled_at>},
    MetricFamily{"freshet_hot_members", kGauge, "key", "Members of the keys hot:rank, hot:score, hot:published, hot:hidden, hot:newest.", "FreshetHotScoreFull", hot_members},
    MetricFamily{"freshet_hot_max_members", kGauge, "", "list.max_members: beyond it the lowest members of hot:rank and hot:score are removed.", "FreshetHotScoreFull", [](SampleWriter& samples, const View& view) { samples.add(to_double(view.settings.list.max_members)); }},
    MetricFamily{"freshet_recorder_stream_entries", kGauge, "", "Entries of the recorder's stream, over all partitions.", "", sampled_value<&RedisKeyStats::stream_entries>},
    MetricFamily{"freshet_recorder_stream_fill_ratio", kGauge, "", "Fill ratio of the fullest partition's stream; at 1, writes of its items are answered with 503.", "FreshetStreamFilling", sampled_value<&RedisKeyStats::stream_fill>},
    MetricFamily{"freshet_seen_filter_bytes", kGauge, "", "Memory of the seen-filter, over all days.", "", sampled_value<&RedisKeyStats::seen_bytes>},
    MetricFamily{"freshet_seen_filter_fill_ratio", kGauge, "", "Impressions in today's filter relative to its capacity.", "FreshetSeenFilterFull", sampled_value<&RedisKeyStats::seen_fill_today>},
    MetricFamily{"freshet_seen_filter_false_positive_ratio", kGauge, "", "Estimated share of unseen items that are treated as seen.", "", sampled_value<&RedisKeyStats::seen_false_positive_rate>},
    MetricFamily{"freshet_seen_impressions_today", kGauge, "", "Estimated number of impressions in today's filter.", "", sampled_value<&RedisKeyStats::seen_impressions_today>},

    MetricFamily{"freshet_recorder_state", kGauge, "state", "1 for the recorder's current state.", "FreshetRecorderDown", recorder_state},
    MetricFamily{"freshet_recorder_lag_entries", kGauge, "", "Stream entries that the recorder has not read.", "", recorder_value<&RecorderReport::lag_entries>},
    MetricFamily{"freshet_recorder_lag_seconds", kGauge, "", "Age of the oldest of these entries.", "FreshetRecorderLagging", recorder_lag},
    MetricFamily{"freshet_recorder_entries", kCounter, "", "Entries committed by the recorder.", "", recorder_value<&RecorderReport::entries>},
    MetricFamily{"freshet_recorder_malformed", kCounter, "", "Of these, malformed entries that were skipped.", "", recorder_value<&RecorderReport::malformed>},
    MetricFamily{"freshet_recorder_items", kGauge, "", "Items in the recorder's database.", "", recorder_value<&RecorderReport::items>},
    MetricFamily{"freshet_recorder_last_commit_time_seconds", kGauge, "", "Time of the last commit, in unix time; 0: none yet.", "", recorder_value<&RecorderReport::last_commit>},
    MetricFamily{"freshet_recorder_restarts", kCounter, "", "Recorders that died and were restarted.", "", recorder_restarts},

    MetricFamily{"freshet_index_documents", kGauge, "", "Documents in the search index; absent while it cannot be searched.", "",
           [](SampleWriter& samples, const View& view) { if (view.totals.index_documents >= 0) samples.add(to_double(view.totals.index_documents)); }},
    MetricFamily{"freshet_model_trained_time_seconds", kGauge, "", "Training time of the model in use, in unix time; the oldest if workers differ.", "FreshetModelStale", model_time},
};
// clang-format on

}  // namespace

std::span<const MetricFamily> metric_families() { return kMetrics; }

}  // namespace freshet::observe
