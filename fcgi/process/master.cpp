#include "fcgi/process/master.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/base/log.h"
#include "fcgi/process/child.h"
#include "fcgi/process/master_loop.h"

namespace freshet {

namespace {

constexpr int kMaxConfigRejections = 10;

}  // namespace

using namespace std::chrono_literals;

Master::Master(std::unique_ptr<Generation> first, Scoreboard& board, const LoadFunction& load,
               const MasterOptions& options, MasterResources resources)
    : board_(board),
      options_(options),
      signals_(std::move(resources.signals)),
      listeners_(std::move(resources.listeners)),
      old_master_(std::move(resources.old_master)),
      pid_file_(std::move(resources.pid_file)),
      lease_reader_(std::move(resources.lease_reader)),
      lease_writer_(std::move(resources.lease_writer)),
      notifier_(old_master_.is_serving()),
      upgrade_(options.program, options.handover_state),
      pool_(board, listeners_.requests.fd(), [this] { return master_fds(); }),
      scaler_(pool_, board, listeners_.requests.fd()),
      recorder_(board.recorder(), recorder_role()),
      status_process_(board.status(), status_role()),
      model_publisher_(board.model_publisher(), model_publisher_role()),
      reload_(pool_, board, load,
              {options.allow_root, static_cast<bool>(options.status_main), options.ready_timeout},
              std::move(first)) {}

std::vector<int> Master::master_fds() const {
  return {signals_.fd(),
          lease_reader_.get(),
          lease_writer_.get(),
          options_.limits_fd,
          listeners_.status ? listeners_.status->fd() : -1,
          upgrade_.channel_fd(),
          old_master_.channel_fd(),
          old_master_.process_fd(),
          old_master_.lease_fd()};
}

std::vector<int> Master::fds_to_close_except(int kept_fd) const {
  auto fds = pool_.inherited_fds();
  fds.push_back(listeners_.requests.fd());
  std::erase(fds, kept_fd);
  return fds;
}

HelperRole Master::recorder_role() {
  return {"freshetd-record",
          [this](const Settings& settings) { return reload_.current().recorder_main(settings); },
          [this] { return board_.recorder_report().entries.load(); },
          [this] { return fds_to_close_except(lease_writer_.get()); }};
}

HelperRole Master::status_role() {
  if (!listeners_.status) return {"freshetd-status", {}, {}, {}};
  const int listen_fd = listeners_.status->fd();
  return {"freshetd-status",
          [this, listen_fd](const Settings& settings) { return options_.status_main(settings, listen_fd); },
          {},
          [this, listen_fd] { return fds_to_close_except(listen_fd); }};
}

HelperRole Master::model_publisher_role() {
  return {"freshetd-model",
          [this](const Settings& settings) { return reload_.current().model_publisher_main(settings); },
          {},
          [this] { return fds_to_close_except(-1); }};
}

void Master::update_model_publisher(SteadyTime now) {
  const Generation& current = reload_.current();
  model_publisher_.set_desired(current.model_publisher_main ? &current.settings : nullptr, now);
}

void Master::update_recorder(SteadyTime now) {
  const Generation& current = reload_.current();
  const bool exists = current.recorder_main && current.settings.recorder.enabled;
  recorder_.set_desired(exists && old_master_.has_recorder_ended() ? &current.settings : nullptr, now);
}

int Master::run() {
  const Generation& first = reload_.current();
  board_.pool().started_at = wall_now().time_since_epoch().count();
  board_.pool().generation = first.number;
  const auto begin = std::chrono::steady_clock::now();
  update_model_publisher(begin);
  model_publisher_.tick(begin);  // first, because the workers wait for the first model
  pool_.fork_missing(reload_.current(), begin);
  if (!old_master_.is_serving()) {
    update_recorder(begin);
    status_process_.set_desired(&first.settings, begin);
  }
  log::notice("master_started",
              {{"workers", std::to_string(first.open_count())}, {"version", FRESHET_VERSION}});
  options_.on_started();
  while (!is_finished()) {
    const auto now = std::chrono::steady_clock::now();
    tick(now);
    wait_for_events(next_deadline(now));
  }
  log::notice("master_stopped");
  return exit_status_;
}

void Master::wait_for_events(SteadyTime deadline) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<pollfd> fds{{signals_.fd(), POLLIN, 0},
                          {stopping_ ? -1 : scaler_.fd_to_watch(reload_.current(), begin), POLLIN, 0},
                          {upgrade_.channel_fd(), POLLIN, 0},
                          {old_master_.fd(), POLLIN, 0},
                          {old_master_.is_serving() ? -1 : old_master_.lease_fd(), POLLIN, 0}};
  const std::size_t fixed_count = fds.size();
  std::vector<std::pair<pid_t, std::uint32_t>> pipe_owners;
  for (const Worker& worker : pool_.workers())
    if (worker.ready_fd >= 0) {
      fds.push_back({worker.ready_fd, POLLIN, 0});
      pipe_owners.emplace_back(worker.pid, worker.generation);
    }
  int timeout = -1;
  if (deadline != SteadyTime::max()) {
    const auto remaining_ms = std::chrono::ceil<milliseconds>(deadline - begin).count();
    timeout = static_cast<int>(std::clamp<std::int64_t>(remaining_ms, 0, 60000));
  }
  poll(fds.data(), fds.size(), timeout);
  const auto now = std::chrono::steady_clock::now();
  // After a pause of the whole machine every worker looks stuck, so their timeouts start again.
  if (deadline != SteadyTime::max() && now > deadline + 500ms) awake_since_ = now;
  for (std::size_t i = 0; i < pipe_owners.size(); ++i)
    if (fds[i + fixed_count].revents != 0)
      pool_.read_pipe(pipe_owners[i].first, reload_.find(pipe_owners[i].second), now);
  if (fds[2].revents != 0) read_successor(now);
  if (fds[3].revents != 0) read_old_master(now);
  if (fds[4].revents != 0) {
    old_master_.check_lease();
    if (!stopping_) update_recorder(now);
  }
  if (fds[0].revents != 0) read_signals(now);
}

void Master::tick(SteadyTime now) {
  pool_.enforce_timeouts(now, awake_since_);
  recorder_.tick(now);
  if (stopping_ && pool_.empty()) status_process_.set_desired(nullptr, now);
  status_process_.tick(now);
  model_publisher_.tick(now);
  upgrade_.tick(now);
  notifier_.ping_watchdog(now);
  if (stopping_) return;
  scaler_.tick(reload_.current(), now);
  pool_.fork_missing(reload_.current(), now);
  if (old_master_.is_serving()) return report_ready_to_old_master();
  check_files(now);
  reload_.tick(now);
  handle_outcomes(now);
  start_pending_change(now);
  handle_outcomes(now);  // a change that has just started may have failed already
  if (!stopping_) announce_status(now);
}

SteadyTime Master::next_deadline(SteadyTime now) {
  SteadyTime next =
      std::min({pool_.next_deadline(stopping_ ? nullptr : &reload_.current(), now, awake_since_),
                recorder_.next_deadline(), status_process_.next_deadline(), model_publisher_.next_deadline(),
                upgrade_.next_deadline(), notifier_.next_deadline(stopping_)});
  if (stopping_) return next;
  return std::min({next, old_master_.is_serving() ? SteadyTime::max() : next_file_check_,
                   scaler_.next_deadline(reload_.current(), now), reload_.next_deadline(now, awake_since_)});
}

void Master::read_signals(SteadyTime now) {
  while (const auto signal = signals_.next()) handle_signal(*signal, now);
}

void Master::handle_signal(const SignalRow& signal, SteadyTime now) {
  if (signal.command != MasterCommand::kReap)
    log::notice("signal_received", {{"name", std::string(signal.name)}});
  switch (signal.command) {
    case MasterCommand::kStopNow:
      return stop(SIGTERM, now);
    case MasterCommand::kStopGracefully:
      return stop(SIGQUIT, now);
    case MasterCommand::kReload:
      return queue_change(SIGHUP);
    case MasterCommand::kUpgrade:
      return queue_change(SIGUSR2);
    case MasterCommand::kReopenLogs:
      return reopen_logs();
    case MasterCommand::kReap:
      return reap_children(now);
  }
}

void Master::check_files(SteadyTime now) {
  if (now < next_file_check_) return;
  constexpr seconds kInterval{2};
  next_file_check_ = now + kInterval;
  if (reload_.is_in_progress() || upgrade_.is_in_progress() || !options_.needs_reload()) return;
  log::notice("tuned_file_changed", {{"action", "reloading"}});
  queue_change(SIGHUP);
}

void Master::reopen_logs() {
  log::reopen();
  recorder_.reopen_log();
  status_process_.reopen_log();
  model_publisher_.reopen_log();
  pool_.reopen_logs();
  if (!old_master_.is_serving()) old_master_.forward_signal(SIGUSR1);
  // The successor may not handle signals yet.
  if (upgrade_.is_in_progress() && !upgrade_.is_committed()) signals_for_successor_.push_back(SIGUSR1);
}

void Master::stop(int signal, SteadyTime now) {
  if (!stopping_) notifier_.announce_stopping();
  if (!old_master_.is_serving()) old_master_.forward_signal(signal);
  upgrade_.cancel(signal, now);
  begin_shutdown(signal, now);
}

void Master::begin_shutdown(int signal, SteadyTime now) {
  stopping_ = true;
  pending_signal_ = 0;
  reload_.cancel();
  listeners_.requests.close();  // the workers close theirs when they drain
  pool_.stop_workers(0, signal, now);
  recorder_.set_desired(nullptr, now);
  model_publisher_.set_desired(nullptr, now);
}

bool Master::is_finished() const {
  const bool children = !pool_.empty() || recorder_.is_running() || status_process_.is_running() ||
                        model_publisher_.is_running();
  const bool successor = upgrade_.is_in_progress() && !upgrade_.is_committed();
  // systemd would kill what is left of the old master as soon as the main process ended.
  const bool old_master = !old_master_.is_serving() && !old_master_.has_ended();
  return stopping_ && !children && !successor && !old_master;
}

void Master::reap_children(SteadyTime now) {
  int status = 0;
  for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (recorder_.reap(pid, status, now) || status_process_.reap(pid, status, now) ||
        model_publisher_.reap(pid, status, now) || upgrade_.reap(pid, status, now))
      continue;
    const auto death = pool_.reap(pid, status, reload_.generations(), now);
    if (!death) continue;
    reload_.reap(*death);
    if (is_crash(status)) record_crash(now);
    record_rejected_config(*death, now);
    if (old_master_.is_serving() && !stopping_ && !death->was_expected())
      abort_takeover("a worker died before all were ready", now);
  }
}

void Master::record_crash(SteadyTime now) {
  const PoolSettings& pool = reload_.current().settings.pool;
  if (!crashes_.record_crash(pool.emergency_restart_threshold, pool.emergency_restart_interval, now)) return;
  if (stopping_ || reload_.is_in_progress() || upgrade_.is_in_progress()) return;
  log::error("emergency_restart_started", {{"crashes", std::to_string(pool.emergency_restart_threshold)}});
  board_.pool().emergency_restarts.fetch_add(1);
  queue_change(SIGHUP);
}

// load_startup_files() should reject, before the first fork, whatever a worker would reject. If
// workers still exit with kExitConfig, restarting them cannot help: the service stops, and their
// log lines have the reason.
void Master::record_rejected_config(const WorkerDeath& death, SteadyTime now) {
  const std::uint32_t current = reload_.current().number;
  const bool rejected = death.worker.generation == current && !death.was_expected() &&
                        WIFEXITED(death.status) && WEXITSTATUS(death.status) == kExitConfig &&
                        pool_.ready_count(current) == 0;
  config_rejections_ = rejected ? config_rejections_ + 1 : 0;
  if (config_rejections_ < kMaxConfigRejections || stopping_) return;
  log::error("config_rejected",
             {{"error", std::to_string(config_rejections_) +
                            " workers in a row ended with status 78: their log lines say which setting or "
                            "file is wrong"},
              {"action", "the service stops"}});
  exit_status_ = kExitConfig;
  stop(SIGTERM, now);
}

namespace {

int startup_failure(const Error& error) {
  log::error("startup_failed", {{"reason", std::string(error.reason)}, {"detail", error.detail}});
  return kExitConfig;
}

Result<MasterResources> make_master_resources(const Settings& settings, bool with_status,
                                              std::optional<Handover> handover) {
  // First, so that signals wait for the loop from now on.
  FRESHET_TRY(signals, SignalQueue::open());
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return fail(ErrorCode::kInternal, "pipe", {}, std::strerror(errno));
  Descriptor lease_reader(ends[0]), lease_writer(ends[1]);
  FRESHET_TRY(listeners,
              handover ? handover->adopt_listeners(settings.pool, with_status)
                       : open_listeners(settings.pool, SystemdSockets::from_environment(), with_status));
  MasterResources resources{std::move(*signals), std::move(*listeners),   OldMaster(),
                            std::nullopt,        std::move(lease_reader), std::move(lease_writer)};
  if (handover) {
    resources.old_master = OldMaster(std::move(*handover));
    return resources;
  }
  FRESHET_TRY(pid_file, PidFile::write(settings.pid));
  resources.pid_file.emplace(std::move(*pid_file));
  return resources;
}

}  // namespace

std::size_t scoreboard_slot_count(const Settings& settings) {
  return 4 * max_worker_count(settings.pool) + 128;
}

int run_master(GenerationSpec spec, Scoreboard& board, const LoadFunction& load, const MasterOptions& options,
               std::optional<Handover> handover) {
  const Settings& settings = spec.configuration.settings;
  if (const auto ok = check_user(settings.pool, options.allow_root); !ok) return startup_failure(ok.error());
  if (const auto ok = set_priority(settings.pool); !ok) return startup_failure(ok.error());
  if (const auto ok = check_limits(settings.pool); !ok) return startup_failure(ok.error());
  if (const auto ok = check_chdir(settings.pool); !ok) return startup_failure(ok.error());
  const std::uint32_t number = handover ? handover->generation + 1 : 1;
  const std::size_t previous_workers = handover ? handover->workers : 0;
  auto resources =
      make_master_resources(settings, static_cast<bool>(options.status_main), std::move(handover));
  if (!resources) return startup_failure(resources.error());
  auto first = std::make_unique<Generation>(number, std::move(spec), previous_workers);
  Master master(std::move(first), board, load, options, std::move(*resources));
  return master.run();
}

}  // namespace freshet
