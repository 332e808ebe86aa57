#include "fcgi/process/master.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "core/base/log.h"
#include "fcgi/process/emergency.h"
#include "fcgi/process/listener.h"
#include "fcgi/process/notify.h"
#include "fcgi/process/pid_file.h"
#include "fcgi/process/pool.h"
#include "fcgi/process/scaling.h"
#include "fcgi/process/signals.h"

namespace freshet {
namespace {

using namespace std::chrono_literals;

class Master {
 public:
  Master(Settings settings, Scoreboard& board, const LoadFunction& load, const WorkerMain& worker,
         const MasterOptions& options, SignalQueue& signals, Listeners& listeners);
  int run();

 private:
  void wait(SteadyTime deadline);
  void take_signals(SteadyTime now);
  void obey(const SignalRow& signal, SteadyTime now);
  void tick(SteadyTime now);
  void stop(int signal, SteadyTime now);
  void collect_dead(SteadyTime now);
  void count_crash(SteadyTime now);
  CompanionRole recorder_role();
  CompanionRole status_role();
  void start_companions(SteadyTime now);

  void begin_reload(SteadyTime now);
  Result<Settings> load_next() const;
  void check_reload(SteadyTime now);
  void finish_reload(SteadyTime now);
  void give_up_reload(const std::string& why);

  void announce(SteadyTime now);
  std::vector<Generation*> generations();
  Generation* generation_of(std::uint32_t number);
  SteadyTime next_deadline(SteadyTime now);

  Scoreboard& board_;
  const LoadFunction& load_;
  const MasterOptions& options_;
  SignalQueue& signals_;
  Listeners& listeners_;
  Pool pool_;
  Scaling scaling_;
  CrashWatch crashes_;
  Companion recorder_, status_;
  std::uint32_t last_number_ = 1;  // of a generation; before current_, which begins with it
  std::unique_ptr<Generation> current_;
  std::unique_ptr<Generation> next_;  // while a reload is under way
  SteadyTime reload_ends_{};
  bool reload_wanted_ = false;
  bool stopping_ = false;
  bool ready_ = false;   // READY=1 was sent
  std::string failure_;  // of the last reload, until one succeeds
  std::string said_;     // the last STATUS=
  std::optional<milliseconds> watchdog_ = notify::watchdog_interval();
  SteadyTime watchdog_due_{};
  SteadyTime announce_again_ = SteadyTime::max();  // when systemd could not be told
  SteadyTime watched_since_{};                     // the master itself was awake since then
};

Master::Master(Settings settings, Scoreboard& board, const LoadFunction& load, const WorkerMain& worker,
               const MasterOptions& options, SignalQueue& signals, Listeners& listeners)
    : board_(board),
      load_(load),
      options_(options),
      signals_(signals),
      listeners_(listeners),
      pool_(board, worker, listeners.requests.fd(),
            {signals.fd(), listeners.status ? listeners.status->fd() : -1}),
      scaling_(pool_, board, listeners.requests.fd()),
      recorder_(board.recorder(), recorder_role()),
      status_(board.status(), status_role()),
      current_(std::make_unique<Generation>(last_number_, std::move(settings))) {}

CompanionRole Master::recorder_role() {
  return {"freshetd-record", options_.recorder, [this] { return board_.recorder_report().entries.load(); },
          [this] {
            auto fds = pool_.descriptors();
            fds.push_back(listeners_.requests.fd());
            return fds;
          }};
}

CompanionRole Master::status_role() {
  if (!listeners_.status) return {"freshetd-status", {}, {}, {}};
  const int own = listeners_.status->fd();
  return {"freshetd-status",
          [this, own](const Settings& settings) { return options_.status(settings, own); },
          {},
          [this, own] {
            auto fds = pool_.descriptors();
            std::erase(fds, own);
            fds.push_back(listeners_.requests.fd());
            return fds;
          }};
}

void Master::start_companions(SteadyTime now) {
  recorder_.want(current_->settings.recorder.enabled ? &current_->settings : nullptr, now);
  status_.want(&current_->settings, now);
}

int Master::run() {
  board_.pool().started_at = wall_now().time_since_epoch().count();
  board_.pool().generation = current_->number;
  const auto begin = std::chrono::steady_clock::now();
  pool_.fork_missing(*current_, begin);
  start_companions(begin);
  log::notice("master_started",
              {{"workers", std::to_string(current_->wanted())}, {"version", FRESHET_VERSION}});
  options_.on_started();
  while (!(stopping_ && pool_.empty() && !recorder_.lives() && !status_.lives())) {
    const auto now = std::chrono::steady_clock::now();
    tick(now);
    wait(next_deadline(now));
  }
  log::notice("master_stopped");
  return 0;
}

void Master::wait(SteadyTime deadline) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<pollfd> fds{{signals_.fd(), POLLIN, 0},
                          {stopping_ ? -1 : scaling_.watched_fd(*current_, begin), POLLIN, 0}};
  std::vector<std::pair<pid_t, std::uint32_t>> speakers;
  for (const Worker& worker : pool_.workers())
    if (worker.ready_fd >= 0) {
      fds.push_back({worker.ready_fd, POLLIN, 0});
      speakers.emplace_back(worker.pid, worker.generation);
    }
  int timeout = -1;
  if (deadline != SteadyTime::max()) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - begin).count();
    timeout = static_cast<int>(std::clamp<std::int64_t>(left, 0, 60000));
  }
  poll(fds.data(), fds.size(), timeout);
  const auto now = std::chrono::steady_clock::now();
  // After a pause of the whole machine every worker looks stuck; each gets its full time again.
  if (deadline != SteadyTime::max() && now > deadline + 500ms) watched_since_ = now;
  for (std::size_t i = 0; i < speakers.size(); ++i)
    if (fds[i + 2].revents != 0) pool_.read_pipe(speakers[i].first, generation_of(speakers[i].second), now);
  if (fds[0].revents != 0) take_signals(now);
}

void Master::take_signals(SteadyTime now) {
  while (const auto signal = signals_.next()) obey(*signal, now);
}

void Master::obey(const SignalRow& signal, SteadyTime now) {
  if (signal.command != Command::kReap) log::notice("signal", {{"name", std::string(signal.name)}});
  switch (signal.command) {
    case Command::kStopNow:
      return stop(SIGTERM, now);
    case Command::kStopGracefully:
      return stop(SIGQUIT, now);
    case Command::kReload:
      reload_wanted_ = !stopping_;
      return;
    case Command::kReopenLogs:
      log::reopen();
      recorder_.reopen_log();
      status_.reopen_log();
      return pool_.reopen_logs();
    case Command::kReap:
      return collect_dead(now);
  }
}

void Master::stop(int signal, SteadyTime now) {
  if (!stopping_) notify::stopping();
  stopping_ = true;
  reload_wanted_ = false;
  next_.reset();
  listeners_.requests.close();  // the workers close theirs when they drain
  pool_.ask_to_end(0, signal, now);
  recorder_.want(nullptr, now);
}

void Master::collect_dead(SteadyTime now) {
  bool next_failed = false;
  int status = 0;
  for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (recorder_.bury(pid, status, now) || status_.bury(pid, status, now)) continue;
    const auto death = pool_.bury(pid, status, generations(), now);
    if (death && is_crash(status)) count_crash(now);
    if (death && next_ && death->worker.generation == next_->number && !death->expected()) next_failed = true;
  }
  if (next_failed) give_up_reload("a new worker died before all were ready");
}

void Master::count_crash(SteadyTime now) {
  const PoolSettings& pool = current_->settings.pool;
  if (!crashes_.crashed(pool.emergency_restart_threshold, pool.emergency_restart_interval, now)) return;
  if (stopping_ || next_) return;
  log::error("emergency_restart", {{"crashes", std::to_string(pool.emergency_restart_threshold)}});
  board_.pool().emergency_restarts.fetch_add(1);
  reload_wanted_ = true;
}

void Master::tick(SteadyTime now) {
  pool_.enforce(now, watched_since_);
  recorder_.tick(now);
  if (stopping_ && pool_.empty()) status_.want(nullptr, now);
  status_.tick(now);
  if (watchdog_ && now >= watchdog_due_) {
    notify::watchdog();
    watchdog_due_ = now + *watchdog_;
  }
  if (stopping_) return;
  scaling_.tick(*current_, now);
  pool_.fork_missing(*current_, now);
  if (next_) check_reload(now);
  if (reload_wanted_ && !next_) begin_reload(now);
  announce(now);
}

Result<Settings> Master::load_next() const {
  auto loaded = load_();
  if (!loaded) return tl::unexpected(loaded.error());
  for (const std::string& warning : loaded->warnings) log::warning("configuration", {{"text", warning}});
  const PoolSettings& pool = loaded->settings.pool;
  if (auto ok = check_user(pool, options_.allow_root); !ok) return tl::unexpected(ok.error());
  if (pool.listen != current_->settings.pool.listen)
    return fail(ErrorCode::kInvalid, "bad_reload", "listen.address",
                "listen.address cannot change without a restart");
  if (options_.status && pool.status_listen != current_->settings.pool.status_listen)
    return fail(ErrorCode::kInvalid, "bad_reload", "pm.status_listen",
                "pm.status_listen cannot change without a restart");
  if (2 * worker_count(pool) > board_.slots().size())
    return fail(ErrorCode::kInvalid, "bad_reload", "pm.max_children",
                "pm.max_children cannot grow so far without a restart");
  return std::move(loaded->settings);
}

void Master::begin_reload(SteadyTime now) {
  auto settings = load_next();
  // Earlier generations still drain in their slots: later, when they are gone. At least one slot stays for a
  // respawn.
  if (settings && pool_.free_slots() <= worker_count(settings->pool)) return;
  reload_wanted_ = false;
  notify::reloading();
  if (!settings) {
    give_up_reload(settings.error().detail);
    return;
  }
  next_ = std::make_unique<Generation>(++last_number_, std::move(*settings), current_->wanted());
  reload_ends_ = now + options_.ready_timeout;
  pool_.fork_missing(*next_, now);
  log::notice("reload_started", {{"generation", std::to_string(next_->number)}});
}

void Master::check_reload(SteadyTime now) {
  if (pool_.all_ready(*next_))
    finish_reload(now);
  else if (now >= reload_ends_)
    give_up_reload("the new workers were not ready in time");
  else
    pool_.fork_missing(*next_, now);
}

void Master::finish_reload(SteadyTime now) {
  const auto old = std::exchange(current_, std::move(next_));
  const Settings& settings = current_->settings;
  if (settings.error_log != old->settings.error_log || settings.log_level != old->settings.log_level)
    log::open(settings.error_log, settings.log_level);
  if (const auto ok = set_priority(settings.pool); !ok)
    log::warning("priority_unchanged", {{"detail", ok.error().detail}});
  if (settings.pool.listen_backlog != old->settings.pool.listen_backlog)
    listeners_.requests.set_backlog(settings.pool.listen_backlog);
  board_.pool().generation = current_->number;
  board_.pool().reloads.fetch_add(1);
  pool_.ask_to_end(old->number, SIGQUIT, now);
  start_companions(now);
  failure_.clear();
  ready_ = false;  // announce() says READY again
  log::notice("reload_done", {{"generation", std::to_string(current_->number)}});
}

void Master::give_up_reload(const std::string& why) {
  if (next_) pool_.give_up(next_->number, std::chrono::steady_clock::now());
  next_.reset();
  board_.pool().failed_reloads.fetch_add(1);
  failure_ = why;
  ready_ = false;
  log::error("reload_failed", {{"detail", why}, {"serving", std::to_string(current_->number)}});
}

void Master::announce(SteadyTime now) {
  const auto ready = pool_.ready_count(current_->number);
  std::string text = "generation " + std::to_string(current_->number) + ": " + std::to_string(ready) +
                     " of " + std::to_string(current_->wanted()) + " workers ready";
  if (!failure_.empty()) text += "; last reload failed: " + failure_;
  const bool say_ready = !ready_ && !next_ && pool_.all_ready(*current_);
  announce_again_ = SteadyTime::max();
  if (!say_ready && text == said_) return;
  if (!(say_ready ? notify::ready(text) : notify::status(text))) {
    announce_again_ = now + 100ms;
    return;
  }
  ready_ = ready_ || say_ready;
  said_ = text;
}

std::vector<Generation*> Master::generations() {
  std::vector<Generation*> known{current_.get()};
  if (next_) known.push_back(next_.get());
  return known;
}

Generation* Master::generation_of(std::uint32_t number) {
  for (Generation* generation : generations())
    if (generation->number == number) return generation;
  return nullptr;
}

SteadyTime Master::next_deadline(SteadyTime now) {
  SteadyTime next = pool_.next_deadline(stopping_ ? nullptr : current_.get(), now, watched_since_);
  next = std::min({next, recorder_.next_deadline(), status_.next_deadline()});
  if (!stopping_) next = std::min({next, announce_again_, scaling_.next_deadline(*current_, now)});
  if (next_) next = std::min({next, reload_ends_, pool_.next_deadline(next_.get(), now, watched_since_)});
  if (watchdog_) next = std::min(next, watchdog_due_);
  return next;
}

int could_not_start(const Error& error) {
  log::error("cannot_start", {{"reason", std::string(error.reason)}, {"detail", error.detail}});
  return kExitConfig;
}

}  // namespace

std::size_t scoreboard_slots(const Settings& settings) { return 4 * worker_count(settings.pool) + 128; }

int run_master(Settings settings, Scoreboard& board, const LoadFunction& load, const WorkerMain& worker,
               const MasterOptions& options) {
  if (const auto ok = check_user(settings.pool, options.allow_root); !ok) return could_not_start(ok.error());
  if (const auto ok = set_priority(settings.pool); !ok) return could_not_start(ok.error());
  // First: a signal that comes from now on waits for the loop.
  auto signals = SignalQueue::open();
  if (!signals) return could_not_start(signals.error());
  auto listeners = open_listeners(settings.pool, PassedSockets::receive(), static_cast<bool>(options.status));
  if (!listeners) return could_not_start(listeners.error());
  auto pid_file = PidFile::write(settings.pid);
  if (!pid_file) return could_not_start(pid_file.error());
  Master master(std::move(settings), board, load, worker, options, *signals, *listeners);
  return master.run();
}

}  // namespace freshet
