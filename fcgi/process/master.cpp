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

using namespace std::chrono_literals;

Master::Master(std::unique_ptr<Generation> first, Scoreboard& board, const LoadFunction& load,
               const MasterOptions& options, Equipment equipment)
    : board_(board),
      options_(options),
      signals_(std::move(equipment.signals)),
      listeners_(std::move(equipment.listeners)),
      old_master_(std::move(equipment.old_master)),
      pid_file_(std::move(equipment.pid_file)),
      lease_(std::move(equipment.lease)),
      held_(std::move(equipment.held)),
      announcer_(old_master_.serves()),
      upgrade_(options.program, options.state),
      pool_(board, listeners_.requests.fd(), [this] { return own_fds(); }),
      scaling_(pool_, board, listeners_.requests.fd()),
      recorder_(board.recorder(), recorder_role()),
      status_(board.status(), status_role()),
      keeper_(board.keeper(), keeper_role()),
      reload_(pool_, board, load,
              {options.allow_root, static_cast<bool>(options.status), options.ready_timeout},
              std::move(first)) {}

std::vector<int> Master::own_fds() const {
  return {signals_.fd(),
          lease_.get(),
          held_.get(),
          options_.limits_fd,
          listeners_.status ? listeners_.status->fd() : -1,
          upgrade_.channel_fd(),
          old_master_.channel_fd(),
          old_master_.process_fd(),
          old_master_.lease_fd()};
}

std::vector<int> Master::inherited_without(int kept) const {
  auto fds = pool_.descriptors();
  fds.push_back(listeners_.requests.fd());
  std::erase(fds, kept);
  return fds;
}

CompanionRole Master::recorder_role() {
  return {"freshetd-record",
          [this](const Settings& settings) { return reload_.current().recorder(settings); },
          [this] { return board_.recorder_report().entries.load(); },
          [this] { return inherited_without(held_.get()); }};
}

CompanionRole Master::status_role() {
  if (!listeners_.status) return {"freshetd-status", {}, {}, {}};
  const int own = listeners_.status->fd();
  return {"freshetd-status",
          [this, own](const Settings& settings) { return options_.status(settings, own); },
          {},
          [this, own] { return inherited_without(own); }};
}

CompanionRole Master::keeper_role() {
  return {"freshetd-model",
          [this](const Settings& settings) { return reload_.current().keeper(settings); },
          {},
          [this] { return inherited_without(-1); }};
}

void Master::want_keeper(SteadyTime now) {
  const Generation& current = reload_.current();
  keeper_.want(current.keeper ? &current.settings : nullptr, now);
}

void Master::want_recorder(SteadyTime now) {
  const Generation& current = reload_.current();
  const bool exists = current.recorder && current.settings.recorder.enabled;
  recorder_.want(exists && old_master_.recorder_ended() ? &current.settings : nullptr, now);
}

int Master::run() {
  const Generation& first = reload_.current();
  board_.pool().started_at = wall_now().time_since_epoch().count();
  board_.pool().generation = first.number;
  const auto begin = std::chrono::steady_clock::now();
  want_keeper(begin);
  keeper_.tick(begin);  // first: the workers wait for its first word
  pool_.fork_missing(reload_.current(), begin);
  if (!old_master_.serves()) {
    want_recorder(begin);
    status_.want(&first.settings, begin);
  }
  log::notice("master_started", {{"workers", std::to_string(first.wanted())}, {"version", FRESHET_VERSION}});
  options_.on_started();
  while (!ended()) {
    const auto now = std::chrono::steady_clock::now();
    tick(now);
    wait(next_deadline(now));
  }
  log::notice("master_stopped");
  return exit_status_;
}

void Master::wait(SteadyTime deadline) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<pollfd> fds{{signals_.fd(), POLLIN, 0},
                          {stopping_ ? -1 : scaling_.watched_fd(reload_.current(), begin), POLLIN, 0},
                          {upgrade_.channel_fd(), POLLIN, 0},
                          {old_master_.fd(), POLLIN, 0},
                          {old_master_.serves() ? -1 : old_master_.lease_fd(), POLLIN, 0}};
  const std::size_t own = fds.size();
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
    if (fds[i + own].revents != 0) pool_.read_pipe(speakers[i].first, reload_.find(speakers[i].second), now);
  if (fds[2].revents != 0) hear_successor(now);
  if (fds[3].revents != 0) hear_old_master(now);
  if (fds[4].revents != 0) {
    old_master_.look_at_lease();
    if (!stopping_) want_recorder(now);
  }
  if (fds[0].revents != 0) take_signals(now);
}

void Master::tick(SteadyTime now) {
  pool_.enforce(now, watched_since_);
  recorder_.tick(now);
  if (stopping_ && pool_.empty()) status_.want(nullptr, now);
  status_.tick(now);
  keeper_.tick(now);
  upgrade_.tick(now);
  announcer_.feed_watchdog(now);
  if (stopping_) return;
  scaling_.tick(reload_.current(), now);
  pool_.fork_missing(reload_.current(), now);
  if (old_master_.serves()) return prepare_to_take_over();
  reload_.tick(now);
  take_outcomes(now);
  run_pending(now);
  take_outcomes(now);  // what was begun may have failed already
  if (!stopping_) announce(now);
}

SteadyTime Master::next_deadline(SteadyTime now) {
  SteadyTime next =
      std::min({pool_.next_deadline(stopping_ ? nullptr : &reload_.current(), now, watched_since_),
                recorder_.next_deadline(), status_.next_deadline(), keeper_.next_deadline(),
                upgrade_.next_deadline(), announcer_.next_deadline(stopping_)});
  if (stopping_) return next;
  return std::min(
      {next, scaling_.next_deadline(reload_.current(), now), reload_.next_deadline(now, watched_since_)});
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
      return request(SIGHUP);
    case Command::kUpgrade:
      return request(SIGUSR2);
    case Command::kReopenLogs:
      return reopen_logs();
    case Command::kReap:
      return collect_dead(now);
  }
}

void Master::reopen_logs() {
  log::reopen();
  recorder_.reopen_log();
  status_.reopen_log();
  keeper_.reopen_log();
  pool_.reopen_logs();
  if (!old_master_.serves()) old_master_.pass_on(SIGUSR1);
  // It may not listen to signals yet.
  if (upgrade_.under_way() && !upgrade_.went()) for_successor_.push_back(SIGUSR1);
}

void Master::stop(int signal, SteadyTime now) {
  if (!stopping_) announcer_.stopping();
  if (!old_master_.serves()) old_master_.pass_on(signal);
  upgrade_.cancel(signal, now);
  begin_end(signal, now);
}

void Master::begin_end(int signal, SteadyTime now) {
  stopping_ = true;
  pending_ = 0;
  reload_.cancel();
  listeners_.requests.close();  // the workers close theirs when they drain
  pool_.ask_to_end(0, signal, now);
  recorder_.want(nullptr, now);
  keeper_.want(nullptr, now);
}

bool Master::ended() const {
  const bool children = !pool_.empty() || recorder_.lives() || status_.lives() || keeper_.lives();
  const bool successor = upgrade_.under_way() && !upgrade_.went();
  // What is left of the old master would be killed at once if the main process ended before it.
  const bool old_master = !old_master_.serves() && !old_master_.over();
  return stopping_ && !children && !successor && !old_master;
}

void Master::collect_dead(SteadyTime now) {
  int status = 0;
  for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (recorder_.reap(pid, status, now) || status_.reap(pid, status, now) ||
        keeper_.reap(pid, status, now) || upgrade_.reap(pid, status, now))
      continue;
    const auto death = pool_.reap(pid, status, reload_.all(), now);
    if (!death) continue;
    reload_.reap(*death);
    if (is_crash(status)) count_crash(now);
    if (old_master_.serves() && !stopping_ && !death->expected())
      fail_to_take_over("a worker died before all were ready", now);
  }
}

void Master::count_crash(SteadyTime now) {
  const PoolSettings& pool = reload_.current().settings.pool;
  if (!crashes_.crashed(pool.emergency_restart_threshold, pool.emergency_restart_interval, now)) return;
  if (stopping_ || reload_.under_way() || upgrade_.under_way()) return;
  log::error("emergency_restart", {{"crashes", std::to_string(pool.emergency_restart_threshold)}});
  board_.pool().emergency_restarts.fetch_add(1);
  request(SIGHUP);
}

namespace {

int could_not_start(const Error& error) {
  log::error("cannot_start", {{"reason", std::string(error.reason)}, {"detail", error.detail}});
  return kExitConfig;
}

Result<Equipment> equip(const Settings& settings, bool with_status, std::optional<Handover> handover) {
  // First: a signal that comes from now on waits for the loop.
  FRESHET_TRY(signals, SignalQueue::open());
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return fail(ErrorCode::kInternal, "pipe", {}, std::strerror(errno));
  Descriptor lease(ends[0]), held(ends[1]);
  FRESHET_TRY(listeners, handover ? handover->take_listeners(settings.pool, with_status)
                                  : open_listeners(settings.pool, PassedSockets::receive(), with_status));
  Equipment made{std::move(*signals), std::move(*listeners), OldMaster(),
                 std::nullopt,        std::move(lease),      std::move(held)};
  if (handover) {
    made.old_master = OldMaster(std::move(*handover));
    return made;
  }
  FRESHET_TRY(pid_file, PidFile::write(settings.pid));
  made.pid_file.emplace(std::move(*pid_file));
  return made;
}

}  // namespace

std::size_t scoreboard_slots(const Settings& settings) { return 4 * worker_count(settings.pool) + 128; }

int run_master(Plan plan, Scoreboard& board, const LoadFunction& load, const MasterOptions& options,
               std::optional<Handover> handover) {
  const Settings& settings = plan.configuration.settings;
  if (const auto ok = check_user(settings.pool, options.allow_root); !ok) return could_not_start(ok.error());
  if (const auto ok = set_priority(settings.pool); !ok) return could_not_start(ok.error());
  const std::uint32_t number = handover ? handover->generation + 1 : 1;
  const std::size_t before = handover ? handover->workers : 0;
  auto equipment = equip(settings, static_cast<bool>(options.status), std::move(handover));
  if (!equipment) return could_not_start(equipment.error());
  auto first = std::make_unique<Generation>(number, std::move(plan), before);
  Master master(std::move(first), board, load, options, std::move(*equipment));
  return master.run();
}

}  // namespace freshet
