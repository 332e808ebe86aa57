#include "core/hot/preview.h"

#include <algorithm>
#include <set>

#include "core/hot/item_stats.h"

namespace freshet::hot {

namespace {

constexpr std::int64_t kPreviewPage = 500;
constexpr std::size_t kStatsAtOnce = 100;  // about 2 ms of Redis, which others wait for

Task<Result<std::vector<ItemId>>> highest_of_today(HotStore& hot, const ListQuery& query) {
  std::vector<ItemId> ids;
  std::set<std::string, std::less<>> seen;  // the rank may move between two pages
  std::optional<RankPlace> from = RankPlace();
  while (from && ids.size() < kPreviewed) {
    FRESHET_CO_TRY(page, co_await hot.rank_page(query, std::move(*from), kPreviewPage));
    for (const ScoredItem& each : page->items) {
      if (ids.size() < kPreviewed && seen.insert(each.item.str()).second) ids.push_back(each.item);
    }
    from = std::move(page->next);
  }
  co_return ids;
}

// Highest first; equals as ZREVRANGE has them.
bool ranks_before(const ShownItem& a, const ShownItem& b) {
  return a.score != b.score ? a.score > b.score : a.item.view() > b.item.view();
}

Task<Result<std::vector<ShownItem>>> scored_anew(HotStore& hot, const std::vector<ItemId>& ids,
                                                 const Model& model, const Settings& tried) {
  std::vector<ShownItem> shown;
  for (std::size_t from = 0; from < ids.size(); from += kStatsAtOnce) {
    const std::vector<ItemId> some(
        ids.begin() + static_cast<std::ptrdiff_t>(from),
        ids.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), from + kStatsAtOnce)));
    FRESHET_CO_TRY(stats, co_await hot.stats(some, Ranks::kLeftOut));
    for (std::size_t i = 0; i < some.size(); ++i) {
      const double score = terms_of(model, (*stats)[i], tried).score;
      if (score > 0) shown.push_back({some[i], score, {}});
    }
  }
  std::sort(shown.begin(), shown.end(), ranks_before);
  if (shown.size() > kLongestList) shown.resize(kLongestList);
  co_return shown;
}

}  // namespace

Task<Result<ServedList>> preview(HotStore& hot, items::CardCache& cards, const Settings& tried,
                                 const ListQuery& query, UnixSeconds now) {
  if (query.model->base == nullptr) {
    HotLists lists(hot, cards, tried);
    auto served = co_await lists.at(query, now);
    if (served && served->degraded) co_return fail(ErrorCode::kUnavailable, "redis_away");
    co_return served;
  }
  FRESHET_CO_TRY(ids, co_await highest_of_today(hot, query));
  FRESHET_CO_TRY(shown, co_await scored_anew(hot, *ids, *query.model, tried));
  std::vector<ItemId> best;
  for (const ShownItem& each : *shown) best.push_back(each.item);
  FRESHET_CO_TRY(found, co_await cards.of(best));
  for (std::size_t i = 0; i < best.size(); ++i) (*shown)[i].card = std::move((*found)[i]);
  co_return ServedList{std::make_shared<const HotList>(render(*shown, now)), false};
}

}  // namespace freshet::hot
