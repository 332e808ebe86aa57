#include "fcgi/process/pool_scaler.h"

#include <poll.h>

#include <algorithm>
#include <string>

#include "core/base/log.h"

namespace freshet {
namespace {

using namespace std::chrono_literals;

constexpr auto kCheckInterval = 1s;
// With ondemand the master also wakes for connections that workers accept anyway. It ignores the
// socket for this long after each wake, which bounds the cost to 100 wakes a second.
constexpr auto kWakePause = 10ms;
}  // namespace

void PoolScaler::tick(Generation& generation, SteadyTime now) {
  if (!generation.was_ready) {
    if (!pool_.all_ready(generation)) return;
    generation.was_ready = true;
    next_check_at_ = now;
  }
  if (now >= next_check_at_) {
    pool_.update_idle_times(now);
    update_max_active();
    adjust(generation, now);
    next_check_at_ = now + kCheckInterval;
  }
  if (generation.spare_limits.mode != PoolMode::kOndemand || now < paused_until_ || !has_pending_connection())
    return;
  paused_until_ = now + kWakePause;
  apply(
      generation.spare_policy.on_pending_connection(generation.spare_limits, pool_.count_workers(generation)),
      generation, now);
}

void PoolScaler::update_max_active() {
  const auto busy = static_cast<std::uint32_t>(std::ranges::count_if(board_.slots(), is_busy));
  if (busy > board_.pool().max_active.load(kRelaxed)) board_.pool().max_active.store(busy, kRelaxed);
}

void PoolScaler::adjust(Generation& generation, SteadyTime now) {
  if (generation.spare_limits.mode == PoolMode::kDynamic)
    apply(generation.spare_policy.adjust_dynamic(generation.spare_limits, pool_.count_workers(generation)),
          generation, now);
  if (generation.spare_limits.mode == PoolMode::kOndemand) drain_expired(generation, now);
}

void PoolScaler::drain_expired(Generation& generation, SteadyTime now) {
  const auto timeout = generation.settings.pool.process_idle_timeout;
  while (const auto longest = pool_.longest_idle(generation)) {
    if (now < longest->idle_since + timeout) return;
    pool_.drain_worker(longest->pid, generation, now);
  }
}

void PoolScaler::apply(const PoolAdjustment& adjustment, Generation& generation, SteadyTime now) {
  if (adjustment.reached_limit) {
    board_.pool().max_children_reached.fetch_add(1, kRelaxed);
    log::warning("max_children_reached", {{"workers", std::to_string(generation.spare_limits.max_children)}});
  }
  if (adjustment.forks > 0) {
    generation.open_positions(adjustment.forks);
    pool_.fork_missing(generation, now);
  }
  if (!adjustment.retire_one) return;
  if (const auto longest = pool_.longest_idle(generation)) pool_.drain_worker(longest->pid, generation, now);
}

bool PoolScaler::has_pending_connection() const {
  pollfd socket{listen_fd_, POLLIN, 0};
  return listen_fd_ >= 0 && poll(&socket, 1, 0) == 1 && (socket.revents & POLLIN) != 0;
}

int PoolScaler::fd_to_watch(const Generation& generation, SteadyTime now) const {
  const bool is_ondemand = generation.was_ready && generation.spare_limits.mode == PoolMode::kOndemand;
  return is_ondemand && now >= paused_until_ ? listen_fd_ : -1;
}

SteadyTime PoolScaler::next_deadline(const Generation& generation, SteadyTime now) const {
  if (!generation.was_ready) return SteadyTime::max();
  return paused_until_ > now ? std::min(paused_until_, next_check_at_) : next_check_at_;
}

}  // namespace freshet
