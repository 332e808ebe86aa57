#include "fcgi/rank_keeper.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "core/base/log.h"
#include "core/hot/rebuild.h"

namespace freshet {

Task<void> RankKeeper::keep_in_step() {
  const auto match = co_await hot::params_match(sources_.redis, sources_.settings.engagement, sources_.keys);
  if (!match || *match) co_return;
  const bool rebuilt = co_await rebuild();
  if (!rebuilt) co_return;
  bool waited = false;
  while (older_workers_live()) {
    co_await wait_a_second();
    waited = true;
  }
  if (waited) co_await rebuild();
}

Task<void> RankKeeper::wait_a_second() {
  Event<int> second;
  timer_.expires_after(std::chrono::seconds(1));
  timer_.async_wait([&second](boost::system::error_code) { second.fire(0); });
  co_await second.wait();
}

Task<bool> RankKeeper::rebuild() {
  log::notice("rank_rebuild_started");
  const auto rebuilt = co_await hot::rebuild_rank(sources_.bulk, sources_.settings, sources_.keys);
  if (!rebuilt) {
    log::warning("rank_rebuild_failed", {{"error", rebuilt.error().detail}});
    co_return false;
  }
  log::notice("rank_rebuilt",
              {{"items", std::to_string(rebuilt->items)}, {"ranked", std::to_string(rebuilt->ranked)}});
  co_return true;
}

bool RankKeeper::older_workers_live() const {
  const std::uint32_t ours = sources_.slot.generation.load();
  const auto slots = sources_.board.slots();
  return std::any_of(slots.begin(), slots.end(), [ours](const WorkerSlot& other) {
    return other.state.load() != WorkerState::kEmpty && other.generation.load() < ours;
  });
}

}  // namespace freshet
