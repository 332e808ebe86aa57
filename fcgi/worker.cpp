#include "fcgi/worker.h"

#include <unistd.h>

#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <utility>

#include "core/base/log.h"
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
// What serves from its first request on has the model. Making the first copy of a large one takes a while; a
// keeper that cannot live delays READY no longer than this.
constexpr milliseconds kFirstModel{10'000};
constexpr int kExitUnusable = 69;  // EX_UNAVAILABLE

class WorkerProcess {
 public:
  WorkerProcess(WorkerContext& context, WorkerParts& parts, const model::ModelShelf& shelf)
      : context_(context),
        parts_(parts),
        shelf_(shelf),
        settings_(context.settings),
        report_(context.board, parts.slot,
                {parts.loop, parts.gateway, parts.redis, parts.background, parts.lists, parts.model,
                 parts.observer, context.listen_fd}),
        sampler_(parts.redis, parts.feed_store, parts.keys, context.board.sample()),
        rank_keeper_({parts.loop, parts.redis, parts.bulk, settings_, parts.keys, context.board, parts.slot}),
        signals_(parts.loop.io(), SIGTERM, SIGINT, SIGQUIT),
        reopen_signal_(parts.loop.io(), SIGUSR1),
        heartbeat_(parts.loop.io()),
        recycling_(settings_.pool, random_jitter(), Clock::now()) {}

  int run() {
    wait_for_signals();
    parts_.redis.on_ready_changed([this](bool ready) {
      if (ready) became_ready();
    });
    parts_.finder.start();
    parts_.redis.connect();
    parts_.bulk.connect();
    parts_.subscriber.connect();
    parts_.background.start();
    shelf_.wait(kFirstModel);
    beat();
    parts_.loop.run([this] { publish(); });
    publish();
    report_.beat();
    return 0;
  }

 private:
  // Connections are taken only after Redis answered once and has what the settings ask for; later losses of
  // Redis are the handlers' business.
  void became_ready() {
    if (ready_ || draining_ || probing_) return;
    probing_ = true;
    spawn(probe(), [this](std::exception_ptr) { probing_ = false; });
  }

  Task<void> probe() {
    const auto probed = co_await parts_.seen_filter->probe(parts_.redis);
    if (probed && !draining_) take_connections();
    if (probed) co_return;
    log::error("seen_filter_unusable", {{"error", probed.error().detail}});
    // Redis went away again: the next connection probes. Else nothing will help but another configuration.
    if (parts_.redis.ready()) _exit(kExitUnusable);
  }

  void take_connections() {
    ready_ = true;
    parts_.gateway.listen(context_.listen_fd);
    tell_master('R');
    spawn(rank_keeper_.keep_in_step(), [](std::exception_ptr) {});
  }

  void wait_for_signals() {
    signals_.async_wait([this](boost::system::error_code error, int signal) {
      if (error) return;
      // QUIT lets nginx end its kept connections; TERM only finishes the requests in flight.
      stop(signal == SIGQUIT ? Clock::now() + settings_.pool.process_control_timeout * 9 / 10 : Clock::now());
      wait_for_signals();
    });
    wait_for_reopen();
  }

  void wait_for_reopen() {
    reopen_signal_.async_wait([this](boost::system::error_code error, int) {
      if (error) return;
      log::reopen();
      parts_.observer.reopen();
      wait_for_reopen();
    });
  }

  void stop(Clock::time_point deadline) {
    // The last process to close the socket ends its queue: what waits there is refused, not left hanging.
    if (!draining_) {
      report_.stops_listening();
      ::close(context_.listen_fd);
    }
    draining_ = true;
    parts_.gateway.drain(deadline, [this] {
      parts_.background.drain(Clock::now() + settings_.redis.timeout * 20, [this] { parts_.loop.stop(); });
    });
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
    parts_.model.take(shelf_);
    report_.beat();
    if (ready_ && !draining_) sampler_.tick(duration_cast<milliseconds>(Clock::now().time_since_epoch()));
    look_at_memory();
    heartbeat_.expires_after(kHeartbeat);
    heartbeat_.async_wait([this](boost::system::error_code error) {
      if (!error) beat();
    });
  }

  void publish() {
    report_.turn();
    const std::uint64_t answered = parts_.gateway.counters().requests;
    if (recycling_.by_requests(answered)) ask_for_replacement("requests", answered);
  }

  WorkerContext& context_;
  WorkerParts& parts_;
  const model::ModelShelf& shelf_;
  const Settings& settings_;
  WorkerReport report_;
  Sampler sampler_;
  RankKeeper rank_keeper_;
  boost::asio::signal_set signals_;
  boost::asio::signal_set reopen_signal_;
  boost::asio::steady_timer heartbeat_;
  RecycleRule recycling_;
  bool asked_for_replacement_ = false;
  bool ready_ = false;
  bool probing_ = false;
  bool draining_ = false;
};

}  // namespace

int run_worker(WorkerContext& context, const Prepared& prepared, LimitTable& limits,
               const model::ModelShelf& shelf) {
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
  // Never destroyed: the process ends when run() returns, and coroutines may still hold parts of it.
  auto* parts = new WorkerParts(context, prepared, limits, *endpoint, std::move(*secrets));
  auto* process = new WorkerProcess(context, *parts, shelf);
  return process->run();
}

}  // namespace freshet
