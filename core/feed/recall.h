// Recall from the search index: a blocking searcher, and the Recall port on a thread pool.
#pragma once

#include <chrono>
#include <cstdint>
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

// Searcher of one thread. Blocks.
class BlockingRecall {
 public:
  // The index is opened on first use. An unknown stemmer is logged and ignored.
  explicit BlockingRecall(const Settings& settings);
  // See Recall::search(). If the database changes or becomes unavailable during the search, reopens
  // it and retries a few times.
  Result<RecallResult> search(const RecallQuery& query);
  // Number of documents in the index. Errors: kUnavailable "index_unavailable".
  Result<std::uint64_t> document_count();

 private:
  Result<RecallResult> search_once(const RecallQuery& query, const search::SearchDeadline& deadline);

  Xapian::Stem stemmer_;
  GaussDecay decay_;
  std::unique_ptr<SearchSource> source_;
  InterestTerms interests_;
  NewestItems newest_;
  search::RecentIndex recent_;
  std::uint64_t newest_version_ = 0;  // SearchSource::version() that newest_ belongs to
  bool is_local_;
  // CPU time; 0 with remote shards, whose searches are bounded by the socket timeout.
  std::chrono::microseconds cpu_budget_;
};

// Recall on the worker's threads: recall.threads for text searches and as many for everything else,
// which therefore never waits for a text search. A search that has been queued for half a second is
// dropped. Create after the fork; destroy before the event loop.
class PooledRecall final : public Recall {
 public:
  PooledRecall(const Settings& settings, EventLoop& loop);
  // Number of documents in the index, read on a pool thread. Errors: kUnavailable
  // "index_unavailable", "search_busy".
  Task<Result<std::uint64_t>> document_count();
  Task<Result<RecallResult>> search(RecallQuery query) override;

 private:
  struct SearchQueue {
    SearchQueue(const Settings& settings, EventLoop& loop);
    std::vector<std::unique_ptr<BlockingRecall>> searchers;  // one per thread
    BlockingPool pool;                                       // destroyed first
  };
  std::unordered_set<ReaderId> searching_readers_;  // readers with a text search in progress
  SearchQueue interest_queue_, text_queue_;
};

}  // namespace freshet::feed
