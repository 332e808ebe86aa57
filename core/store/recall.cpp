#include "core/store/recall.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "core/base/log.h"
#include "core/store/exact_top.h"
#include "core/store/search_schema.h"

namespace freshet::store {
namespace {

// Twice for a writer that commits in mid-search, once more for a rebuild that comes then.
constexpr int kAttempts = 4;
// Searches that may wait for a thread; each takes some milliseconds.
constexpr std::size_t kWaitingPerThread = 64;

tl::unexpected<Error> away(const std::string& why) {
  log::debug("recall_failed", {{"why", why}});
  return fail(ErrorCode::kUnavailable, "index_away", {}, why);
}

Xapian::Stem stemmer_or_none(const std::string& name) {
  auto stemmer = stemmer_named(name);
  if (stemmer) return *stemmer;
  log::warning("bad_stemmer", {{"name", name}});
  return {};
}

}  // namespace

BlockingRecall::BlockingRecall(const Settings& settings)
    : stemmer_(stemmer_or_none(settings.search.stemmer)),
      decay_(settings.recall),
      source_(search_source(settings.search)) {}

Result<feed::Recalled> BlockingRecall::search(const feed::RecallQuery& query) {
  std::string why;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    try {
      return search_once(query);
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

Result<feed::Recalled> BlockingRecall::search_once(const feed::RecallQuery& query) {
  MatchQuery match;
  if (!query.text.empty()) {
    auto terms = text_query(query.text, stemmer_);
    if (!terms) return tl::unexpected(terms.error());
    match = {*std::move(terms), true};
  }
  const Xapian::Database& database = source_->current();
  if (query.text.empty()) match.terms = interests_.query(database, query.interests);
  return ExactTop(database, std::move(match), decay_, query.now, query.size).search();
}

PooledRecall::PooledRecall(const Settings& settings, EventLoop& loop)
    : pool_(loop, static_cast<std::size_t>(std::max(settings.recall.threads, 1)),
            kWaitingPerThread * static_cast<std::size_t>(std::max(settings.recall.threads, 1)),
            "recall_busy") {
  for (std::size_t i = 0; i < pool_.threads(); ++i) {
    searchers_.push_back(std::make_unique<BlockingRecall>(settings));
  }
}

Task<Result<feed::Recalled>> PooledRecall::search(feed::RecallQuery query) {
  return pool_.run<feed::Recalled>(
      [this, query = std::move(query)](std::size_t thread) { return searchers_[thread]->search(query); });
}

}  // namespace freshet::store
