#include "fcgi/worker.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "core/async/signals.h"
#include "core/base/agreed_clock.h"
#include "core/base/heap.h"
#include "core/base/log.h"
#include "core/redis/schema.h"
#include "fcgi/process/child.h"
#include "fcgi/process/recycle.h"
#include "fcgi/rank_keeper.h"
#include "fcgi/sampler.h"
#include "fcgi/worker_parts.h"
#include "fcgi/worker_report.h"

namespace freshet {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration_cast;

// The loop turns at least so often, for the master's watchdog.
constexpr milliseconds kHeartbeat{500};
// What serves from its first request on has the model. Making the first copy of a large one takes a
// while; a keeper that cannot live delays READY no longer than this.
constexpr milliseconds kFirstModel{10'000};
// So often the worker looks whether it can still search, at each beat while it cannot: .06 ms of a
// thread, 1 ms with search.shards.
constexpr milliseconds kIndexLook{2000};
constexpr int kExitUnusable = 69;  // EX_UNAVAILABLE

// Of those who had this slot before and of those whose slot is free.
std::vector<std::string> unplaced(Scoreboard& board, const WorkerSlot& own) {
  std::vector<std::string> out;
  for (WorkerSlot& slot : board.slots()) {
    if (&slot != &own && slot.state.load(kRelaxed) != WorkerState::kEmpty) continue;
    std::ranges::move(slot.unplaced.drain(), std::back_inserter(out));
  }
  return out;
}

class WorkerProcess {
 public:
  WorkerProcess(WorkerContext& context, WorkerParts& parts, const model::ModelHandoff& shelf)
      : context_(context),
        parts_(parts),
        shelf_(shelf),
        settings_(context.settings),
        report_(context.board, parts.slot,
                {parts.loop, parts.gateway, *parts.redis, parts.background, parts.placing,
                 parts.contributions, parts.shown, parts.interests, parts.lists, parts.cards, parts.model,
                 parts.observer, context.listen_fd}),
        sampler_(*parts.redis, parts.feed_store, parts.keys, settings_, context.board.sample()),
        rank_keeper_({parts.loop, *parts.redis, *parts.bulk, settings_, parts.keys,
                      unplaced(context.board, parts.slot)}),
        signals_(parts.loop, {SIGTERM, SIGINT, SIGQUIT, SIGUSR1}, [this](int signal) { take(signal); }),
        heartbeat_(parts.loop),
        recycling_(settings_.pool, random_jitter(), Clock::now()) {}

  int run() {
    parts_.redis->on_ready_changed([this](bool ready) {
      if (ready) became_ready();
    });
    parts_.finder.start();
    parts_.redis->connect();
    parts_.bulk->connect();
    parts_.subscriber.connect();
    parts_.background.start();
    shelf_.wait_for_first(kFirstModel);
    beat();
    parts_.loop.run([this] { publish(); });
    if (parts_.background.queued() == 0) parts_.placing.clear_in_flight();
    publish();
    report_.beat();
    return 0;
  }

 private:
  // Connections are taken only after Redis answered once and has what the settings ask for; later
  // losses of Redis are the handlers' business.
  void became_ready() {
    if (ready_ || draining_ || probing_) return;
    probing_ = true;
    spawn(probe(), [this](std::exception_ptr) { probing_ = false; });
  }

  Task<void> probe() {
    const auto schema = co_await redis::check_schema(*parts_.redis, parts_.keys, redis::SchemaCheck::kInitialize);
    if (!schema && schema.error().code == ErrorCode::kConflict) {
      const bool groups = schema.error().reason == "other_groups";
      log::error(groups ? "redis_has_other_groups" : "redis_has_another_schema",
                 {{"error", schema.error().detail}});
      _exit(kExitUnusable);
    }
    const auto begun = co_await sampler_.begin();
    if (!begun) {
      log::warning("worker_not_ready", {{"error", std::string(begun.error().reason)}});
      if (parts_.redis->ready()) _exit(kExitUnusable);
      co_return;  // Redis went away again: the next connection probes
    }
    const auto probed = co_await parts_.seen_filter->probe(*parts_.redis);
    if (probed && !draining_) take_connections();
    if (probed) co_return;
    log::error("seen_filter_unusable", {{"error", probed.error().detail}});
    // Redis went away again: the next connection probes. Else nothing will help but another
    // configuration.
    if (parts_.redis->ready()) _exit(kExitUnusable);
  }

  void take_connections() {
    ready_ = true;
    parts_.gateway.listen(context_.listen_fd);
    tell_master('R');
    spawn(rank_keeper_.keep_in_step(), [](std::exception_ptr) {});
  }

  void take(int signal) {
    if (signal == SIGUSR1) {
      log::reopen();
      parts_.observer.reopen();
      return;
    }
    // QUIT lets nginx end its kept connections; TERM only finishes the requests in flight.
    stop(signal == SIGQUIT ? Clock::now() + settings_.pool.process_control_timeout * 9 / 10 : Clock::now());
  }

  void stop(Clock::time_point deadline) {
    const bool first = !std::exchange(draining_, true);
    if (first) report_.stops_listening();
    parts_.gateway.drain(deadline, [this] {
      parts_.placing.flush();
      parts_.contributions.flush();
      parts_.shown.flush();
      parts_.interests.flush();
      parts_.feed.notify_when_recorded([this] {
        parts_.background.drain(Clock::now() + settings_.redis.timeout * 20, [this] { parts_.loop.stop(); });
      });
    });
    // The last process to close the socket ends its queue: what waits there is refused, not left
    // hanging. Not watched any more, or connections would go on waking a worker that takes none.
    if (first) ::close(context_.listen_fd);
  }

  void tell_master(char word) {
    if (write(context_.ready_fd, &word, 1) != 1) log::warning("master_not_told");
  }

  // Once: further bytes would change nothing.
  void ask_for_replacement(const char* reason, std::uint64_t is) {
    if (std::exchange(asked_for_replacement_, true)) return;
    log::notice("worker_recycles", {{"reason", reason}, {"is", std::to_string(is)}});
    tell_master('X');
  }

  void look_at_memory() {
    if (!ready_ || settings_.pool.max_rss == 0) return;
    const std::size_t resident = resident_bytes();
    if (recycling_.by_memory(resident, Clock::now())) ask_for_replacement("memory", resident);
  }

  void beat() {
    publish();
    if (const auto offset = context_.board.sample().clock_offset_us.load(kRelaxed); offset != 0)
      set_redis_clock_offset(std::chrono::microseconds(offset));
    parts_.model.update_from(shelf_);
    look_at_index();
    report_.beat();
    if (ready_ && !draining_) sampler_.tick(duration_cast<milliseconds>(Clock::now().time_since_epoch()));
    look_at_memory();
    heartbeat_.after(kHeartbeat, [this] { beat(); });
  }

  // Whether it can be searched. Nobody waits for it; a searcher that is busy leaves what was known.
  void look_at_index() {
    const bool there = parts_.slot.index_documents.load(kRelaxed) > 0;
    if (looking_at_index_ || (there && Clock::now() < look_again_)) return;
    looking_at_index_ = true;
    look_again_ = Clock::now() + kIndexLook;
    spawn(count_documents(), [this](std::exception_ptr) { looking_at_index_ = false; });
  }
  Task<void> count_documents() {
    const auto documents = co_await parts_.recall.document_count();
    auto& shown = parts_.slot.index_documents;
    if (documents)
      shown.store(*documents + 1, kRelaxed);
    else if (documents.error().reason == "index_away")
      shown.store(0, kRelaxed);
  }

  void publish() {
    report_.turn();
    const std::uint64_t answered = parts_.gateway.counters().requests;
    if (recycling_.by_requests(answered)) ask_for_replacement("requests", answered);
  }

  WorkerContext& context_;
  WorkerParts& parts_;
  const model::ModelHandoff& shelf_;
  const Settings& settings_;
  WorkerReport report_;
  Sampler sampler_;
  RankKeeper rank_keeper_;
  Signals signals_;
  Timer heartbeat_;
  RecycleRule recycling_;
  bool asked_for_replacement_ = false;
  bool looking_at_index_ = false;
  Clock::time_point look_again_;
  bool ready_ = false;
  bool probing_ = false;
  bool draining_ = false;
};

}  // namespace

int run_worker(WorkerContext& context, const Prepared& prepared, TokenBucketTable& limits,
               const model::ModelHandoff& shelf) {
  raise_malloc_trim_threshold();
  const auto endpoint = redis_endpoint(context.settings.redis, prepared);
  if (!endpoint) {
    log::error("bad_redis_url", {{"error", endpoint.error().detail}});
    return kExitConfig;
  }
  auto secrets = worker_secrets(context.settings, prepared);
  if (!secrets) {
    log::error("bad_identity", {{"error", secrets.error().detail}});
    return kExitConfig;
  }
  // Never destroyed: the process ends when run() returns, and coroutines may still hold parts of
  // it.
  auto* parts = new WorkerParts(context, prepared, limits, *endpoint, std::move(*secrets));
  auto* process = new WorkerProcess(context, *parts, shelf);
  return process->run();
}

}  // namespace freshet
