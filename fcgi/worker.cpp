#include "fcgi/worker.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "core/async/signals.h"
#include "core/base/heap.h"
#include "core/base/log.h"
#include "core/base/redis_clock.h"
#include "core/redis/schema.h"
#include "fcgi/process/child.h"
#include "fcgi/process/recycle.h"
#include "fcgi/rank_maintenance.h"
#include "fcgi/redis_sampler.h"
#include "fcgi/worker_report.h"
#include "fcgi/worker_services.h"

namespace freshet {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration_cast;

// Maximum time between two loop iterations, for the master's watchdog.
constexpr milliseconds kHeartbeatInterval{500};
// A worker should have the model from its first request on. Copying a large model takes a while; a
// failing publisher delays READY by at most this long.
constexpr milliseconds kFirstModelTimeout{10'000};
// Interval of checks whether the index can still be searched. While it cannot, every heartbeat
// checks. Costs 0.06 ms in a thread, 1 ms with search.shards.
constexpr milliseconds kIndexCheckInterval{2000};
constexpr int kExitUnusable = 69;  // EX_UNAVAILABLE

// Takes the crash journals of dead workers, whose slots are free.
std::vector<std::string> take_crash_journals(Scoreboard& board) {
  std::vector<std::string> out;
  for (WorkerSlot& slot : board.slots()) {
    if (slot.state.load(kRelaxed) == WorkerState::kEmpty)
      std::ranges::move(slot.crash_journal.drain(), std::back_inserter(out));
  }
  return out;
}

class WorkerProcess {
 public:
  WorkerProcess(WorkerContext& context, WorkerServices& services, const model::ModelHandoff& model_handoff)
      : context_(context),
        services_(services),
        model_handoff_(model_handoff),
        settings_(context.settings),
        report_(context.board, services.slot,
                {services.loop, services.gateway, *services.redis, services.background, services.rank_updater,
                 services.contributions, services.impressions, services.reads, services.timelines,
                 services.lists, services.cards, services.model, services.observer, context.listen_fd}),
        redis_sampler_(*services.redis, services.feed_store, services.keys, settings_,
                       context.board.redis_sample()),
        rank_maintenance_({services.loop, *services.redis, *services.bulk, settings_, services.keys,
                           services.rank_updater, [this] { return take_crash_journals(context_.board); }}),
        signals_(services.loop, {SIGTERM, SIGINT, SIGQUIT, SIGUSR1},
                 [this](int signal) { on_signal(signal); }),
        heartbeat_timer_(services.loop),
        recycle_policy_(settings_.pool, random_jitter(), Clock::now()) {
    // The slot's previous worker may have been killed.
    for (std::string& id : services.slot.crash_journal.drain())
      services.rank_updater.rank_again(std::move(id));
  }

  int run() {
    services_.redis->on_ready_changed([this](bool ready) {
      if (ready) on_redis_ready();
    });
    services_.sentinel_resolver.start();
    services_.redis->connect();
    services_.bulk->connect();
    services_.subscriber.connect();
    services_.background.start();
    model_handoff_.wait_for_first(kFirstModelTimeout);
    on_heartbeat();
    services_.loop.run([this] { on_iteration(); });
    services_.background.close();
    if (services_.rank_updater.pending() == 0) services_.rank_updater.clear_in_flight();
    on_iteration();
    report_.on_heartbeat();
    return 0;
  }

 private:
  // A worker accepts connections only after Redis has answered and supports what the settings need.
  // Handlers deal with later failures of Redis.
  void on_redis_ready() {
    if (ready_ || draining_ || verifying_redis_) return;
    verifying_redis_ = true;
    spawn(verify_redis(), [this](std::exception_ptr) { verifying_redis_ = false; });
  }

  Task<void> verify_redis() {
    const auto schema =
        co_await redis::check_schema(*services_.redis, services_.keys, redis::SchemaCheck::kInitialize);
    if (!schema && schema.error().code == ErrorCode::kConflict) {
      const bool groups = schema.error().reason == "partitions_mismatch";
      log::error(groups ? "redis_partitions_mismatched" : "redis_schema_mismatched",
                 {{"error", schema.error().detail}});
      _exit(kExitUnusable);
    }
    const auto started = co_await redis_sampler_.start();
    if (!started) {
      log::warning("worker_start_failed",
                   {{"error", std::string(started.error().reason)}, {"detail", started.error().detail}});
      if (services_.redis->ready()) _exit(kExitUnusable);
      co_return;  // Redis is unavailable again: the next connection verifies it
    }
    const auto probed = co_await services_.seen_filter->probe(*services_.redis);
    if (probed && !draining_) start_accepting();
    if (probed) co_return;
    log::error("seen_filter_probe_failed", {{"error", probed.error().detail}});
    // If Redis is unavailable again, the next connection verifies it. Otherwise only another
    // configuration helps.
    if (services_.redis->ready()) _exit(kExitUnusable);
  }

  void start_accepting() {
    ready_ = true;
    services_.gateway.listen(context_.listen_fd);
    notify_master('R');
    spawn(rank_maintenance_.run(), [](std::exception_ptr) {});
  }

  void on_signal(int signal) {
    if (signal == SIGUSR1) {
      log::reopen();
      services_.observer.reopen();
      return;
    }
    // QUIT lets nginx finish its open connections; TERM only finishes the requests in flight.
    drain(signal == SIGQUIT ? Clock::now() + settings_.pool.process_control_timeout * 9 / 10 : Clock::now());
  }

  void flush_buffers() {
    services_.rank_updater.flush();
    services_.contributions.flush();
    services_.view_counts.flush();
    services_.impressions.flush();
    services_.reads.flush();
    services_.timelines.flush_activity();
    services_.users.flush();
  }

  void drain(Clock::time_point deadline) {
    const bool first = !std::exchange(draining_, true);
    if (first) report_.stop_listening();
    services_.gateway.drain(deadline, [this] {
      flush_buffers();
      services_.feed.notify_when_recorded([this] {
        const auto give_up_at = Clock::now() + settings_.redis.timeout * 20;
        services_.background.drain(give_up_at, [this, give_up_at] {
          flush_buffers();  // the replay in flight may have added to them
          services_.background.drain(give_up_at, [this] { services_.loop.stop(); });
        });
      });
    });
    // When the last process closes the socket, its queue ends: waiting connections are refused
    // instead of left hanging. Closing also stops events for connections that this worker does not
    // accept.
    if (first) ::close(context_.listen_fd);
  }

  void notify_master(char message) {
    if (write(context_.ready_fd, &message, 1) != 1) log::warning("master_notify_failed");
  }

  // The master acts on the first request only.
  void request_replacement(const char* reason, std::uint64_t value) {
    if (std::exchange(replacement_requested_, true)) return;
    log::notice("worker_recycled", {{"reason", reason}, {"value", std::to_string(value)}});
    notify_master('X');
  }

  void check_memory() {
    if (!ready_ || settings_.pool.max_rss == 0) return;
    const std::size_t resident = resident_bytes();
    if (recycle_policy_.exceeds_max_rss(resident, Clock::now())) request_replacement("memory", resident);
  }

  void on_heartbeat() {
    on_iteration();
    if (const auto offset = context_.board.redis_sample().clock_offset_us.load(kRelaxed); offset != 0)
      set_redis_clock_offset(std::chrono::microseconds(offset));
    services_.model.update_from(model_handoff_);
    check_index();
    report_.on_heartbeat();
    if (ready_ && !draining_)
      redis_sampler_.tick(duration_cast<milliseconds>(Clock::now().time_since_epoch()));
    check_memory();
    heartbeat_timer_.after(kHeartbeatInterval, [this] { on_heartbeat(); });
  }

  // Checks asynchronously whether the index can be searched. A busy searcher leaves the previous
  // state.
  void check_index() {
    const bool searchable = services_.slot.index_documents_plus_one.load(kRelaxed) > 0;
    if (checking_index_ || (searchable && Clock::now() < next_index_check_)) return;
    checking_index_ = true;
    next_index_check_ = Clock::now() + kIndexCheckInterval;
    spawn(count_documents(), [this](std::exception_ptr) { checking_index_ = false; });
  }
  Task<void> count_documents() {
    const auto documents = co_await services_.recall.document_count();
    auto& published = services_.slot.index_documents_plus_one;
    if (documents)
      published.store(*documents + 1, kRelaxed);
    else if (documents.error().reason == "index_unavailable")
      published.store(0, kRelaxed);
  }

  void on_iteration() {
    report_.on_iteration();
    const std::uint64_t answered = services_.gateway.counters().requests;
    if (recycle_policy_.exceeds_max_requests(answered)) request_replacement("requests", answered);
  }

  WorkerContext& context_;
  WorkerServices& services_;
  const model::ModelHandoff& model_handoff_;
  const Settings& settings_;
  WorkerReport report_;
  RedisSampler redis_sampler_;
  RankMaintenance rank_maintenance_;
  Signals signals_;
  Timer heartbeat_timer_;
  RecyclePolicy recycle_policy_;
  bool replacement_requested_ = false;
  bool checking_index_ = false;
  Clock::time_point next_index_check_;
  bool ready_ = false;
  bool verifying_redis_ = false;
  bool draining_ = false;
};

}  // namespace

int run_worker(WorkerContext& context, const StartupFiles& files, SharedTables& tables,
               const model::ModelHandoff& model_handoff) {
  raise_malloc_trim_threshold();
  const auto endpoint = redis_endpoint(context.settings.redis, files);
  if (!endpoint) {
    log::error("redis_url_rejected", {{"error", endpoint.error().detail}});
    return kExitConfig;
  }
  auto secrets = make_worker_secrets(context.settings, files);
  if (!secrets) {
    log::error("identity_rejected", {{"error", secrets.error().detail}});
    return kExitConfig;
  }
  if (context.slot_index == 0) check_writable_folder("spool.path", context.settings.spool.path);
  // Never destroyed: the process ends when run() returns, and coroutines may still refer to these.
  auto* services = new WorkerServices(context, files, tables, *endpoint, std::move(*secrets));
  auto* process = new WorkerProcess(context, *services, model_handoff);
  return process->run();
}

}  // namespace freshet
