// Recall from the search index: blocking, and as the port that a worker uses.
#pragma once

#include <chrono>
#include <memory>
#include <unordered_set>
#include <vector>

#include "core/async/blocking_pool.h"
#include "core/async/event_loop.h"
#include "core/base/result.h"
#include "core/config/settings.h"
#include "core/feed/decay.h"
#include "core/feed/exact_top.h"
#include "core/feed/ports.h"
#include "core/feed/recall_query.h"
#include "core/feed/recall_source.h"
#include "core/search/search_deadline.h"

namespace freshet::feed {

// One thread's searcher. Blocks.
class BlockingRecall {
 public:
  // Opens nothing yet. An unknown stemmer counts as none.
  explicit BlockingRecall(const Settings& settings);
  // As Recall::search(). A database that changed or went away under the search is opened again and
  // the search repeated, a few times.
  Result<RecallResult> search(const RecallQuery& query);
  // How many documents there are. Errors: kUnavailable "index_unavailable".
  Result<std::uint64_t> document_count();

 private:
  Result<RecallResult> search_once(const RecallQuery& query, const search::SearchDeadline& deadline);

  Xapian::Stem stemmer_;
  GaussDecay decay_;
  std::unique_ptr<SearchSource> source_;
  InterestTerms interests_;
  NewestItems newest_;
  std::uint64_t newest_version_ = 0;  // the source's version
  // Of CPU; 0: a remote shard bounds a search by its socket's timeout.
  std::chrono::microseconds cpu_budget_;
};

// The port, on threads of the worker: recall.threads for what readers type, and as many for all
// else, which therefore never waits for a text. A search that has waited for half a second is not
// begun. Made after the fork; destroyed before the loop.
class PooledRecall final : public Recall {
 public:
  PooledRecall(const Settings& settings, EventLoop& loop);
  // How many documents the index has, on a thread as search(). Errors: kUnavailable "index_unavailable",
  // "search_busy".
  Task<Result<std::uint64_t>> document_count();
  Task<Result<RecallResult>> search(RecallQuery query) override;

 private:
  struct SearchQueue {
    SearchQueue(const Settings& settings, EventLoop& loop);
    std::vector<std::unique_ptr<BlockingRecall>> searchers;  // one a thread
    BlockingPool pool;                                       // destroyed first
  };
  std::unordered_set<ReaderId> searching_readers_;  // whose text is searched for
  SearchQueue interest_queue_, text_queue_;
};

}  // namespace freshet::feed
