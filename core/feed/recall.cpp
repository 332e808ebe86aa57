#include "core/feed/recall.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "core/base/log.h"
#include "core/search/search_schema.h"

namespace freshet::feed {
namespace {

// Twice for a writer that commits in mid-search, once more for a rebuild that comes then.
constexpr int kAttempts = 4;
// Searches that may wait for a thread; each takes some milliseconds.
constexpr std::size_t kMaxQueuedPerThread = 64;
// How long: the reader gets what was buffered before, which is better than a page that comes too
// late.
constexpr milliseconds kMaxQueueWait{500};

tl::unexpected<Error> index_unavailable(const std::string& why) {
  log::debug("recall_failed", {{"why", why}});
  return fail(ErrorCode::kUnavailable, "index_unavailable", {}, why);
}

Xapian::Stem stemmer_or_none(const std::string& name) {
  auto stemmer = search::make_stemmer(name);
  if (stemmer) return *stemmer;
  log::warning("bad_stemmer", {{"name", name}});
  return {};
}

}  // namespace

BlockingRecall::BlockingRecall(const Settings& settings)
    : stemmer_(stemmer_or_none(settings.search.stemmer)),
      decay_(settings.recall),
      source_(make_search_source(settings.search)),
      cpu_budget_(settings.search.shards.empty() ? settings.recall.budget : milliseconds(0)) {}

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
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    try {
      return search_once(query, deadline);
    } catch (const search::SearchTimeout& timeout) {
      return fail(ErrorCode::kUnavailable, "search_timeout", {}, timeout.what());
    } catch (const Xapian::NetworkTimeoutError& error) {
      failure = error.get_description();
      attempt = kAttempts;  // the caller has waited long enough
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
  MatchQuery match;
  if (!query.text.empty()) {
    FRESHET_TRY(terms, text_query(query.text, stemmer_));
    match = {*std::move(terms), true};
  }
  const Xapian::Database& database = source_->database();
  if (newest_version_ != source_->version()) newest_ = {};
  newest_version_ = source_->version();
  if (query.text.empty()) match.terms = interests_.build_query(database, query.interests);
  return ExactTop(database, std::move(match), decay_, query.now, query.size,
                  cpu_budget_.count() > 0 ? &deadline : nullptr, &newest_)
      .search();
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
  auto pending = interest_queue_.pool.run<std::uint64_t>(std::move(work), BlockingPool::Clock::now() + kMaxQueueWait);
  auto count = co_await pending;
  co_return count;
}

Task<Result<RecallResult>> PooledRecall::search(RecallQuery query) {
  // Whoever types has one search at a time; forgotten with this coroutine's frame.
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
    if (!searching_readers_.insert(query.reader).second) co_return fail(ErrorCode::kUnavailable, "search_busy");
    active.reader = query.reader;
  }
  SearchQueue& queue = query.text.empty() ? interest_queue_ : text_queue_;
  std::function<Result<RecallResult>(std::size_t)> work = [&queue, query = std::move(query)](std::size_t thread) {
    return queue.searchers[thread]->search(query);
  };
  auto pending = queue.pool.run<RecallResult>(std::move(work), BlockingPool::Clock::now() + kMaxQueueWait);
  auto result = co_await pending;
  co_return result;
}

}  // namespace freshet::feed
