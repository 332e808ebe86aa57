#include "fcgi/rank_keeper.h"

#include <chrono>
#include <string>

#include "core/base/log.h"
#include "core/hot/placing.h"
#include "core/hot/rebuild.h"

namespace freshet {

Task<void> RankKeeper::keep_in_step() {
  const auto match = co_await hot::has_current_params(sources_.redis, sources_.settings, sources_.keys);
  if (match && !*match) co_await rebuild();
  co_await place_noted();
  for (;;) {
    co_await wait_a_second();
    // A failure is the next second's business.
    (void)co_await hot::run_rank_maintenance(sources_.bulk, sources_.settings, sources_.keys);
  }
}

Task<void> RankKeeper::wait_a_second() {
  AsyncEvent<int> second;
  timer_.after(std::chrono::seconds(1), [&second] { second.fire(0); });
  co_await second.wait();
}

// A failure leaves them to the walk.
Task<void> RankKeeper::place_noted() {
  if (sources_.unplaced.empty()) co_return;
  const auto placed =
      co_await hot::rank_articles(sources_.bulk, sources_.unplaced, sources_.settings, sources_.keys);
  if (placed) log::notice("noted_articles_placed", {{"articles", std::to_string(sources_.unplaced.size())}});
  sources_.unplaced.clear();
}

Task<void> RankKeeper::rebuild() {
  log::notice("rank_rebuild_started");
  const auto rebuilt = co_await hot::rebuild_ranks(sources_.bulk, sources_.settings, sources_.keys);
  if (!rebuilt) {
    log::warning("rank_rebuild_failed", {{"error", rebuilt.error().detail}});
    co_return;
  }
  log::notice("rank_rebuilt",
              {{"items", std::to_string(rebuilt->items)}, {"ranked", std::to_string(rebuilt->ranked)}});
}

}  // namespace freshet
