#include "fcgi/process/scaling.h"

#include <poll.h>

#include <algorithm>
#include <string>

#include "core/base/log.h"

namespace freshet {
namespace {

using namespace std::chrono_literals;

constexpr auto kBetweenLooks = 1s;
// With ondemand the master wakes for connections that workers take anyway; so long it does not
// listen after each of them, which bounds what that costs to a hundred wakes a second.
constexpr auto kDeaf = 10ms;
}  // namespace

void Scaling::tick(Generation& generation, SteadyTime now) {
  if (!generation.established) {
    if (!pool_.all_ready(generation)) return;
    generation.established = true;
    next_look_ = now;
  }
  if (now >= next_look_) {
    pool_.note_idle(now);
    count_busy();
    look(generation, now);
    next_look_ = now + kBetweenLooks;
  }
  if (generation.limits.mode != PoolMode::kOndemand || now < deaf_until_ || !connection_waits()) return;
  deaf_until_ = now + kDeaf;
  obey(generation.rule.connection_waits(generation.limits, pool_.census(generation)), generation, now);
}

void Scaling::count_busy() {
  const auto busy = static_cast<std::uint32_t>(std::ranges::count_if(board_.slots(), is_busy));
  if (busy > board_.pool().max_active.load(kRelaxed)) board_.pool().max_active.store(busy, kRelaxed);
}

void Scaling::look(Generation& generation, SteadyTime now) {
  if (generation.limits.mode == PoolMode::kDynamic)
    obey(generation.rule.look(generation.limits, pool_.census(generation)), generation, now);
  if (generation.limits.mode == PoolMode::kOndemand) end_expired(generation, now);
}

void Scaling::end_expired(Generation& generation, SteadyTime now) {
  const auto timeout = generation.settings.pool.process_idle_timeout;
  while (const auto longest = pool_.longest_idle(generation)) {
    if (now < longest->idle_since + timeout) return;
    pool_.send_away(longest->pid, generation, now);
  }
}

void Scaling::obey(const PoolChange& change, Generation& generation, SteadyTime now) {
  if (change.hit_limit) {
    board_.pool().max_children_reached.fetch_add(1, kRelaxed);
    log::warning("max_children_reached", {{"workers", std::to_string(generation.limits.max_children)}});
  }
  if (change.fork > 0) {
    generation.open(change.fork);
    pool_.fork_missing(generation, now);
  }
  if (!change.retire_one) return;
  if (const auto longest = pool_.longest_idle(generation)) pool_.send_away(longest->pid, generation, now);
}

bool Scaling::connection_waits() const {
  pollfd socket{listen_fd_, POLLIN, 0};
  return listen_fd_ >= 0 && poll(&socket, 1, 0) == 1 && (socket.revents & POLLIN) != 0;
}

int Scaling::watched_fd(const Generation& generation, SteadyTime now) const {
  const bool listens = generation.established && generation.limits.mode == PoolMode::kOndemand;
  return listens && now >= deaf_until_ ? listen_fd_ : -1;
}

SteadyTime Scaling::next_deadline(const Generation& generation, SteadyTime now) const {
  if (!generation.established) return SteadyTime::max();
  return deaf_until_ > now ? std::min(deaf_until_, next_look_) : next_look_;
}

}  // namespace freshet
