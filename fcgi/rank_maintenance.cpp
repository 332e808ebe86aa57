#include "fcgi/rank_maintenance.h"

#include <chrono>
#include <string>

#include "core/base/log.h"

namespace freshet {

Task<void> RankMaintenance::run() {
  const auto outdated = co_await hot::outdated_ranks(sources_.redis, sources_.settings, sources_.keys);
  if (outdated && !outdated->empty()) co_await rebuild_ranks(*outdated);
  for (;;) {
    co_await rank_articles_again();
    co_await wait_one_second();
    (void)co_await hot::run_rank_maintenance(sources_.bulk, sources_.settings, sources_.keys);
  }
}

Task<void> RankMaintenance::wait_one_second() {
  AsyncEvent<int> elapsed;
  timer_.after(std::chrono::seconds(1), [&elapsed] { elapsed.fire(0); });
  co_await elapsed.wait();
}

Task<void> RankMaintenance::rank_articles_again() {
  for (std::string& id : sources_.take_crash_journals()) sources_.rank_updater.rank_again(std::move(id));
  const std::vector<std::string> ids = sources_.rank_updater.begin_rank_again();
  if (ids.empty()) co_return;
  const auto placed = co_await hot::rank_articles(sources_.bulk, ids, sources_.settings, sources_.keys);
  sources_.rank_updater.end_rank_again(placed.has_value());
  if (placed) log::notice("articles_ranked_again", {{"articles", std::to_string(ids.size())}});
}

Task<void> RankMaintenance::rebuild_ranks(const hot::ModelList& models) {
  std::string names;
  for (const hot::Model* model : models) names.append(names.empty() ? "" : " ").append(model->name);
  log::notice("rank_rebuild_started", {{"models", names}});
  const auto rebuilt = co_await hot::rebuild_ranks(sources_.bulk, sources_.settings, sources_.keys, models);
  if (!rebuilt) {
    log::warning("rank_rebuild_failed", {{"error", rebuilt.error().detail}});
    co_return;
  }
  log::notice("rank_rebuilt",
              {{"items", std::to_string(rebuilt->items)}, {"ranked", std::to_string(rebuilt->ranked)}});
}

}  // namespace freshet
