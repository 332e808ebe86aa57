#include "core/search/search_index.h"

#include <xapian.h>

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "core/search/index_folder.h"
#include "core/search/index_partitions.h"
#include "core/search/search_schema.h"

namespace freshet::search {
namespace {

using Part = IndexLock::Part;

// A rebuild writes to disk after so many items, so that they do not all wait in memory.
constexpr std::uint64_t kRebuildBatch = 10000;

tl::unexpected<Error> locked(std::string why) {
  return fail(ErrorCode::kUnavailable, "index_locked", {}, std::move(why));
}

// Runs `work`; what it throws becomes an Error.
template <class Work>
auto guarded(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const Xapian::DatabaseLockError& error) {
    return locked(error.get_msg());
  } catch (const Xapian::Error& error) {
    return fail(ErrorCode::kUnavailable, "index_io", {}, error.get_description());
  } catch (const std::exception& error) {
    return fail(ErrorCode::kUnavailable, "index_io", {}, error.what());
  }
}

IndexFolder made_folder(const SearchSettings& settings) {
  std::filesystem::create_directories(settings.index);
  return IndexFolder(settings.index);
}

}  // namespace

struct SearchIndex::State {
  IndexFolder folder;
  IndexLock lock;
  Xapian::Stem stemmer;
  std::vector<Partition> published;  // as the stub file has them
  std::optional<IndexPartitions> partitions;
  bool in_batch = false;
  std::uint64_t documents = 0;

  State(IndexFolder in, Xapian::Stem stem)
      : folder(std::move(in)), lock(folder.lock_file()), stemmer(std::move(stem)) {}

  Result<void> begin();
  void end() {
    in_batch = false;
    lock.unlock(Part::kBatch);
  }
  void abandon() {
    partitions.reset();
    end();
  }
  void publish();
  template <class Change>
  Result<void> change(Change work);
};

// Takes the batch's lock and looks whether a rebuild has replaced the index meanwhile.
Result<void> SearchIndex::State::begin() {
  if (in_batch) return {};
  if (lock.held_elsewhere(Part::kRebuild)) return locked("the index is being rebuilt");
  if (!lock.try_lock(Part::kBatch)) return locked("another process writes");
  in_batch = true;
  const std::vector<Partition> now = folder.partitions().value_or(std::vector<Partition>());
  if (partitions && now == published) return {};
  partitions.reset();
  partitions.emplace(folder, now);
  published = now;
  documents = partitions->documents();
  folder.sweep(now);
  return {};
}

void SearchIndex::State::publish() {
  const std::vector<Partition> now = partitions->list();
  if (now == published) return;
  folder.publish(now);
  // Those that were just replaced stay until the next time: a reader may be about to open them.
  std::vector<Partition> keep = now;
  keep.insert(keep.end(), published.begin(), published.end());
  folder.sweep(keep);
  published = now;
}

template <class Change>
Result<void> SearchIndex::State::change(Change work) {
  Result<void> done = guarded([&]() -> Result<void> {
    if (auto begun = begin(); !begun) return begun;
    work();
    return {};
  });
  if (!done && in_batch) abandon();
  return done;
}

SearchIndex::SearchIndex(std::unique_ptr<State> state) : state_(std::move(state)) {}
SearchIndex::~SearchIndex() = default;

Result<std::unique_ptr<SearchIndex>> SearchIndex::open(const SearchSettings& settings) {
  FRESHET_TRY(stemmer, stemmer_named(settings.stemmer));
  return guarded([&]() -> Result<std::unique_ptr<SearchIndex>> {
    auto state = std::make_unique<State>(made_folder(settings), *stemmer);
    if (!state->lock.try_lock(Part::kWriter)) return locked("another process has the index open");
    if (auto begun = state->begin(); !begun) return tl::unexpected(begun.error());
    if (!state->folder.partitions()) state->folder.publish({});
    state->end();
    return std::unique_ptr<SearchIndex>(new SearchIndex(std::move(state)));
  });
}

Result<void> SearchIndex::put(const items::Item& item) {
  if (item.hidden) return remove(item.id);
  return state_->change([&] {
    state_->partitions->put(document_of(item, state_->stemmer), id_term(item.id), item.published_at);
  });
}

Result<void> SearchIndex::remove(const ItemId& id) {
  return state_->change([&] { state_->partitions->remove(id_term(id)); });
}

Result<void> SearchIndex::commit() {
  if (!state_->in_batch) return {};
  Result<void> done = state_->change([&] {
    state_->publish();  // partitions made by this batch, so that what moves there is found at once
    state_->partitions->commit();
    state_->publish();  // partitions that it merged
    state_->documents = state_->partitions->documents();
  });
  if (done) state_->end();
  return done;
}

void SearchIndex::rollback() {
  if (state_->in_batch) state_->abandon();
}

std::uint64_t SearchIndex::documents() const { return state_->documents; }

struct IndexRebuild::State {
  IndexFolder folder;
  IndexLock lock;
  Xapian::Stem stemmer;
  IndexPartitions partitions;
  std::uint64_t documents = 0;
  bool finished = false;

  State(IndexFolder in, Xapian::Stem stem)
      : folder(std::move(in)), lock(folder.lock_file()), stemmer(std::move(stem)), partitions(folder, {}) {}
};

IndexRebuild::IndexRebuild(std::unique_ptr<State> state) : state_(std::move(state)) {}

IndexRebuild::~IndexRebuild() {
  if (state_->finished) return;
  state_->partitions.discard();
  static_cast<void>(guarded([&]() -> Result<void> {  // what remains, the next writer removes
    if (const auto old = state_->folder.partitions()) state_->folder.sweep(*old);
    return {};
  }));
}

Result<std::unique_ptr<IndexRebuild>> IndexRebuild::start(const SearchSettings& settings) {
  FRESHET_TRY(stemmer, stemmer_named(settings.stemmer));
  return guarded([&]() -> Result<std::unique_ptr<IndexRebuild>> {
    auto state = std::make_unique<State>(made_folder(settings), *stemmer);
    // Announced first: a writer that goes on from batch to batch would not let us in otherwise.
    if (!state->lock.try_lock(Part::kRebuild)) return locked("another rebuild is under way");
    state->lock.wait(Part::kBatch);
    return std::unique_ptr<IndexRebuild>(new IndexRebuild(std::move(state)));
  });
}

Result<void> IndexRebuild::put(const items::Item& item) {
  if (item.hidden) return {};
  return guarded([&]() -> Result<void> {
    state_->partitions.put(document_of(item, state_->stemmer), id_term(item.id), item.published_at);
    if (++state_->documents % kRebuildBatch == 0) state_->partitions.commit();
    return {};
  });
}

Result<void> IndexRebuild::finish() {
  return guarded([&]() -> Result<void> {
    state_->partitions.commit();
    const std::vector<Partition> replaced = state_->folder.partitions().value_or(std::vector<Partition>());
    std::vector<Partition> keep = state_->partitions.list();
    state_->folder.publish(keep);
    state_->finished = true;
    keep.insert(keep.end(), replaced.begin(), replaced.end());  // the writer removes them with its next batch
    state_->folder.sweep(keep);
    return {};
  });
}

std::uint64_t IndexRebuild::documents() const { return state_->documents; }

}  // namespace freshet::search
