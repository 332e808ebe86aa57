// Recommendations: what a reader should see next, and why. Gather (1 RTT) → score → exclude, cap →
// cut, fill up from the search index until the page is full or nothing visible is left.
//
// Exclusions are of the moment: what was viewed, done or dismissed before the request is out of its
// reply, on every worker. Hidden and deleted items are out by their cards
// (core/items/card_cache.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
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
  ReaderId reader;  // empty: anonymous, and gets what is trending
  std::size_t limit = 20;
  ExclusionMode exclude = ExclusionMode::kHard;
  feed::SearchCost cost = {};  // of what it searches; null: not counted
};

struct Recommendation {
  ItemId id;
  items::SharedCard card;
  double score = 0;  // 0: the page was filled up with it
  readers::Reason reason;
};

struct RecommendPage {
  std::vector<Recommendation> items;
  ExcludedCounts excluded;
  std::string model;
  // Redis: without the reader's state, nothing is excluded. The index: fewer than were asked for.
  std::optional<Dependency> degraded;
};

struct SimilarPage {
  std::vector<Recommendation> items;  // reasons are not set
  std::string model;                  // or "search"
  // Redis: titles of the last copy, and hidden items may be there. The index: only what the model
  // knows to be like it.
  std::optional<Dependency> degraded;
};

// What explain() tells of a reader's moment. `page` is what was served then.
struct RankingTrace {
  UnixSeconds at;
  readers::ReaderState state;
  std::shared_ptr<const CandidateSet> candidates;
  std::unique_ptr<Selection> selection;        // over `suggestions` and the state
  std::unordered_set<std::string> not_visible;  // hidden, deleted or never put
  RecommendPage page;
};

class Recommendations {
 public:
  using WallClock = std::function<UnixSeconds()>;
  // All references must outlive this.
  Recommendations(readers::ReaderStore& readers, Recommender& recommender, items::CardCache& cards,
                  feed::Recall& recall, const Settings& settings, WallClock clock = wall_now);

  // 1 RTT when the titles are known; one more when some are not, and for each time that a title
  // turned out to be hidden. A reader for whom too few candidates are left costs searches of the
  // index besides, and a trip for each hundred items that these find; without an index such a page
  // is short. Redis away: the last of what was trending, unfiltered, degraded. Errors: kInternal
  // only.
  Task<Result<RecommendPage>> page(const RecommendRequest& request);
  RecommendPage fallback_page(const RecommendRequest& request);  // that one
  // What is like an item: by the model, and for an item newer than it by the search index. 1 RTT.
  // Redis away: as the last copy of what is trending knows them, degraded. Errors: kNotFound
  // "unknown_item"; kInternal.
  Task<Result<SimilarPage>> similar(const ItemId& item, std::size_t limit, feed::SearchCost cost = {});
  // A page with everything behind it; as page(), but Redis' errors are errors.
  Task<Result<std::unique_ptr<RankingTrace>>> explain(const RecommendRequest& request);

  // The best of a moment that explain() told of, without `unwanted`, which gains what turned out to
  // be hidden or no item. 1 RTT, or as page().
  Task<Result<std::vector<Recommendation>>> select_page(const RankingTrace& trace, std::size_t limit,
                                                std::unordered_set<std::string>& excluded);

 private:
  Task<Result<void>> fill_from_index(RankingTrace& trace, const RecommendRequest& request);
  Task<Result<bool>> append_recalled(RankingTrace& trace, const std::vector<const feed::Candidate*>& eligible,
                            std::size_t limit);
  void add_from_stale_snapshot(const std::vector<SimilarItem>& found, std::size_t limit, SimilarPage& page);
  Task<Result<std::vector<SimilarItem>>> find_related(const ItemId& item, std::size_t limit, feed::SearchCost cost,
                                                 SimilarPage& page);

  readers::ReaderStore& readers_;
  Recommender& recommender_;
  items::CardCache& cards_;
  feed::Recall& recall_;
  const SelectionSettings selection_;
  const WallClock clock_;
};

}  // namespace freshet::recommend
