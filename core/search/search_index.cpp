#include "core/search/search_index.h"

#include <xapian.h>

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "core/search/index_folder.h"
#include "core/search/search_schema.h"
#include "core/search/time_slices.h"

namespace freshet::search {
namespace {

using Scope = IndexLock::Scope;

// A rebuild commits after this many bytes to bound its memory.
constexpr std::size_t kRebuildBatchBytes = 10'000'000;
std::size_t estimated_bytes(const items::Item& item) { return 1000 + item.title.size() + item.text.size(); }

tl::unexpected<Error> index_locked(std::string why) {
  return fail(ErrorCode::kUnavailable, "index_locked", {}, std::move(why));
}

// Runs `work` and converts exceptions to an Error.
template <class Work>
auto catch_errors(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const Xapian::DatabaseLockError& error) {
    return index_locked(error.get_msg());
  } catch (const Xapian::Error& error) {
    return fail(ErrorCode::kUnavailable, "index_io", {}, error.get_description());
  } catch (const std::exception& error) {
    return fail(ErrorCode::kUnavailable, "index_io", {}, error.what());
  }
}

IndexFolder create_folder(const SearchSettings& settings) {
  std::filesystem::create_directories(settings.index);
  return IndexFolder(settings.index);
}

}  // namespace

struct SearchIndex::Impl {
  IndexFolder folder;
  IndexLock lock;
  Xapian::Stem stemmer;
  std::vector<TimeSlice> published;  // as listed in the stub file
  std::optional<TimeSlices> slices;
  std::optional<TimeSlices> rebuilt;    // the new index of a rebuild
  std::size_t rebuilt_uncommitted = 0;  // bytes
  bool in_batch = false;
  std::uint64_t documents = 0;
  std::string version;
  const std::string current_version;

  Impl(const SearchSettings& settings, Xapian::Stem stem)
      : folder(create_folder(settings)),
        lock(folder.lock_file()),
        stemmer(std::move(stem)),
        current_version(terms_version(settings.stemmer)) {}

  Result<void> begin_batch();
  void end_batch() {
    in_batch = false;
    lock.unlock(Scope::kBatch);
  }
  void abandon_batch() {
    slices.reset();
    abandon_rebuild();
    end_batch();
  }
  // The next batch removes its folders.
  void abandon_rebuild() {
    if (!rebuilt) return;
    rebuilt.reset();
    lock.unlock(Scope::kRebuild);
  }
  void publish();
  template <class Change>
  Result<void> change(Change work);
};

// Takes the batch lock, and reopens the index if a rebuild has replaced it.
Result<void> SearchIndex::Impl::begin_batch() {
  if (in_batch) return {};
  if (lock.is_held_elsewhere(Scope::kRebuild)) return index_locked("the index is being rebuilt");
  if (!lock.try_lock(Scope::kBatch)) return index_locked("another process is writing to the index");
  in_batch = true;
  const std::vector<TimeSlice> current = folder.slices().value_or(std::vector<TimeSlice>());
  if (slices && current == published) return {};
  slices.reset();
  abandon_rebuild();
  slices.emplace(folder, current, current_version);
  published = current;
  documents = slices->documents();
  version = slices->version();
  folder.remove_except(current);
  return {};
}

void SearchIndex::Impl::publish() {
  const std::vector<TimeSlice> current = slices->slices();
  if (current == published) return;
  folder.publish(current);
  // Keep the slices just replaced until the next call: a reader may be about to open them.
  std::vector<TimeSlice> keep = current;
  keep.insert(keep.end(), published.begin(), published.end());
  if (rebuilt) {
    const std::vector<TimeSlice> next = rebuilt->slices();
    keep.insert(keep.end(), next.begin(), next.end());
  }
  folder.remove_except(keep);
  published = current;
}

template <class Change>
Result<void> SearchIndex::Impl::change(Change work) {
  Result<void> done = catch_errors([&]() -> Result<void> {
    if (auto started = begin_batch(); !started) return started;
    work();
    return {};
  });
  if (!done && in_batch) abandon_batch();
  return done;
}

SearchIndex::SearchIndex(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SearchIndex::~SearchIndex() = default;

Result<std::unique_ptr<SearchIndex>> SearchIndex::open(const SearchSettings& settings) {
  FRESHET_TRY(stemmer, make_stemmer(settings.stemmer));
  return catch_errors([&]() -> Result<std::unique_ptr<SearchIndex>> {
    auto impl = std::make_unique<Impl>(settings, *stemmer);
    if (!impl->lock.try_lock(Scope::kWriter)) return index_locked("another process has the index open");
    if (auto started = impl->begin_batch(); !started) return tl::unexpected(started.error());
    if (!impl->folder.slices()) impl->folder.publish({});
    impl->end_batch();
    return std::unique_ptr<SearchIndex>(new SearchIndex(std::move(impl)));
  });
}

Result<void> SearchIndex::put(const items::Item& item) {
  if (item.hidden) return remove(item.id);
  return impl_->change([&] {
    const Xapian::Document document = make_document(item, impl_->stemmer);
    impl_->slices->put(document, id_term(item.id), item.published_at);
    if (impl_->rebuilt) impl_->rebuilt->put(document, id_term(item.id), item.published_at);
  });
}

Result<void> SearchIndex::remove(const ItemId& id) {
  return impl_->change([&] {
    impl_->slices->remove(id_term(id));
    if (impl_->rebuilt) impl_->rebuilt->remove(id_term(id));
  });
}

Result<void> SearchIndex::commit() {
  if (!impl_->in_batch) return {};
  Result<void> done = impl_->change([&] {
    impl_->publish();  // new slices of this batch, so that items moving there are found at once
    impl_->slices->commit();
    impl_->publish();  // slices that commit() merged
    impl_->documents = impl_->slices->documents();
  });
  if (done) impl_->end_batch();
  return done;
}

void SearchIndex::rollback() {
  if (impl_->in_batch) impl_->abandon_batch();
}

std::uint64_t SearchIndex::documents() const { return impl_->documents; }

const std::string& SearchIndex::version() const { return impl_->version; }
const std::string& SearchIndex::current_version() const { return impl_->current_version; }

Result<void> SearchIndex::begin_rebuild() {
  return catch_errors([&]() -> Result<void> {
    if (auto ok = impl_->begin_batch(); !ok) return ok;  // reopens an index that was replaced
    impl_->end_batch();
    if (impl_->version == impl_->current_version) return {};
    if (!impl_->lock.try_lock(Scope::kRebuild)) return index_locked("another rebuild is running");
    impl_->rebuilt.emplace(impl_->folder, std::vector<TimeSlice>(), impl_->current_version);
    impl_->rebuilt_uncommitted = 0;
    return {};
  });
}

bool SearchIndex::is_rebuilding() const { return impl_->rebuilt.has_value(); }

Result<void> SearchIndex::put_rebuilt(const items::Item& item) {
  if (item.hidden) return {};
  Result<void> done = catch_errors([&]() -> Result<void> {
    impl_->rebuilt->put(make_document(item, impl_->stemmer), id_term(item.id), item.published_at);
    if ((impl_->rebuilt_uncommitted += estimated_bytes(item)) < kRebuildBatchBytes) return {};
    impl_->rebuilt->commit();
    impl_->rebuilt_uncommitted = 0;
    return {};
  });
  if (!done) impl_->abandon_rebuild();
  return done;
}

Result<void> SearchIndex::finish_rebuild() {
  if (auto ok = commit(); !ok) return ok;
  Result<void> done = impl_->change([&] {
    if (!impl_->rebuilt) return;  // the index was replaced
    impl_->rebuilt->commit();
    impl_->folder.publish(impl_->rebuilt->slices());
    impl_->documents = impl_->rebuilt->documents();
    impl_->version = impl_->rebuilt->version();
    // The next batch opens the new index and removes the old one, which a reader may be about to
    // open.
    impl_->slices.reset();
    impl_->abandon_rebuild();
  });
  if (done) impl_->end_batch();
  return done;
}

struct IndexRebuild::Impl {
  IndexFolder folder;
  IndexLock lock;
  Xapian::Stem stemmer;
  TimeSlices slices;
  std::uint64_t documents = 0;
  std::size_t uncommitted = 0;  // bytes
  bool finished = false;

  Impl(const SearchSettings& settings, Xapian::Stem stem)
      : folder(create_folder(settings)),
        lock(folder.lock_file()),
        stemmer(std::move(stem)),
        slices(folder, {}, terms_version(settings.stemmer)) {}
};

IndexRebuild::IndexRebuild(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

IndexRebuild::~IndexRebuild() {
  if (impl_->finished) return;
  impl_->slices.discard();
  static_cast<void>(catch_errors([&]() -> Result<void> {  // the next writer removes what remains
    if (const auto old = impl_->folder.slices()) impl_->folder.remove_except(*old);
    return {};
  }));
}

Result<std::unique_ptr<IndexRebuild>> IndexRebuild::start(const SearchSettings& settings) {
  FRESHET_TRY(stemmer, make_stemmer(settings.stemmer));
  return catch_errors([&]() -> Result<std::unique_ptr<IndexRebuild>> {
    auto impl = std::make_unique<Impl>(settings, *stemmer);
    // Take the rebuild lock first: otherwise a writer with back-to-back batches would starve the
    // rebuild.
    if (!impl->lock.try_lock(Scope::kRebuild)) return index_locked("another rebuild is running");
    impl->lock.lock(Scope::kBatch);
    return std::unique_ptr<IndexRebuild>(new IndexRebuild(std::move(impl)));
  });
}

Result<void> IndexRebuild::put(const items::Item& item) {
  if (item.hidden) return {};
  return catch_errors([&]() -> Result<void> {
    impl_->slices.put(make_document(item, impl_->stemmer), id_term(item.id), item.published_at);
    ++impl_->documents;
    if ((impl_->uncommitted += estimated_bytes(item)) < kRebuildBatchBytes) return {};
    impl_->slices.commit();
    impl_->uncommitted = 0;
    return {};
  });
}

Result<void> IndexRebuild::finish() {
  return catch_errors([&]() -> Result<void> {
    impl_->slices.commit();
    const std::vector<TimeSlice> replaced = impl_->folder.slices().value_or(std::vector<TimeSlice>());
    std::vector<TimeSlice> keep = impl_->slices.slices();
    impl_->folder.publish(keep);
    impl_->finished = true;
    keep.insert(keep.end(), replaced.begin(), replaced.end());  // the writer removes them with its next batch
    impl_->folder.remove_except(keep);
    return {};
  });
}

std::uint64_t IndexRebuild::documents() const { return impl_->documents; }

}  // namespace freshet::search
