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
constexpr std::size_t kWaitingPerThread = 64;
// How long: the reader gets what was buffered before, which is better than a page that comes too
// late.
constexpr milliseconds kPatience{500};

tl::unexpected<Error> away(const std::string& why) {
  log::debug("recall_failed", {{"why", why}});
  return fail(ErrorCode::kUnavailable, "index_away", {}, why);
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
      source_(search_source(settings.search)),
      budget_(settings.search.shards.empty() ? settings.recall.budget : milliseconds(0)) {}

Result<std::uint64_t> BlockingRecall::documents() {
  try {
    return source_->current().get_doccount();
  } catch (const Xapian::Error& error) {
    source_->discard();
    return away(error.get_description());
  } catch (const std::exception& error) {
    source_->discard();
    return away(error.what());
  }
}

Result<Recalled> BlockingRecall::search(const RecallQuery& query) {
  std::string why;
  struct Meter {
    const SearchCost& cost;
    std::chrono::microseconds began = search::thread_cpu_time();
    ~Meter() {
      if (cost) *cost += search::thread_cpu_time() - began;
    }
  } const meter{query.cost};
  const search::SearchDeadline deadline(budget_);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    try {
      return search_once(query, deadline);
    } catch (const search::SearchTimeout& late) {
      return fail(ErrorCode::kUnavailable, "recall_late", {}, late.what());
    } catch (const Xapian::NetworkTimeoutError& error) {
      why = error.get_description();
      attempt = kAttempts;  // the caller has waited long enough
    } catch (const Xapian::Error& error) {
      why = error.get_description();
    } catch (const std::exception& error) {
      why = error.what();
    }
    source_->discard();
  }
  return away(why);
}

Result<Recalled> BlockingRecall::search_once(const RecallQuery& query,
                                             const search::SearchDeadline& deadline) {
  MatchQuery match;
  if (!query.text.empty()) {
    FRESHET_TRY(terms, text_query(query.text, stemmer_));
    match = {*std::move(terms), true};
  }
  const Xapian::Database& database = source_->current();
  if (newest_of_ != source_->version()) newest_ = {};
  newest_of_ = source_->version();
  if (query.text.empty()) match.terms = interests_.query(database, query.interests);
  return ExactTop(database, std::move(match), decay_, query.now, query.size,
                  budget_.count() > 0 ? &deadline : nullptr, &newest_)
      .search();
}

PooledRecall::Lane::Lane(const Settings& settings, EventLoop& loop)
    : pool(loop, static_cast<std::size_t>(std::max(settings.recall.threads, 1)),
           kWaitingPerThread * static_cast<std::size_t>(std::max(settings.recall.threads, 1)),
           "recall_busy") {
  for (std::size_t i = 0; i < pool.threads(); ++i)
    searchers.push_back(std::make_unique<BlockingRecall>(settings));
}

PooledRecall::PooledRecall(const Settings& settings, EventLoop& loop)
    : liked_(settings, loop), typed_(settings, loop) {}

Task<Result<std::uint64_t>> PooledRecall::documents() {
  std::function<Result<std::uint64_t>(std::size_t)> work = [this](std::size_t thread) {
    return liked_.searchers[thread]->documents();
  };
  auto asking = liked_.pool.run<std::uint64_t>(std::move(work), BlockingPool::Clock::now() + kPatience);
  auto found = co_await asking;
  co_return found;
}

Task<Result<Recalled>> PooledRecall::search(RecallQuery query) {
  // Whoever types has one search at a time; forgotten with this coroutine's frame.
  struct Turn {
    std::unordered_set<ReaderId>& typing;
    ReaderId reader;
    explicit Turn(std::unordered_set<ReaderId>& all) : typing(all) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      if (!reader.empty()) typing.erase(reader);
    }
  };
  Turn turn(typing_);
  if (!query.text.empty() && !query.reader.empty()) {
    if (!typing_.insert(query.reader).second) co_return fail(ErrorCode::kUnavailable, "recall_busy");
    turn.reader = query.reader;
  }
  Lane& lane = query.text.empty() ? liked_ : typed_;
  std::function<Result<Recalled>(std::size_t)> work = [&lane, query = std::move(query)](std::size_t thread) {
    return lane.searchers[thread]->search(query);
  };
  auto searching = lane.pool.run<Recalled>(std::move(work), BlockingPool::Clock::now() + kPatience);
  auto found = co_await searching;
  co_return found;
}

}  // namespace freshet::feed
