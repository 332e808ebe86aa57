// Recommendations: what a reader should see next, and why. Steps: load (1 RTT), score, exclude and
// cap, select the page, then fill it from the search index until it is full or no visible item is
// left.
//
// Exclusions apply immediately, on every worker: an item that was viewed, interacted with or
// dismissed before the request is not in its response. Hidden and deleted items are dropped by
// their cards (core/items/card_cache.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/base/dependency.h"
#include "core/config/settings.h"
#include "core/feed/ports.h"
#include "core/items/card_cache.h"
#include "core/items/ports.h"
#include "core/readers/ports.h"
#include "core/readers/reason.h"
#include "core/recommend/ports.h"
#include "core/recommend/selection.h"

namespace freshet::recommend {

struct RecommendRequest {
  ReaderId reader;  // empty: anonymous; served by trend only
  std::size_t limit = 20;
  ExclusionMode exclude = ExclusionMode::kHard;
  feed::SearchCost cost = {};  // records the cost of index searches; null: not recorded
};

struct Recommendation {
  ItemId id;
  items::SharedCard card;
  double score = 0;  // 0: filled up from the index
  readers::Reason reason;
};

struct RecommendPage {
  std::vector<Recommendation> items;
  ExcludedCounts excluded;
  std::string model;
  // kRedis: the reader's state was unavailable, so nothing is excluded. kIndex: the page may be
  // short.
  std::optional<Dependency> degraded;
};

struct SimilarPage {
  std::vector<Recommendation> items;
  std::string model;  // of the similar content; "search" if the index was used
  // kRedis: titles are from the last copy, and hidden items may appear. kIndex: only items known to
  // the model.
  std::optional<Dependency> degraded;
};

// Result of explain(): the inputs and intermediate results behind a page.
struct RankingTrace {
  UnixSeconds at;
  readers::ReaderState state;
  std::shared_ptr<const CandidateSet> candidates;
  std::unique_ptr<Selection> selection;         // over `candidates` and `state`
  std::unordered_set<std::string> not_visible;  // hidden, deleted or never registered
  RecommendPage page;
};

class Recommendations {
 public:
  using WallClock = std::function<UnixSeconds()>;
  // All references must outlive this.
  Recommendations(readers::ReaderStore& readers, Recommender& recommender, items::CardCache& cards,
                  feed::Recall& recall, const Settings& settings, WallClock clock = wall_now);

  // 1 RTT if all titles are cached. One more if some are not, and one per retry after a title
  // turned out to be hidden. If too few candidates are left, also index searches and one RTT per
  // hundred items found; without an index, the page is short. If Redis is unavailable, returns
  // fallback_page(). Errors: kInternal only.
  Task<Result<RecommendPage>> page(const RecommendRequest& request);
  // Returns the last trending items, unfiltered and marked as degraded.
  RecommendPage fallback_page(const RecommendRequest& request);
  // `observer` is called with the items of each page that page() returns to a known reader, except
  // fallback_page() and items that the same reader was shown earlier on that day (UTC; by this
  // object, among the last kMaxShown).
  void on_impressions(std::function<void(std::span<const ItemId>)> observer) {
    impression_observer_ = std::move(observer);
  }
  // The items that readers read after this one, mixed with the trend and with items of similar
  // content (similar_mix.h): by the model, or by the search index if the item is newer than the
  // model. 1 RTT if all titles are cached, otherwise 2; more if the trend is needed and old
  // (Recommender::trending()).
  // If Redis is unavailable, uses the last copy of trending items and marks the page as degraded.
  // Errors: kNotFound "unknown_item"; kInternal.
  // Leaves out what `reader` dismissed, which takes 1 RTT more; empty: no reader.
  Task<Result<SimilarPage>> similar(const ItemId& item, const ReaderId& reader, std::size_t limit,
                                    feed::SearchCost cost = {});
  // Like page(), with the intermediate results. Redis errors are returned as errors.
  Task<Result<std::unique_ptr<RankingTrace>>> explain(const RecommendRequest& request);

  // Selects the best items of a trace, except those in `excluded`. Adds items that turn out to be
  // hidden or missing to `excluded`. 1 RTT, or as for page().
  Task<Result<std::vector<Recommendation>>> select_page(const RankingTrace& trace, std::size_t limit,
                                                        std::unordered_set<std::string>& excluded);

 private:
  static constexpr std::size_t kMaxShown = 50'000;
  void report_impressions(const ReaderId& reader, const RecommendPage& page);
  Task<Result<void>> fill_from_index(RankingTrace& trace, const RecommendRequest& request);
  Task<Result<bool>> append_recalled(RankingTrace& trace, const std::vector<const feed::Candidate*>& eligible,
                                     std::size_t limit);
  void add_from_stale_snapshot(const std::vector<SimilarItem>& found, std::size_t limit, SimilarPage& page);
  Task<Result<std::vector<SimilarItem>>> find_similar_content(const ItemId& item, std::size_t limit,
                                                              feed::SearchCost cost, SimilarPage& page);
  Task<Result<std::vector<SimilarItem>>> find_related(const ItemId& item, std::size_t limit,
                                                      feed::SearchCost cost, SimilarPage& page);

  readers::ReaderStore& readers_;
  Recommender& recommender_;
  items::CardCache& cards_;
  feed::Recall& recall_;
  const SelectionSettings selection_;
  const WallClock clock_;
  std::function<void(std::span<const ItemId>)> impression_observer_;
  std::unordered_set<std::uint64_t> shown_;  // hashes of reader and item on shown_day_
  std::int64_t shown_day_ = 0;
};

}  // namespace freshet::recommend
