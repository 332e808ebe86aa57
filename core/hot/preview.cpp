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

// The best of mode = current under each of the settings.
Task<Result<std::vector<ItemId>>> top_of_buckets(HotStore& hot, items::CardCache& cards,
                                                 const std::vector<Settings>& variants,
                                                 const ListQuery& query, UnixSeconds now) {
  std::set<ItemId> ids;
  for (const Settings& each : variants) {
    HotLists lists(hot, cards, each);
    FRESHET_CO_TRY(best, co_await lists.scan_buckets(query, now));
    for (ScoredItem& item : *best) ids.insert(std::move(item.item));
  }
  co_return std::vector<ItemId>(ids.begin(), ids.end());
}

double score_under(const Model& model, const ItemStats& stats, const Settings& settings) {
  return model.is_computed() ? computed_score(model, stats, settings)
                             : views_terms(stats, settings.views).current;
}

using Entries = std::vector<ListEntry>;

Task<Result<std::vector<Entries>>> rescore(HotStore& hot, const std::vector<ItemId>& ids, const Model& model,
                                           const std::vector<Settings>& variants) {
  std::vector<Entries> out(variants.size());
  for (std::size_t from = 0; from < ids.size(); from += kStatsBatchSize) {
    const std::vector<ItemId> batch(
        ids.begin() + static_cast<std::ptrdiff_t>(from),
        ids.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), from + kStatsBatchSize)));
    FRESHET_CO_TRY(stats, co_await hot.stats(batch, Ranks::kOmit));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      for (std::size_t variant = 0; variant < variants.size(); ++variant) {
        const double score = score_under(model, (*stats)[i], variants[variant]);
        const bool is_trending = model.is_computed() && model.base == nullptr && (*stats)[i].trend;
        if (score > 0 || is_trending) out[variant].push_back({batch[i], score, {}});
      }
    }
  }
  for (Entries& each : out) {
    std::sort(each.begin(), each.end(), entry_ranks_before);
    if (each.size() > kMaxListSize) each.resize(kMaxListSize);
  }
  co_return out;
}

}  // namespace

Task<Result<PreviewLists>> preview(HotStore& hot, items::CardCache& cards,
                                   const std::vector<Settings>& variants, const ListQuery& query,
                                   UnixSeconds now) {
  auto candidates = !query.model->is_computed() ? top_of_buckets(hot, cards, variants, query, now)
                                                : top_of_rank(hot, query);
  FRESHET_CO_TRY(ids, co_await candidates);
  FRESHET_CO_TRY(scored, co_await rescore(hot, *ids, *query.model, variants));
  PreviewLists out;
  for (Entries& entries : *scored) {
    std::vector<ItemId> best;
    for (const ListEntry& each : entries) best.push_back(each.item);
    FRESHET_CO_TRY(found, co_await cards.get(best));
    for (std::size_t i = 0; i < best.size(); ++i) entries[i].card = std::move((*found)[i]);
    out.push_back(std::make_shared<const HotList>(render(entries, now)));
  }
  co_return out;
}

}  // namespace freshet::hot
