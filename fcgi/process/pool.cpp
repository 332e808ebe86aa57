#include "fcgi/process/pool.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "core/base/log.h"

namespace freshet {
namespace {

using namespace std::chrono_literals;

// Time between TERM and KILL for a worker that did not end after QUIT.
constexpr milliseconds kKillDelay = 2s;

void log_death(const WorkerDeath& death) {
  const bool recycled = death.worker.ready && WIFEXITED(death.status) && WEXITSTATUS(death.status) == 0;
  const auto level = death.was_expected() || recycled ? log::Level::kNotice : log::Level::kWarning;
  log::write(level, "worker_exited",
             {{"pid", std::to_string(death.worker.pid)},
              {"generation", std::to_string(death.worker.generation)},
              {"status", exit_text(death.status)},
              {"ready", death.worker.ready ? "yes" : "no"}});
}

}  // namespace

Pool::Pool(Scoreboard& board, int listen_fd, std::function<std::vector<int>()> master_fds)
    : board_(board), listen_fd_(listen_fd), master_fds_(std::move(master_fds)), master_pid_(getpid()) {}

Pool::~Pool() {
  for (const Worker& worker : workers_)
    if (worker.ready_fd >= 0) close(worker.ready_fd);
}

bool Pool::needs_worker(const Generation& generation, std::size_t position) const {
  return generation.positions[position].open && std::ranges::none_of(workers_, [&](const Worker& worker) {
           return worker.generation == generation.number && worker.position == position &&
                  worker.is_serving();
         });
}

void Pool::fork_missing(Generation& generation, SteadyTime now) {
  for (std::size_t i = 0; i < generation.positions.size(); ++i) {
    WorkerPosition& position = generation.positions[i];
    if (now < position.next_fork_at || !needs_worker(generation, i)) continue;
    const bool retry = position.failed_starts > 0;
    if (retry && generation.respawn_budget.earliest_retry(now) > now) continue;
    if (retry) generation.respawn_budget.spend(now);
    if (!fork_worker(generation, i, now)) position.next_fork_at = now + 1s;
  }
}

bool Pool::fork_worker(Generation& generation, std::size_t position, SteadyTime now) {
  const auto slots = board_.slots();
  const auto slot = std::ranges::find_if(
      slots, [](const WorkerSlot& s) { return s.state.load(kRelaxed) == WorkerState::kEmpty; });
  std::array<int, 2> ends{};
  if (slot == slots.end() || pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    log::error("fork_failed", {{"detail", slot == slots.end() ? "no free slot" : std::strerror(errno)}});
    return false;
  }
  const auto slot_index = static_cast<std::size_t>(slot - slots.begin());
  slot->state.store(WorkerState::kStarting, kRelaxed);
  slot->generation.store(generation.number, kRelaxed);
  slot->started_at.store(wall_now().time_since_epoch().count(), kRelaxed);
  const pid_t pid = fork();
  if (pid == 0) run_in_child(generation, slot_index, ends[1], ends[0]);
  close(ends[1]);
  if (pid < 0) {
    log::error("fork_failed", {{"detail", std::strerror(errno)}});
    close(ends[0]);
    board_.retire(*slot);
    return false;
  }
  slot->pid.store(pid, kRelaxed);
  Worker worker{.pid = pid,
                .slot = slot_index,
                .generation = generation.number,
                .position = position,
                .ready_fd = ends[0]};
  worker.ready_at = now;
  worker.stop_timeout = generation.settings.pool.process_control_timeout;
  worker.stuck_timeout = generation.settings.pool.request_terminate_timeout;
  workers_.push_back(worker);
  return true;
}

void Pool::run_in_child(const Generation& generation, std::size_t slot_index, int ready_fd, int read_end) {
  ChildSetup setup{.master_pid = master_pid_, .fds_to_close = inherited_fds()};
  setup.fds_to_close.push_back(read_end);
  WorkerContext context{generation.settings, board_, slot_index, listen_fd_, ready_fd};
  run_child(context, generation.worker_main, setup);
}

std::vector<int> Pool::inherited_fds() const {
  std::vector<int> fds = master_fds_();
  for (const Worker& worker : workers_)
    if (worker.ready_fd >= 0) fds.push_back(worker.ready_fd);
  return fds;
}

Worker* Pool::find(pid_t pid) {
  const auto found = std::ranges::find(workers_, pid, &Worker::pid);
  return found == workers_.end() ? nullptr : &*found;
}

void Pool::read_pipe(pid_t pid, Generation* generation, SteadyTime now) {
  Worker* worker = find(pid);
  if (!worker || worker->ready_fd < 0) return;
  char byte = 0;
  ssize_t bytes_read = 0;
  while ((bytes_read = read(worker->ready_fd, &byte, 1)) == 1) {
    if (byte == 'R' && !worker->ready) on_worker_ready(*worker, generation, now);
    if (byte == 'X' && worker->ready && worker->stop_signal == 0) worker->wants_replacement = true;
  }
  if (bytes_read == 0) {
    close(worker->ready_fd);
    worker->ready_fd = -1;
  }
}

void Pool::on_worker_ready(Worker& worker, Generation* generation, SteadyTime now) {
  worker.ready = true;
  worker.ready_at = now;
  worker.idle_since = now;
  auto starting = WorkerState::kStarting;
  board_.slots()[worker.slot].state.compare_exchange_strong(starting, WorkerState::kReady, kRelaxed);
  if (worker.missed_reopen) kill(worker.pid, SIGUSR1);
  if (generation) {
    WorkerPosition& position = generation->positions[worker.position];
    position = WorkerPosition{.open = position.open};
  }
  log::notice("worker_started",
              {{"pid", std::to_string(worker.pid)}, {"generation", std::to_string(worker.generation)}});
  for (Worker& other : workers_)
    if (other.wants_replacement && other.stop_signal == 0 && other.generation == worker.generation &&
        other.position == worker.position)
      send_stop(other, SIGQUIT, other.stop_timeout, now);
}

std::optional<WorkerDeath> Pool::reap(pid_t pid, int status, const std::vector<Generation*>& generations,
                                      SteadyTime now) {
  const Worker* dead = find(pid);
  if (!dead) return std::nullopt;
  const auto match =
      std::ranges::find(generations, dead->generation, [](const Generation* g) { return g->number; });
  Generation* generation = match == generations.end() ? nullptr : *match;
  read_pipe(pid, generation, now);  // messages sent before its death count
  const WorkerDeath death{*dead, status};
  if (dead->ready_fd >= 0) close(dead->ready_fd);
  board_.retire(board_.slots()[dead->slot]);
  std::erase_if(workers_, [&](const Worker& worker) { return worker.pid == pid; });
  log_death(death);
  if (!death.was_expected()) board_.pool().respawns.fetch_add(1, kRelaxed);
  if (generation && !death.was_expected() && !death.worker.ready) {
    WorkerPosition& position = generation->positions[death.worker.position];
    position.next_fork_at = now + respawn_delay(++position.failed_starts);
  }
  return death;
}

void Pool::send_stop(Worker& worker, int signal, milliseconds timeout, SteadyTime now) {
  worker.stop_signal = signal;
  worker.escalate_at = signal == SIGKILL ? SteadyTime::max() : now + timeout;
  board_.slots()[worker.slot].state.store(WorkerState::kDraining, kRelaxed);
  kill(worker.pid, signal);
}

void Pool::stop_workers(std::uint32_t generation, int signal, SteadyTime now) {
  for (Worker& worker : workers_) {
    // TERM replaces QUIT, never the reverse. Repeating a signal would restart the timeout.
    const bool escalates = worker.stop_signal == 0 || (worker.stop_signal == SIGQUIT && signal == SIGTERM);
    if ((generation == 0 || worker.generation == generation) && escalates)
      send_stop(worker, signal, worker.stop_timeout, now);
  }
}

void Pool::abandon_generation(std::uint32_t generation, SteadyTime now) {
  for (Worker& worker : workers_)
    if (worker.generation == generation && worker.stop_signal == 0)
      send_stop(worker, worker.ready ? SIGQUIT : SIGTERM, worker.ready ? worker.stop_timeout : kKillDelay,
                now);
}

SteadyTime Pool::stuck_deadline(const Worker& worker, SteadyTime awake_since) const {
  if (!worker.ready || worker.stop_signal != 0 || worker.stuck_timeout.count() == 0) return SteadyTime::max();
  const SteadyTime last_iteration(milliseconds(board_.slots()[worker.slot].last_iteration_ms.load(kRelaxed)));
  return std::max({last_iteration, worker.ready_at, awake_since}) + worker.stuck_timeout;
}

void Pool::enforce_timeouts(SteadyTime now, SteadyTime awake_since) {
  for (Worker& worker : workers_) {
    if (now >= worker.escalate_at) {
      send_stop(worker, worker.stop_signal == SIGQUIT ? SIGTERM : SIGKILL, kKillDelay, now);
    } else if (now >= stuck_deadline(worker, awake_since)) {
      log::error("worker_stall_detected", {{"pid", std::to_string(worker.pid)},
                                           {"stage", board_.phase_text(board_.slots()[worker.slot])}});
      kill(worker.pid, SIGKILL);
      worker.ready_at = now;  // not again at each check until it is reaped
    }
  }
}

void Pool::reopen_logs() {
  for (Worker& worker : workers_) {
    if (worker.ready)
      kill(worker.pid, SIGUSR1);
    else
      worker.missed_reopen = true;
  }
}

void Pool::drain_worker(pid_t pid, Generation& generation, SteadyTime now) {
  Worker* worker = find(pid);
  if (!worker || worker->generation != generation.number) return;
  generation.positions[worker->position].open = false;
  log::notice("worker_scaled_down", {{"pid", std::to_string(pid)}});
  if (worker->stop_signal == 0) send_stop(*worker, SIGQUIT, worker->stop_timeout, now);
}

void Pool::update_idle_times(SteadyTime now) {
  for (Worker& worker : workers_) {
    const WorkerSlot& slot = board_.slots()[worker.slot];
    const std::uint64_t requests = slot.requests.load(kRelaxed);
    if (!is_idle(slot) || requests != worker.requests_seen) worker.idle_since = now;
    worker.requests_seen = requests;
  }
}

WorkerCounts Pool::count_workers(const Generation& generation) const {
  WorkerCounts counts{.target = generation.open_count()};
  std::size_t serving = 0;
  for (const Worker& worker : workers_) {
    if (worker.generation != generation.number || !worker.ready || !worker.is_serving()) continue;
    ++serving;
    if (is_idle(board_.slots()[worker.slot])) ++counts.idle;
  }
  counts.starting = counts.target - std::min(serving, counts.target);
  return counts;
}

std::optional<Worker> Pool::longest_idle(const Generation& generation) const {
  std::optional<Worker> longest;
  for (const Worker& worker : workers_) {
    const bool idle = worker.generation == generation.number && worker.ready && worker.is_serving() &&
                      is_idle(board_.slots()[worker.slot]);
    if (idle && (!longest || worker.idle_since < longest->idle_since)) longest = worker;
  }
  return longest;
}

bool Pool::all_ready(const Generation& generation) const {
  for (std::size_t i = 0; i < generation.positions.size(); ++i) {
    if (!generation.positions[i].open) continue;
    const bool has_ready_worker = std::ranges::any_of(workers_, [&](const Worker& worker) {
      return worker.generation == generation.number && worker.position == i && worker.ready &&
             worker.stop_signal == 0;
    });
    if (!has_ready_worker) return false;
  }
  return true;
}

std::size_t Pool::ready_count(std::uint32_t generation) const {
  return static_cast<std::size_t>(std::ranges::count_if(workers_, [&](const Worker& worker) {
    return worker.generation == generation && worker.ready && worker.stop_signal == 0;
  }));
}

std::size_t Pool::free_slot_count() const { return board_.slots().size() - workers_.size(); }

SteadyTime Pool::next_deadline(Generation* generation, SteadyTime now, SteadyTime awake_since) const {
  SteadyTime next = SteadyTime::max();
  for (const Worker& worker : workers_)
    next = std::min({next, worker.escalate_at, stuck_deadline(worker, awake_since)});
  if (!generation) return next;
  for (std::size_t i = 0; i < generation->positions.size(); ++i) {
    const WorkerPosition& position = generation->positions[i];
    if (!needs_worker(*generation, i)) continue;
    const SteadyTime earliest =
        position.failed_starts > 0 ? generation->respawn_budget.earliest_retry(now) : now;
    next = std::min(next, std::max(position.next_fork_at, earliest));
  }
  return next;
}

}  // namespace freshet
