#include "fcgi/rank_maintenance.h"

#include <chrono>
#include <string>

#include "core/base/log.h"

namespace freshet {

Task<void> RankMaintenance::run() {
  const auto outdated = co_await hot::outdated_ranks(sources_.redis, sources_.settings, sources_.keys);
  if (outdated && !outdated->empty()) co_await rebuild_ranks(*outdated);
  // A failed replay is repeated after a second.
  for (;;) {
    co_await replay_crash_journal();
    co_await wait_one_second();
    (void)co_await hot::run_rank_maintenance(sources_.bulk, sources_.settings, sources_.keys);
  }
}

Task<void> RankMaintenance::wait_one_second() {
  AsyncEvent<int> elapsed;
  timer_.after(std::chrono::seconds(1), [&elapsed] { elapsed.fire(0); });
  co_await elapsed.wait();
}

void RankMaintenance::mark_in_flight() {
  for (const std::string& id : sources_.crash_journal) sources_.rank_updater.mark_in_flight(id);
}

Task<void> RankMaintenance::replay_crash_journal() {
  if (sources_.crash_journal.empty()) co_return;
  const auto placed =
      co_await hot::rank_articles(sources_.bulk, sources_.crash_journal, sources_.settings, sources_.keys);
  if (!placed) {
    mark_in_flight();
    co_return;
  }
  log::notice("crash_journal_replayed", {{"articles", std::to_string(sources_.crash_journal.size())}});
  sources_.crash_journal.clear();
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
