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
double number(std::uint64_t value) { return static_cast<double>(value); }
double number(std::int64_t value) { return static_cast<double>(value); }
double number(std::uint32_t value) { return static_cast<double>(value); }

std::string label(std::string_view name, std::string_view value) {
  return std::string(name).append("=\"").append(value).append("\"");
}

// A number of Totals, or of what is sampled, as it is.
template <auto kMember>
void total(Samples& samples, const View& view) {
  samples.add(number(view.totals.*kMember));
}
template <auto kMember>
void pool(Samples& samples, const View& view) {
  samples.add(number((view.board.pool().*kMember).load(kRelaxed)));
}
template <auto kMember>
void report(Samples& samples, const View& view) {
  samples.add(number((view.board.recorder_report().*kMember).load(kRelaxed)));
}
// Nothing before the first sample.
template <auto kMember>
void sampled(Samples& samples, const View& view) {
  if (view.store.taken_at != 0) samples.add(static_cast<double>(view.store.*kMember));
}

// Nothing before the first look at Redis.
void redis_memory(Samples& samples, const View& view, std::int64_t redis::MemoryLevel::*member) {
  const redis::MemoryLevel level = view.board.sample().memory.load();
  if (level.at_ms != 0) samples.add(number(level.*member));
}

std::string route_label(const View& view, std::size_t row) {
  return label("route", row == 0 ? "none" : view.board.route_name(row));
}

void build(Samples& samples, const View&) { samples.add(label("version", FRESHET_VERSION), 1); }

void workers(Samples& samples, const View& view) {
  std::array<double, 4> counted{};
  for (const WorkerSlot& slot : view.board.slots()) {
    const WorkerState state = slot.state.load(kRelaxed);
    if (state == WorkerState::kStarting) ++counted[0];
    if (state == WorkerState::kReady) ++counted[is_idle(slot) ? 1 : 2];
    if (state == WorkerState::kDraining) ++counted[3];
  }
  constexpr std::array<std::string_view, 4> kStates{"starting", "idle", "busy", "draining"};
  for (std::size_t i = 0; i < kStates.size(); ++i) samples.add(label("state", kStates[i]), counted[i]);
}

void most_workers(Samples& samples, const View& view) {
  samples.add(static_cast<double>(worker_count(view.settings.pool)));
}

void requests(Samples& samples, const View& view) {
  constexpr std::array<std::string_view, 5> kClasses{"1xx", "2xx", "3xx", "4xx", "5xx"};
  for (std::size_t row = 0; row < kMostRoutes; ++row) {
    if (row != 0 && view.board.route_name(row).empty()) continue;
    for (std::size_t i = 1; i < kClasses.size(); ++i)
      samples.add(route_label(view, row) + "," + label("status", kClasses[i]),
                  number(view.totals.routes[row].status[i]));
  }
}

// Of routes that were asked for at least once: each is nineteen lines.
void durations(Samples& samples, const View& view) {
  for (std::size_t row = 0; row < kMostRoutes; ++row) {
    const HistogramTotals& latency = view.totals.routes[row].latency;
    if (latency.count() != 0) samples.add(latency, route_label(view, row));
  }
}

void refused(Samples& samples, const View& view) {
  for (std::size_t i = 0; i < view.totals.refused.size(); ++i)
    samples.add(label("reason", refusal_name(static_cast<Refusal>(i))), number(view.totals.refused[i]));
}

void redis_errors(Samples& samples, const View& view) {
  for (std::size_t i = 0; i < redis::kErrorClasses; ++i)
    samples.add(label("class", redis::error_class_name(static_cast<redis::ErrorClass>(i))),
                number(view.totals.redis_errors_by_class[i]));
}

void breakers(Samples& samples, const View& view) {
  for (std::size_t i = 0; i < view.totals.breakers.size(); ++i)
    samples.add(label("state", redis::breaker_state_name(static_cast<redis::BreakerState>(i))),
                number(view.totals.breakers[i]));
}

void list_reads(Samples& samples, const View& view) {
  samples.add(label("result", "hit"), number(view.totals.list_hits));
  samples.add(label("result", "miss"), number(view.totals.list_misses));
}

void card_reads(Samples& samples, const View& view) {
  samples.add(label("result", "hit"), number(view.totals.card_hits));
  samples.add(label("result", "miss"), number(view.totals.card_misses));
}

void feed_pages(Samples& samples, const View& view) {
  const std::uint64_t degraded = view.totals.feed_pages_degraded;
  samples.add(label("result", "complete"),
              number(view.totals.feed_pages - std::min(degraded, view.totals.feed_pages)));
  samples.add(label("result", "degraded"), number(degraded));
}

void background_commands(Samples& samples, const View& view) {
  samples.add(label("outcome", "done"), number(view.totals.background_done));
  samples.add(label("outcome", "dropped"), number(view.totals.background_dropped));
  samples.add(label("outcome", "spooled"), number(view.totals.spooled));
  samples.add(label("outcome", "replayed"), number(view.totals.replayed));
}

void hot_members(Samples& samples, const View& view) {
  if (view.store.taken_at == 0) return;
  const std::array<std::pair<std::string_view, std::int64_t>, 5> keys{
      {{"hot:rank", view.store.hot_rank},
       {"hot:score", view.store.hot_score},
       {"hot:published", view.store.hot_published},
       {"hot:hidden", view.store.hot_hidden},
       {"hot:newest", view.store.hot_newest}}};
  for (const auto& [key, members] : keys) samples.add(label("key", key), number(members));
}

// Of one that is off there is nothing to say.
void recorder_state(Samples& samples, const View& view) {
  CompanionSlot& process = view.board.recorder();
  if (!process.wanted.load(kRelaxed)) return;
  const bool lives = process.pid.load(kRelaxed) != 0;
  const auto state = static_cast<std::size_t>(view.board.recorder_report().state.load(kRelaxed));
  for (std::size_t i = 0; i < kRecorderStateNames.size(); ++i)
    samples.add(label("state", kRecorderStateNames[i]), lives && state == i ? 1 : 0);
  samples.add(label("state", "away"), lives ? 0 : 1);
}

void recorder_restarts(Samples& samples, const View& view) {
  samples.add(number(view.board.recorder().respawns.load(kRelaxed)));
}

void recorder_lag(Samples& samples, const View& view) {
  samples.add(static_cast<double>(view.board.recorder_report().lag_age_ms.load(kRelaxed)) / 1e3);
}

void missing_needs(Samples& samples, const View& view) {
  const std::vector<Dependency> all = missing(has_of(view.totals), view.board.sample());
  for (std::size_t i = 0; i < kDependencyCount; ++i)
    samples.add(label("what", kDependencyNames[i]), std::ranges::count(all, static_cast<Dependency>(i)) > 0 ? 1 : 0);
}

void model_time(Samples& samples, const View& view) {
  if (view.totals.model_trained_at != 0) samples.add(number(view.totals.model_trained_at));
}

constexpr auto kCounter = MetricType::kCounter;
constexpr auto kGauge = MetricType::kGauge;
constexpr auto kHistogram = MetricType::kHistogram;

// clang-format off
constexpr std::array kMetrics{
    Metric{"freshet_build", MetricType::kInfo, "version", "The version that runs.", "", build},
    Metric{"freshet_start_time_seconds", kGauge, "", "When the master started, in unix time.", "", pool<&PoolCounters::started_at>},

    Metric{"freshet_pool_workers", kGauge, "state", "Workers by state; a busy one has at least one request inside.", "FreshetDown, FreshetPoolBusy", workers},
    Metric{"freshet_pool_max_workers", kGauge, "", "pm.max_children, or the number of cores.", "FreshetPoolBusy", most_workers},
    Metric{"freshet_pool_max_active_workers", kGauge, "", "The most workers that were busy at once since the start.", "", pool<&PoolCounters::max_active>},
    Metric{"freshet_pool_max_children_reached", kCounter, "", "How often more workers were wanted than pm.max_children allows.", "", pool<&PoolCounters::max_children_reached>},
    Metric{"freshet_pool_generation", kGauge, "", "The generation that serves; each reload makes a new one.", "", pool<&PoolCounters::generation>},
    Metric{"freshet_pool_reloads", kCounter, "", "Reloads that succeeded.", "", pool<&PoolCounters::reloads>},
    Metric{"freshet_pool_reload_failures", kCounter, "", "Reloads that were given up; the old generation serves on.", "FreshetReloadFailed", pool<&PoolCounters::failed_reloads>},
    Metric{"freshet_pool_respawns", kCounter, "", "Workers that died without being asked to, and were replaced.", "FreshetWorkersDie", pool<&PoolCounters::respawns>},
    Metric{"freshet_pool_emergency_restarts", kCounter, "", "New generations because too many workers died by a signal.", "", pool<&PoolCounters::emergency_restarts>},
    Metric{"freshet_worker_resident_memory_bytes", kGauge, "", "Resident memory of the living workers together.", "", total<&Totals::rss_bytes>},
    Metric{"freshet_worker_peak_memory_bytes", kGauge, "", "The most resident memory that any one worker ever had.", "", total<&Totals::peak_rss_bytes>},
    Metric{"freshet_worker_cpu_seconds", kCounter, "", "Processor time of all workers, those that ended included.", "", [](Samples& samples, const View& view) { samples.add(number(view.totals.cpu_us) / 1e6); }},

    Metric{"freshet_connections_accepted", kCounter, "", "Connections taken from nginx.", "", total<&Totals::accepted>},
    Metric{"freshet_connections", kGauge, "", "Connections that are open.", "", total<&Totals::connections>},
    Metric{"freshet_requests_in_flight", kGauge, "", "Requests inside the workers.", "", total<&Totals::in_flight>},
    Metric{"freshet_requests_late", kGauge, "", "Of these, answered already because their budget was used up; they still wait for something.", "", total<&Totals::late>},
    Metric{"freshet_requests", kCounter, "route, status", "Requests answered, by route (none: no route matched) and class of status.", "FreshetErrors", requests},
    Metric{"freshet_request_duration_seconds", kHistogram, "route", "From the first byte of a request until its reply was handed over.", "FreshetSlow", durations},
    Metric{"freshet_requests_slow", kCounter, "", "Requests that took longer than request_slowlog_timeout.", "", total<&Totals::slow_requests>},
    Metric{"freshet_requests_over_budget", kCounter, "", "Requests answered because gateway.request_budget or bulk_budget was used up.", "FreshetOverBudget", total<&Totals::over_budget>},
    Metric{"freshet_requests_refused", kCounter, "reason", "Requests refused or not counted, by reason.", "", refused},
    Metric{"freshet_writes_queued", kCounter, "", "Writes answered 202: they wait for Redis.", "", total<&Totals::queued_writes>},
    Metric{"freshet_loop_turn_seconds", kHistogram, "", "Turns of the workers' loops: a connection that becomes ready waits for the one under way, to be accepted or read.", "FreshetLoopLag", [](Samples& samples, const View& view) { samples.add(view.totals.turns, {}); }},
    Metric{"freshet_hot_list_reads", kCounter, "result", "Hot lists from the worker's snapshot (hit), or not (miss).", "FreshetHotListMisses", list_reads},
    Metric{"freshet_missing", kGauge, "what", "1: no worker has it; ready.require says what /health/ready answers 503 without.", "FreshetIndexAway", missing_needs},
    Metric{"freshet_feed_pages", kCounter, "result", "Pages of the feed, complete or degraded: Redis or the index was away, or nothing could be kept.", "", feed_pages},
    Metric{"freshet_card_reads", kCounter, "result", "What is shown of an item, from the worker's memory (hit), or read from Redis (miss).", "", card_reads},
    Metric{"freshet_card_bytes", kGauge, "", "Memory that the living workers use for it.", "", total<&Totals::card_bytes>},
    Metric{"freshet_items_shown", kCounter, "", "Items on pages of feeds; what a page repeats counts once.", "", total<&Totals::shown>},
    Metric{"freshet_announcements_ignored", kCounter, "", "Messages on the channel hot:epoch that Freshet did not send, by the workers that got them.", "", total<&Totals::announcements_ignored>},

    Metric{"freshet_redis_ready_workers", kGauge, "", "Workers whose connection to Redis is ready.", "FreshetRedisAway", total<&Totals::redis_ready>},
    Metric{"freshet_redis_breaker_workers", kGauge, "state", "Workers by the state of their breaker.", "", breakers},
    Metric{"freshet_redis_commands", kCounter, "", "Commands sent for requests.", "", total<&Totals::redis_commands>},
    Metric{"freshet_redis_round_trips", kCounter, "", "Pipelines sent for requests.", "", total<&Totals::redis_round_trips>},
    Metric{"freshet_redis_round_trip_duration_seconds", kHistogram, "", "From a pipeline's sending until its last reply was read.", "FreshetRedisSlow", [](Samples& samples, const View& view) { samples.add(view.totals.redis_latency, {}); }},
    Metric{"freshet_redis_errors", kCounter, "class", "Pipelines that failed, and error replies, by class.", "FreshetRedisErrors", redis_errors},
    Metric{"freshet_redis_reconnects", kCounter, "", "Connections made anew.", "", total<&Totals::redis_reconnects>},
    Metric{"freshet_redis_lost_time_seconds", kGauge, "", "When Redis was found to have lost its items, in unix time; 0: it has them.", "FreshetRedisLost", [](Samples& samples, const View& view) { samples.add(number(view.board.sample().lost_since.load(kRelaxed))); }},
    Metric{"freshet_redis_used_memory_bytes", kGauge, "", "used_memory of Redis.", "FreshetRedisFills", [](Samples& samples, const View& view) { redis_memory(samples, view, &redis::MemoryLevel::used); }},
    Metric{"freshet_redis_max_memory_bytes", kGauge, "", "maxmemory of Redis; 0: it has none.", "FreshetRedisFills", [](Samples& samples, const View& view) { redis_memory(samples, view, &redis::MemoryLevel::max); }},
    Metric{"freshet_redis_full", kGauge, "", "1: Redis has little room, and what the public writes waits in the spool.", "FreshetRedisFull", [](Samples& samples, const View& view) { redis_memory(samples, view, &redis::MemoryLevel::full); }},
    Metric{"freshet_redis_full_in_seconds", kGauge, "", "Until that is so, if memory grows on as in the last hour or two; absent while it does not grow.", "FreshetRedisFills",
           [](Samples& samples, const View& view) { if (const auto left = redis::hours_until_full(view.board.sample().memory.load())) samples.add(3600 * *left); }},

    Metric{"freshet_background_queue_commands", kGauge, "", "Commands, and articles' places, that wait to be written behind the reply.", "", total<&Totals::background_queued>},
    Metric{"freshet_background_age_seconds", kGauge, "", "Age of the oldest command that is queued or event that is spooled.", "FreshetSpoolOld", [](Samples& samples, const View& view) { samples.add(number(view.totals.background_age_ms) / 1e3); }},
    Metric{"freshet_background_commands", kCounter, "outcome", "Commands behind the reply that are done; writes dropped for good; events spooled, and replayed from a spool.", "FreshetWritesLost", background_commands},
    Metric{"freshet_spool_bytes", kGauge, "", "Bytes in the spool files of living workers.", "FreshetSpoolFills", total<&Totals::spooled_bytes>},
    Metric{"freshet_spool_max_bytes", kGauge, "", "Bytes that one worker's spool file may have.", "FreshetSpoolFills", [](Samples& samples, const View& view) { samples.add(static_cast<double>(view.settings.spool.max_bytes)); }},

    Metric{"freshet_store_sample_time_seconds", kGauge, "", "When what follows here of Redis' keys was read, in unix time.", "FreshetSampleOld", sampled<&StoreNumbers::taken_at>},
    Metric{"freshet_hot_members", kGauge, "key", "Members of the keys hot:rank, hot:score, hot:published, hot:hidden, hot:newest.", "FreshetHotScoreFull", hot_members},
    Metric{"freshet_hot_max_members", kGauge, "", "list.max_members: of hot:rank and hot:score the lowest leave beyond it.", "FreshetHotScoreFull", [](Samples& samples, const View& view) { samples.add(number(view.settings.list.max_members)); }},
    Metric{"freshet_recorder_stream_entries", kGauge, "", "Entries of the recorder's stream, of all groups together.", "", sampled<&StoreNumbers::stream_entries>},
    Metric{"freshet_recorder_stream_fill_ratio", kGauge, "", "Of the fullest group, entries by what it may have; at 1 writes of its items are answered 503.", "FreshetStreamFills", sampled<&StoreNumbers::stream_fill>},
    Metric{"freshet_seen_filter_bytes", kGauge, "", "Memory of the seen-filter, all days together.", "", sampled<&StoreNumbers::seen_bytes>},
    Metric{"freshet_seen_filter_fill_ratio", kGauge, "", "Impressions in today's filter by those that it was made for.", "FreshetSeenFilterFull", sampled<&StoreNumbers::seen_fill_today>},
    Metric{"freshet_seen_filter_false_positive_ratio", kGauge, "", "Share of unseen items that is taken for seen, estimated.", "", sampled<&StoreNumbers::seen_false_positive_rate>},
    Metric{"freshet_seen_impressions_today", kGauge, "", "Impressions in today's filter, estimated.", "", sampled<&StoreNumbers::seen_impressions_today>},

    Metric{"freshet_recorder_state", kGauge, "state", "1 for the state the recorder is in.", "FreshetRecorderAway", recorder_state},
    Metric{"freshet_recorder_lag_entries", kGauge, "", "Entries of the stream that the recorder has not taken.", "", report<&RecorderReport::lag_entries>},
    Metric{"freshet_recorder_lag_seconds", kGauge, "", "Age of the oldest of these.", "FreshetRecorderLags", recorder_lag},
    Metric{"freshet_recorder_entries", kCounter, "", "Entries that the recorder has committed.", "", report<&RecorderReport::entries>},
    Metric{"freshet_recorder_malformed", kCounter, "", "Of these, left out because they were malformed.", "", report<&RecorderReport::malformed>},
    Metric{"freshet_recorder_items", kGauge, "", "Items in the recorder's database.", "", report<&RecorderReport::items>},
    Metric{"freshet_recorder_last_commit_time_seconds", kGauge, "", "When it last committed, in unix time; 0: not yet.", "", report<&RecorderReport::last_commit>},
    Metric{"freshet_recorder_restarts", kCounter, "", "Recorders that died and were started again.", "", recorder_restarts},

    Metric{"freshet_index_documents", kGauge, "", "Documents of the search index; absent while it cannot be searched.", "",
           [](Samples& samples, const View& view) { if (view.totals.index_documents >= 0) samples.add(number(view.totals.index_documents)); }},
    Metric{"freshet_model_trained_time_seconds", kGauge, "", "When the model in use was trained, in unix time; the oldest, when workers differ.", "FreshetModelOld", model_time},
};
// clang-format on

}  // namespace

std::span<const Metric> metrics() { return kMetrics; }

}  // namespace freshet::observe
