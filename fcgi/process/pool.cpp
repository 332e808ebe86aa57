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

constexpr milliseconds kAfterTerm =
    2s;  // QUIT that was not obeyed is followed by TERM, and that by KILL so much later
void log_death(const Death& death) {
  const bool recycled = death.worker.ready && WIFEXITED(death.status) && WEXITSTATUS(death.status) == 0;
  const auto level = death.expected() || recycled ? log::Level::kNotice : log::Level::kWarning;
  log::write(level, "worker_ended",
             {{"pid", std::to_string(death.worker.pid)},
              {"generation", std::to_string(death.worker.generation)},
              {"status", end_text(death.status)},
              {"ready", death.worker.ready ? "yes" : "no"}});
}

}  // namespace

Pool::Pool(Scoreboard& board, int listen_fd, std::function<std::vector<int>()> master_fds)
    : board_(board), listen_fd_(listen_fd), master_fds_(std::move(master_fds)), master_pid_(getpid()) {}

Pool::~Pool() {
  for (const Worker& worker : workers_)
    if (worker.ready_fd >= 0) close(worker.ready_fd);
}

bool Pool::wanted(const Generation& generation, std::size_t position) const {
  return generation.positions[position].open && std::ranges::none_of(workers_, [&](const Worker& worker) {
           return worker.generation == generation.number && worker.position == position && worker.serves();
         });
}

void Pool::fork_missing(Generation& generation, SteadyTime now) {
  for (std::size_t i = 0; i < generation.positions.size(); ++i) {
    Position& position = generation.positions[i];
    if (now < position.not_before || !wanted(generation, i)) continue;
    const bool retry = position.deaths > 0;
    if (retry && generation.budget.earliest(now) > now) continue;
    if (retry) generation.budget.spend(now);
    if (!fork_worker(generation, i, now)) position.not_before = now + 1s;
  }
}

bool Pool::fork_worker(Generation& generation, std::size_t position, SteadyTime now) {
  const auto slots = board_.slots();
  const auto free = std::ranges::find_if(
      slots, [](const WorkerSlot& s) { return s.state.load(kRelaxed) == WorkerState::kEmpty; });
  std::array<int, 2> ends{};
  if (free == slots.end() || pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    log::error("fork_failed", {{"detail", free == slots.end() ? "no free slot" : std::strerror(errno)}});
    return false;
  }
  const auto slot = static_cast<std::size_t>(free - slots.begin());
  free->state.store(WorkerState::kStarting, kRelaxed);
  free->generation.store(generation.number, kRelaxed);
  free->started_at.store(wall_now().time_since_epoch().count(), kRelaxed);
  const pid_t pid = fork();
  if (pid == 0) run_in_child(generation, slot, ends[1], ends[0]);
  close(ends[1]);
  if (pid < 0) {
    log::error("fork_failed", {{"detail", std::strerror(errno)}});
    close(ends[0]);
    board_.retire(*free);
    return false;
  }
  free->pid.store(pid, kRelaxed);
  Worker worker{
      .pid = pid, .slot = slot, .generation = generation.number, .position = position, .ready_fd = ends[0]};
  worker.ready_at = now;
  worker.control_timeout = generation.settings.pool.process_control_timeout;
  worker.turn_timeout = generation.settings.pool.request_terminate_timeout;
  workers_.push_back(worker);
  return true;
}

void Pool::run_in_child(const Generation& generation, std::size_t slot, int ready_fd, int other_end) {
  ChildSetup setup{.master = master_pid_, .inherited = descriptors()};
  setup.inherited.push_back(other_end);
  WorkerContext context{generation.settings, board_, slot, listen_fd_, ready_fd};
  run_child(context, generation.worker, setup);
}

std::vector<int> Pool::descriptors() const {
  std::vector<int> fds = master_fds_();
  for (const Worker& worker : workers_)
    if (worker.ready_fd >= 0) fds.push_back(worker.ready_fd);
  return fds;
}

Worker* Pool::find(pid_t pid) {
  const auto at = std::ranges::find(workers_, pid, &Worker::pid);
  return at == workers_.end() ? nullptr : &*at;
}

void Pool::read_pipe(pid_t pid, Generation* generation, SteadyTime now) {
  Worker* worker = find(pid);
  if (!worker || worker->ready_fd < 0) return;
  char byte = 0;
  ssize_t got = 0;
  while ((got = read(worker->ready_fd, &byte, 1)) == 1) {
    if (byte == 'R' && !worker->ready) became_ready(*worker, generation, now);
    if (byte == 'X' && worker->ready && worker->asked == 0) worker->retiring = true;
  }
  if (got == 0) {
    close(worker->ready_fd);
    worker->ready_fd = -1;
  }
}

void Pool::became_ready(Worker& worker, Generation* generation, SteadyTime now) {
  worker.ready = true;
  worker.ready_at = now;
  worker.idle_since = now;
  auto starting = WorkerState::kStarting;
  board_.slots()[worker.slot].state.compare_exchange_strong(starting, WorkerState::kReady, kRelaxed);
  if (worker.missed_reopen) kill(worker.pid, SIGUSR1);
  if (generation) {
    Position& position = generation->positions[worker.position];
    position = Position{.open = position.open};
  }
  log::notice("worker_ready",
              {{"pid", std::to_string(worker.pid)}, {"generation", std::to_string(worker.generation)}});
  for (Worker& other : workers_)
    if (other.retiring && other.asked == 0 && other.generation == worker.generation &&
        other.position == worker.position)
      ask(other, SIGQUIT, other.control_timeout, now);
}

std::optional<Death> Pool::reap(pid_t pid, int status, const std::vector<Generation*>& generations,
                                SteadyTime now) {
  const Worker* known = find(pid);
  if (!known) return std::nullopt;
  const auto of =
      std::ranges::find(generations, known->generation, [](const Generation* g) { return g->number; });
  Generation* generation = of == generations.end() ? nullptr : *of;
  read_pipe(pid, generation, now);  // what it said before it died counts
  const Death death{*known, status};
  if (known->ready_fd >= 0) close(known->ready_fd);
  board_.retire(board_.slots()[known->slot]);
  std::erase_if(workers_, [&](const Worker& worker) { return worker.pid == pid; });
  log_death(death);
  if (!death.expected()) board_.pool().respawns.fetch_add(1, kRelaxed);
  if (generation && !death.expected() && !death.worker.ready) {
    Position& position = generation->positions[death.worker.position];
    position.not_before = now + respawn_delay(++position.deaths);
  }
  return death;
}

void Pool::ask(Worker& worker, int signal, milliseconds patience, SteadyTime now) {
  worker.asked = signal;
  worker.patience_ends = signal == SIGKILL ? SteadyTime::max() : now + patience;
  board_.slots()[worker.slot].state.store(WorkerState::kDraining, kRelaxed);
  kill(worker.pid, signal);
}

void Pool::ask_to_end(std::uint32_t generation, int signal, SteadyTime now) {
  for (Worker& worker : workers_) {
    // TERM goes over QUIT, never the other way round; nothing is asked twice, which would start
    // patience anew.
    const bool stronger = worker.asked == 0 || (worker.asked == SIGQUIT && signal == SIGTERM);
    if ((generation == 0 || worker.generation == generation) && stronger)
      ask(worker, signal, worker.control_timeout, now);
  }
}

void Pool::give_up(std::uint32_t generation, SteadyTime now) {
  for (Worker& worker : workers_)
    if (worker.generation == generation && worker.asked == 0)
      ask(worker, worker.ready ? SIGQUIT : SIGTERM, worker.ready ? worker.control_timeout : kAfterTerm, now);
}

SteadyTime Pool::stuck_at(const Worker& worker, SteadyTime watched_since) const {
  if (!worker.ready || worker.asked != 0 || worker.turn_timeout.count() == 0) return SteadyTime::max();
  const SteadyTime turned(milliseconds(board_.slots()[worker.slot].last_turn_ms.load(kRelaxed)));
  return std::max({turned, worker.ready_at, watched_since}) + worker.turn_timeout;
}

void Pool::enforce(SteadyTime now, SteadyTime watched_since) {
  for (Worker& worker : workers_) {
    if (now >= worker.patience_ends) {
      ask(worker, worker.asked == SIGQUIT ? SIGTERM : SIGKILL, kAfterTerm, now);
    } else if (now >= stuck_at(worker, watched_since)) {
      log::error("worker_stuck", {{"pid", std::to_string(worker.pid)},
                                  {"stage", board_.stage_text(board_.slots()[worker.slot])}});
      kill(worker.pid, SIGKILL);
      worker.ready_at = now;  // not again at every look until it is reaped
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

void Pool::send_away(pid_t pid, Generation& generation, SteadyTime now) {
  Worker* worker = find(pid);
  if (!worker || worker->generation != generation.number) return;
  generation.positions[worker->position].open = false;
  log::notice("worker_not_needed", {{"pid", std::to_string(pid)}});
  if (worker->asked == 0) ask(*worker, SIGQUIT, worker->control_timeout, now);
}

void Pool::note_idle(SteadyTime now) {
  for (Worker& worker : workers_) {
    const WorkerSlot& slot = board_.slots()[worker.slot];
    const std::uint64_t requests = slot.requests.load(kRelaxed);
    if (!is_idle(slot) || requests != worker.requests_seen) worker.idle_since = now;
    worker.requests_seen = requests;
  }
}

Census Pool::census(const Generation& generation) const {
  Census census{.wanted = generation.wanted()};
  std::size_t serving = 0;
  for (const Worker& worker : workers_) {
    if (worker.generation != generation.number || !worker.ready || !worker.serves()) continue;
    ++serving;
    if (is_idle(board_.slots()[worker.slot])) ++census.idle;
  }
  census.coming = census.wanted - std::min(serving, census.wanted);
  return census;
}

std::optional<Worker> Pool::longest_idle(const Generation& generation) const {
  std::optional<Worker> longest;
  for (const Worker& worker : workers_) {
    const bool idle = worker.generation == generation.number && worker.ready && worker.serves() &&
                      is_idle(board_.slots()[worker.slot]);
    if (idle && (!longest || worker.idle_since < longest->idle_since)) longest = worker;
  }
  return longest;
}

bool Pool::all_ready(const Generation& generation) const {
  for (std::size_t i = 0; i < generation.positions.size(); ++i) {
    if (!generation.positions[i].open) continue;
    const bool served = std::ranges::any_of(workers_, [&](const Worker& worker) {
      return worker.generation == generation.number && worker.position == i && worker.ready &&
             worker.asked == 0;
    });
    if (!served) return false;
  }
  return true;
}

std::size_t Pool::ready_count(std::uint32_t generation) const {
  return static_cast<std::size_t>(std::ranges::count_if(workers_, [&](const Worker& worker) {
    return worker.generation == generation && worker.ready && worker.asked == 0;
  }));
}

std::size_t Pool::free_slots() const { return board_.slots().size() - workers_.size(); }

SteadyTime Pool::next_deadline(Generation* generation, SteadyTime now, SteadyTime watched_since) const {
  SteadyTime next = SteadyTime::max();
  for (const Worker& worker : workers_)
    next = std::min({next, worker.patience_ends, stuck_at(worker, watched_since)});
  if (!generation) return next;
  for (std::size_t i = 0; i < generation->positions.size(); ++i) {
    const Position& position = generation->positions[i];
    if (!wanted(*generation, i)) continue;
    const SteadyTime allowed = position.deaths > 0 ? generation->budget.earliest(now) : now;
    next = std::min(next, std::max(position.not_before, allowed));
  }
  return next;
}

}  // namespace freshet
