// Recall from the search index: blocking, and as the port that a worker uses.
#pragma once

#include <memory>
#include <vector>

#include "core/async/blocking_pool.h"
#include "core/async/event_loop.h"
#include "core/base/result.h"
#include "core/base/settings.h"
#include "core/feed/ports_feed.h"
#include "core/rank/decay.h"
#include "core/store/recall_query.h"
#include "core/store/recall_source.h"

namespace freshet::store {

// One thread's searcher. Blocks.
class BlockingRecall {
 public:
  // Opens nothing yet. An unknown stemmer counts as none.
  explicit BlockingRecall(const Settings& settings);
  // As feed::Recall::search(). A database that changed or went away under the search is opened again and the
  // search repeated, a few times.
  Result<feed::Recalled> search(const feed::RecallQuery& query);

 private:
  Result<feed::Recalled> search_once(const feed::RecallQuery& query);

  Xapian::Stem stemmer_;
  rank::GaussDecay decay_;
  std::unique_ptr<SearchSource> source_;
  InterestTerms interests_;
};

// The port, on recall.threads threads of the worker. Made after the fork; destroyed before the loop. Errors
// beyond the port's: kUnavailable "recall_busy".
class PooledRecall final : public feed::Recall {
 public:
  PooledRecall(const Settings& settings, EventLoop& loop);
  Task<Result<feed::Recalled>> search(feed::RecallQuery query) override;

 private:
  std::vector<std::unique_ptr<BlockingRecall>> searchers_;  // one a thread
  BlockingPool pool_;                                       // destroyed first
};

}  // namespace freshet::store
