#include "core/tuning/past_list.h"

#include <utility>

namespace freshet::tuning {

Result<std::vector<PastEntry>> past_list(const std::string& database, const PastListQuery& query) {
  FRESHET_TRY(history, read_view_history(database, query.at, seconds{0}));
  std::vector<PastEntry> out;
  for (const ScoredItem& each : list_at(*history, query.list, query.values, query.at)) {
    if (query.window.count() > 0 && each.published < query.at - query.window) continue;
    out.push_back({std::move(history->ids[each.item]), each.score, each.published});
  }
  return out;
}

}  // namespace freshet::tuning
