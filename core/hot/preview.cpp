#include "core/hot/preview.h"

#include <algorithm>
#include <set>

#include "core/hot/item_stats.h"

namespace freshet::hot {

namespace {

constexpr std::int64_t kPreviewPage = 500;
constexpr std::size_t kStatsBatchSize = 100;  // about 2 ms of Redis, which blocks other clients

Task<Result<std::vector<ItemId>>> top_of_rank(HotStore& hot, const ListQuery& query) {
  std::vector<ItemId> ids;
  std::set<std::string, std::less<>> seen;  // the rank may change between two pages
  std::optional<RankCursor> from = RankCursor();
  while (from && ids.size() < kMaxPreviewCandidates) {
    FRESHET_CO_TRY(page, co_await hot.rank_page(query, std::move(*from), kPreviewPage));
    for (const ScoredItem& each : page->items) {
      if (ids.size() < kMaxPreviewCandidates && seen.insert(each.item.str()).second) ids.push_back(each.item);
    }
    from = std::move(page->next);
  }
  co_return ids;
}

// Highest first; ties as in ZREVRANGE.
bool entry_ranks_before(const ListEntry& a, const ListEntry& b) {
  return a.score != b.score ? a.score > b.score : a.item.view() > b.item.view();
}

Task<Result<std::vector<ListEntry>>> rescore(HotStore& hot, const std::vector<ItemId>& ids,
                                             const Model& model, const Settings& trial) {
  std::vector<ListEntry> entries;
  for (std::size_t from = 0; from < ids.size(); from += kStatsBatchSize) {
    const std::vector<ItemId> batch(
        ids.begin() + static_cast<std::ptrdiff_t>(from),
        ids.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), from + kStatsBatchSize)));
    FRESHET_CO_TRY(stats, co_await hot.stats(batch, Ranks::kOmit));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const double score = computed_score(model, (*stats)[i], trial);
      if (score > 0) entries.push_back({batch[i], score, {}});
    }
  }
  std::sort(entries.begin(), entries.end(), entry_ranks_before);
  if (entries.size() > kMaxListSize) entries.resize(kMaxListSize);
  co_return entries;
}

}  // namespace

Task<Result<ServedList>> preview(HotStore& hot, items::CardCache& cards, const Settings& trial,
                                 const ListQuery& query, UnixSeconds now) {
  if (!query.model->is_computed()) {
    HotLists lists(hot, cards, trial);
    auto served = co_await lists.build_at(query, now);
    if (served && served->degraded) co_return fail(ErrorCode::kUnavailable, "redis_unavailable");
    co_return served;
  }
  FRESHET_CO_TRY(ids, co_await top_of_rank(hot, query));
  FRESHET_CO_TRY(entries, co_await rescore(hot, *ids, *query.model, trial));
  std::vector<ItemId> best;
  for (const ListEntry& each : *entries) best.push_back(each.item);
  FRESHET_CO_TRY(found, co_await cards.get(best));
  for (std::size_t i = 0; i < best.size(); ++i) (*entries)[i].card = std::move((*found)[i]);
  co_return ServedList{std::make_shared<const HotList>(render(*entries, now)), false};
}

}  // namespace freshet::hot
