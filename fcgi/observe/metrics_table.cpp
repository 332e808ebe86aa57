// The families of /metrics. Names as Prometheus wants them: base units, _total for what only grows.
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

// A number of Totals, or of what is sampled, as it is.
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
// Nothing before the first sample.
template <auto kMember>
void sampled_value(SampleWriter& samples, const View& view) {
  if (view.key_stats.sampled_at != 0) samples.add(static_cast<double>(view.key_stats.*kMember));
}

// Nothing before the first look at Redis.
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

// Of routes that were asked for at least once: each is nineteen lines.
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

// Of one that is off there is nothing to say.
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
  const std::vector<Dependency> missing = missing_dependencies(dependency_state(view.totals), view.board.redis_sample());
  for (std::size_t i = 0; i < kDependencyCount; ++i)
    samples.add(label("what", kDependencyNames[i]), std::ranges::count(missing, static_cast<Dependency>(i)) > 0 ? 1 : 0);
}

void model_time(SampleWriter& samples, const View& view) {
  if (view.totals.model_trained_at != 0) samples.add(to_double(view.totals.model_trained_at));
}

constexpr auto kCounter = MetricType::kCounter;
constexpr auto kGauge = MetricType::kGauge;
constexpr auto kHistogram = MetricType::kHistogram;

// clang-format off
constexpr std::array kMetrics{
    MetricFamily{"freshet_build", MetricType::kInfo, "version", "The version that runs.", "", build},
    MetricFamily{"freshet_start_time_seconds", kGauge, "", "When the master started, in unix time.", "", pool_value<&PoolCounters::started_at>},

    MetricFamily{"freshet_pool_workers", kGauge, "state", "Workers by state; a busy one has at least one request inside.", "FreshetDown, FreshetPoolBusy", workers},
    MetricFamily{"freshet_pool_max_workers", kGauge, "", "pm.max_children, or the number of cores.", "FreshetPoolBusy", max_workers},
    MetricFamily{"freshet_pool_max_active_workers", kGauge, "", "The most workers that were busy at once since the start.", "", pool_value<&PoolCounters::max_active>},
    MetricFamily{"freshet_pool_max_children_reached", kCounter, "", "How often more workers were wanted than pm.max_children allows.", "", pool_value<&PoolCounters::max_children_reached>},
    MetricFamily{"freshet_pool_generation", kGauge, "", "The generation that serves; each reload makes a new one.", "", pool_value<&PoolCounters::generation>},
    MetricFamily{"freshet_pool_reloads", kCounter, "", "Reloads that succeeded.", "", pool_value<&PoolCounters::reloads>},
    MetricFamily{"freshet_pool_reload_failures", kCounter, "", "Reloads that were given up; the old generation serves on.", "FreshetReloadFailed", pool_value<&PoolCounters::failed_reloads>},
    MetricFamily{"freshet_pool_respawns", kCounter, "", "Workers that died without being asked to, and were replaced.", "FreshetWorkersCrashing", pool_value<&PoolCounters::respawns>},
    MetricFamily{"freshet_pool_emergency_restarts", kCounter, "", "New generations because too many workers died by a signal.", "", pool_value<&PoolCounters::emergency_restarts>},
    MetricFamily{"freshet_worker_resident_memory_bytes", kGauge, "", "Resident memory of the living workers together.", "", total_value<&Totals::rss_bytes>},
    MetricFamily{"freshet_worker_peak_memory_bytes", kGauge, "", "The most resident memory that any one worker ever had.", "", total_value<&Totals::peak_rss_bytes>},
    MetricFamily{"freshet_worker_cpu_seconds", kCounter, "", "Processor time of all workers, those that ended included.", "", [](SampleWriter& samples, const View& view) { samples.add(to_double(view.totals.cpu_us) / 1e6); }},

    MetricFamily{"freshet_connections_accepted", kCounter, "", "Connections taken from nginx.", "", total_value<&Totals::accepted>},
    MetricFamily{"freshet_connections", kGauge, "", "Connections that are open.", "", total_value<&Totals::connections>},
    MetricFamily{"freshet_requests_in_flight", kGauge, "", "Requests inside the workers.", "", total_value<&Totals::in_flight>},
    MetricFamily{"freshet_requests_detached", kGauge, "", "Of these, answered already because their budget was used up; they still wait for something.", "", total_value<&Totals::detached>},
    MetricFamily{"freshet_requests", kCounter, "route, status", "Requests answered, by route (none: no route matched) and class of status.", "FreshetErrors", requests},
    MetricFamily{"freshet_request_duration_seconds", kHistogram, "route", "From the first byte of a request until its reply was handed over.", "FreshetSlow", request_durations},
    MetricFamily{"freshet_requests_slow", kCounter, "", "Requests that took longer than request_slowlog_timeout.", "", total_value<&Totals::slow_requests>},
    MetricFamily{"freshet_requests_over_budget", kCounter, "", "Requests answered because gateway.request_budget or bulk_budget was used up.", "FreshetOverBudget", total_value<&Totals::over_budget>},
    MetricFamily{"freshet_requests_refused", kCounter, "reason", "Requests refused or not counted, by reason.", "", refused},
    MetricFamily{"freshet_writes_queued", kCounter, "", "Writes answered 202: they wait for Redis.", "", total_value<&Totals::queued_writes>},
    MetricFamily{"freshet_event_loop_iteration_seconds", kHistogram, "", "Turns of the workers' loops: a connection that becomes ready waits for the one under way, to be accepted or read.", "FreshetLoopLag", [](SampleWriter& samples, const View& view) { samples.add(view.totals.loop_iterations, {}); }},
    MetricFamily{"freshet_hot_list_reads", kCounter, "result", "Hot lists from the worker's snapshot (hit), or not (miss).", "FreshetHotListMisses", list_reads},
    MetricFamily{"freshet_dependency_missing", kGauge, "what", "1: no worker has it; ready.require says what /health/ready answers 503 without.", "FreshetIndexUnavailable", dependency_missing},
    MetricFamily{"freshet_feed_pages", kCounter, "result", "Pages of the feed, complete or degraded: Redis or the index was away, or nothing could be kept.", "", feed_pages},
    MetricFamily{"freshet_item_cache_reads", kCounter, "result", "What is shown of an item, from the worker's memory (hit), or read from Redis (miss).", "", item_cache_reads},
    MetricFamily{"freshet_item_cache_bytes", kGauge, "", "Memory that the living workers use for it.", "", total_value<&Totals::item_cache_bytes>},
    MetricFamily{"freshet_feed_impressions", kCounter, "", "Items on pages of feeds; what a page repeats counts once.", "", total_value<&Totals::feed_impressions>},
    MetricFamily{"freshet_invalidations_ignored", kCounter, "", "Messages on the channel hot:epoch that Freshet did not send, by the workers that got them.", "", total_value<&Totals::invalidations_ignored>},

    MetricFamily{"freshet_redis_ready_workers", kGauge, "", "Workers whose connection to Redis is ready.", "FreshetRedisDown", total_value<&Totals::redis_ready>},
    MetricFamily{"freshet_redis_breaker_workers", kGauge, "state", "Workers by the state of their breaker.", "", breakers},
    MetricFamily{"freshet_redis_commands", kCounter, "", "Commands sent for requests.", "", total_value<&Totals::redis_commands>},
    MetricFamily{"freshet_redis_round_trips", kCounter, "", "Pipelines sent for requests.", "", total_value<&Totals::redis_round_trips>},
    MetricFamily{"freshet_redis_round_trip_duration_seconds", kHistogram, "", "From a pipeline's sending until its last reply was read.", "FreshetRedisSlow", [](SampleWriter& samples, const View& view) { samples.add(view.totals.redis_latency, {}); }},
    MetricFamily{"freshet_redis_errors", kCounter, "class", "Pipelines that failed, and error replies, by class.", "FreshetRedisErrors", redis_errors},
    MetricFamily{"freshet_redis_reconnects", kCounter, "", "Connections made anew.", "", total_value<&Totals::redis_reconnects>},
    MetricFamily{"freshet_redis_lost_time_seconds", kGauge, "", "When Redis was found to have lost its items, in unix time; 0: it has them.", "FreshetRedisLost", [](SampleWriter& samples, const View& view) { samples.add(to_double(view.board.redis_sample().data_lost_since.load(kRelaxed))); }},
    MetricFamily{"freshet_redis_used_memory_bytes", kGauge, "", "used_memory of Redis.", "FreshetRedisFilling", [](SampleWriter& samples, const View& view) { redis_memory(samples, view, &redis::MemoryLevel::used); }},
    MetricFamily{"freshet_redis_max_memory_bytes", kGauge, "", "maxmemory of Redis; 0: it has none.", "FreshetRedisFilling", [](SampleWriter& samples, const View& view) { redis_memory(samples, view, &redis::MemoryLevel::max); }},
    MetricFamily{"freshet_redis_full", kGauge, "", "1: Redis has little room, and what the public writes waits in the spool.", "FreshetRedisFull", [](SampleWriter& samples, const View& view) { redis_memory(samples, view, &redis::MemoryLevel::full); }},
    MetricFamily{"freshet_redis_full_in_seconds", kGauge, "", "Until that is so, if memory grows on as in the last hour or two; absent while it does not grow.", "FreshetRedisFilling",
           [](SampleWriter& samples, const View& view) { if (const auto left = redis::hours_until_full(view.board.redis_sample().memory.load())) samples.add(3600 * *left); }},

    MetricFamily{"freshet_background_queue_commands", kGauge, "", "Commands, and articles' places, that wait to be written behind the reply.", "", total_value<&Totals::background_queued>},
    MetricFamily{"freshet_background_age_seconds", kGauge, "", "Age of the oldest command that is queued or event that is spooled.", "FreshetSpoolOld", [](SampleWriter& samples, const View& view) { samples.add(to_double(view.totals.background_age_ms) / 1e3); }},
    MetricFamily{"freshet_background_commands", kCounter, "outcome", "Commands behind the reply that are done; writes dropped for good; events spooled, and replayed from a spool.", "FreshetWritesLost", background_commands},
    MetricFamily{"freshet_spool_bytes", kGauge, "", "Bytes in the spool files of living workers.", "FreshetSpoolFilling", total_value<&Totals::spooled_bytes>},
    MetricFamily{"freshet_spool_max_bytes", kGauge, "", "Bytes that one worker's spool file may have.", "FreshetSpoolFilling", [](SampleWriter& samples, const View& view) { samples.add(static_cast<double>(view.settings.spool.max_bytes)); }},

    MetricFamily{"freshet_store_sample_time_seconds", kGauge, "", "When what follows here of Redis' keys was read, in unix time.", "FreshetSampleStale", sampled_value<&RedisKeyStats::sampled_at>},
    MetricFamily{"freshet_hot_members", kGauge, "key", "Members of the keys hot:rank, hot:score, hot:published, hot:hidden, hot:newest.", "FreshetHotScoreFull", hot_members},
    MetricFamily{"freshet_hot_max_members", kGauge, "", "list.max_members: of hot:rank and hot:score the lowest leave beyond it.", "FreshetHotScoreFull", [](SampleWriter& samples, const View& view) { samples.add(to_double(view.settings.list.max_members)); }},
    MetricFamily{"freshet_recorder_stream_entries", kGauge, "", "Entries of the recorder's stream, of all groups together.", "", sampled_value<&RedisKeyStats::stream_entries>},
    MetricFamily{"freshet_recorder_stream_fill_ratio", kGauge, "", "Of the fullest group, entries by what it may have; at 1 writes of its items are answered 503.", "FreshetStreamFilling", sampled_value<&RedisKeyStats::stream_fill>},
    MetricFamily{"freshet_seen_filter_bytes", kGauge, "", "Memory of the seen-filter, all days together.", "", sampled_value<&RedisKeyStats::seen_bytes>},
    MetricFamily{"freshet_seen_filter_fill_ratio", kGauge, "", "Impressions in today's filter by those that it was made for.", "FreshetSeenFilterFull", sampled_value<&RedisKeyStats::seen_fill_today>},
    MetricFamily{"freshet_seen_filter_false_positive_ratio", kGauge, "", "Share of unseen items that is taken for seen, estimated.", "", sampled_value<&RedisKeyStats::seen_false_positive_rate>},
    MetricFamily{"freshet_seen_impressions_today", kGauge, "", "Impressions in today's filter, estimated.", "", sampled_value<&RedisKeyStats::seen_impressions_today>},

    MetricFamily{"freshet_recorder_state", kGauge, "state", "1 for the state the recorder is in.", "FreshetRecorderDown", recorder_state},
    MetricFamily{"freshet_recorder_lag_entries", kGauge, "", "Entries of the stream that the recorder has not taken.", "", recorder_value<&RecorderReport::lag_entries>},
    MetricFamily{"freshet_recorder_lag_seconds", kGauge, "", "Age of the oldest of these.", "FreshetRecorderLagging", recorder_lag},
    MetricFamily{"freshet_recorder_entries", kCounter, "", "Entries that the recorder has committed.", "", recorder_value<&RecorderReport::entries>},
    MetricFamily{"freshet_recorder_malformed", kCounter, "", "Of these, left out because they were malformed.", "", recorder_value<&RecorderReport::malformed>},
    MetricFamily{"freshet_recorder_items", kGauge, "", "Items in the recorder's database.", "", recorder_value<&RecorderReport::items>},
    MetricFamily{"freshet_recorder_last_commit_time_seconds", kGauge, "", "When it last committed, in unix time; 0: not yet.", "", recorder_value<&RecorderReport::last_commit>},
    MetricFamily{"freshet_recorder_restarts", kCounter, "", "Recorders that died and were started again.", "", recorder_restarts},

    MetricFamily{"freshet_index_documents", kGauge, "", "Documents of the search index; absent while it cannot be searched.", "",
           [](SampleWriter& samples, const View& view) { if (view.totals.index_documents >= 0) samples.add(to_double(view.totals.index_documents)); }},
    MetricFamily{"freshet_model_trained_time_seconds", kGauge, "", "When the model in use was trained, in unix time; the oldest, when workers differ.", "FreshetModelStale", model_time},
};
// clang-format on

}  // namespace

std::span<const MetricFamily> metric_families() { return kMetrics; }

}  // namespace freshet::observe
