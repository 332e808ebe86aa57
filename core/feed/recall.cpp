#include "core/feed/recall.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "core/base/log.h"
#include "core/feed/adjacency.h"
#include "core/search/search_schema.h"

namespace freshet::feed {
namespace {

// Two retries for a writer that commits during the search, and one for a rebuild at that time.
constexpr int kMaxAttempts = 4;
// Queue limit per thread. A search takes a few milliseconds.
constexpr std::size_t kMaxQueuedPerThread = 64;
// After this time the reader gets the old buffer, which is better than a page that comes too late.
constexpr milliseconds kMaxQueueWait{500};

tl::unexpected<Error> index_unavailable(const std::string& cause) {
  log::debug("recall_failed", {{"error", cause}});
  return fail(ErrorCode::kUnavailable, "index_unavailable", {}, cause);
}

Xapian::Stem stemmer_or_none(const std::string& name) {
  auto stemmer = search::make_stemmer(name);
  if (stemmer) return *stemmer;
  log::warning("stemmer_rejected", {{"name", name}});
  return {};
}

}  // namespace

BlockingRecall::BlockingRecall(const Settings& settings)
    : stemmer_(stemmer_or_none(settings.search.stemmer)),
      decay_(settings.recall),
      source_(make_search_source(settings.search)),
      is_local_(settings.search.shards.empty()),
      cpu_budget_(is_local_ ? settings.recall.budget : milliseconds(0)) {}

Result<std::uint64_t> BlockingRecall::document_count() {
  try {
    return source_->database().get_doccount();
  } catch (const Xapian::Error& error) {
    source_->discard();
    return index_unavailable(error.get_description());
  } catch (const std::exception& error) {
    source_->discard();
    return index_unavailable(error.what());
  }
}

Result<RecallResult> BlockingRecall::search(const RecallQuery& query) {
  std::string failure;
  struct Meter {
    const SearchCost& cost;
    std::chrono::microseconds began = search::thread_cpu_time();
    ~Meter() {
      if (cost) *cost += search::thread_cpu_time() - began;
    }
  } const meter{query.cost};
  const search::SearchDeadline deadline(cpu_budget_);
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    try {
      return search_once(query, deadline);
    } catch (const search::SearchTimeout& timeout) {
      return fail(ErrorCode::kUnavailable, "search_timeout", {}, timeout.what());
    } catch (const Xapian::NetworkTimeoutError& error) {
      failure = error.get_description();
      attempt = kMaxAttempts;  // already waited long enough; do not retry
    } catch (const Xapian::Error& error) {
      failure = error.get_description();
    } catch (const std::exception& error) {
      failure = error.what();
    }
    source_->discard();
  }
  return index_unavailable(failure);
}

Result<RecallResult> BlockingRecall::search_once(const RecallQuery& query,
                                                 const search::SearchDeadline& deadline) {
  const Xapian::Database& database = source_->database();
  if (newest_version_ != source_->version()) newest_ = {};
  newest_version_ = source_->version();
  const search::SearchDeadline* const limit = cpu_budget_.count() > 0 ? &deadline : nullptr;
  search::RecentIndex* const recent = is_local_ ? &recent_ : nullptr;
  if (recent != nullptr) recent->refresh(source_->slices());
  if (query.text.empty()) {
    const bool is_weighted = query.interest_weight > 0;
    MatchQuery match{
        .base = is_weighted ? 1.0 : 0.0,
        .alternatives = interests_.weigh(database, query.interests, is_weighted ? query.interest_weight : 1)};
    return ExactTop(database, std::move(match), decay_, query.now, query.size, limit, &newest_, recent)
        .search();
  }
  TextQuery text =
      text_query(query.text, source_->has_stems() ? stemmer_ : Xapian::Stem(), database, is_local_);
  // Reading a position of a remote shard takes a round trip.
  const bool ranks_adjacency = is_local_ && !text.runs.empty();
  const std::size_t size = ranks_adjacency ? std::max(query.size, kMaxAdjacencyItems) : query.size;
  MatchQuery match{
      .terms = std::move(text.query), .matches_only = true, .alternatives = std::move(text.alternatives)};
  RecallResult result =
      ExactTop(database, std::move(match), decay_, query.now, size, limit, &newest_, recent).search();
  if (!ranks_adjacency) return result;
  rank_adjacent_higher(database, text.runs, limit, result.candidates);
  if (result.candidates.size() > query.size) {
    result.candidates.resize(query.size);
    result.exhausted = false;
  }
  return result;
}

PooledRecall::SearchQueue::SearchQueue(const Settings& settings, EventLoop& loop)
    : pool(loop, static_cast<std::size_t>(std::max(settings.recall.threads, 1)),
           kMaxQueuedPerThread * static_cast<std::size_t>(std::max(settings.recall.threads, 1)),
           "search_busy") {
  for (std::size_t i = 0; i < pool.threads(); ++i)
    searchers.push_back(std::make_unique<BlockingRecall>(settings));
}

PooledRecall::PooledRecall(const Settings& settings, EventLoop& loop)
    : interest_queue_(settings, loop), text_queue_(settings, loop) {}

Task<Result<std::uint64_t>> PooledRecall::document_count() {
  std::function<Result<std::uint64_t>(std::size_t)> work = [this](std::size_t thread) {
    return interest_queue_.searchers[thread]->document_count();
  };
  auto pending =
      interest_queue_.pool.run<std::uint64_t>(std::move(work), BlockingPool::Clock::now() + kMaxQueueWait);
  auto count = co_await pending;
  co_return count;
}

Task<Result<RecallResult>> PooledRecall::search(RecallQuery query) {
  // Marks the reader as searching until the coroutine frame is destroyed: one text search at a
  // time.
  struct ActiveSearch {
    std::unordered_set<ReaderId>& readers;
    ReaderId reader;
    explicit ActiveSearch(std::unordered_set<ReaderId>& all) : readers(all) {}
    ActiveSearch(const ActiveSearch&) = delete;
    ActiveSearch& operator=(const ActiveSearch&) = delete;
    ~ActiveSearch() {
      if (!reader.empty()) readers.erase(reader);
    }
  };
  ActiveSearch active(searching_readers_);
  if (!query.text.empty() && !query.reader.empty()) {
    if (!searching_readers_.insert(query.reader).second)
      co_return fail(ErrorCode::kUnavailable, "search_busy");
    active.reader = query.reader;
  }
  SearchQueue& queue = query.text.empty() ? interest_queue_ : text_queue_;
  std::function<Result<RecallResult>(std::size_t)> work = [&queue,
                                                           query = std::move(query)](std::size_t thread) {
    return queue.searchers[thread]->search(query);
  };
  auto pending = queue.pool.run<RecallResult>(std::move(work), BlockingPool::Clock::now() + kMaxQueueWait);
  auto result = co_await pending;
  co_return result;
}

}  // namespace freshet::feed
