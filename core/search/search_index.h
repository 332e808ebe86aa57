// The search index on disk: its only writer, and what builds it anew.
//
// The index is a folder of Xapian databases, partitioned by time of publication, and a stub file
// XAPIANDB that names them, so that any Xapian tool opens the folder as one database. Xapian skips
// a database whose dates lie outside a range at once, while term statistics stay those of the
// whole; recall lives on that.
//
// Every partition commits by itself. Killed in between, an item that was about to move may be in
// two partitions or in none until the batch is repeated; every operation may be repeated. Blocking;
// one thread.
#pragma once

#include <cstdint>
#include <memory>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/config/settings.h"
#include "core/items/ports.h"

namespace freshet::search {

// One writer at a time (of all processes). Errors of every method: kUnavailable "index_locked"
// (another writer, or a rebuild is under way: wait and try again) and "index_io" (disk full,
// unreadable …). After an error: rollback(), then the batch can be tried again on the same object.
class SearchIndex {
 public:
  // Creates the index when it is absent.
  static Result<std::unique_ptr<SearchIndex>> open(const SearchSettings& settings);
  ~SearchIndex();

  // Adds or replaces; a hidden item is removed. Effective with commit().
  Result<void> put(const items::Item& item);
  Result<void> remove(const ItemId& id);
  // Durable and visible to readers when it returns. Without a change since the last: nothing.
  Result<void> commit();
  void rollback();
  std::uint64_t documents() const;  // as of the last commit

 private:
  struct Impl;
  explicit SearchIndex(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Builds a whole new index beside the old one, which is searched meanwhile, and swaps it in by a
// rename; readers notice by themselves. A SearchIndex of another process may stay open: its next
// put() or remove() answers "index_locked" until this object is gone, and then works on the new
// index. So: start(), read every row of the database, put() each, finish(). Destroyed before
// finish(): the old index stays.
class IndexRebuild {
 public:
  // Waits for the batch that a writer has under way. Errors: kUnavailable "index_locked" (another
  // rebuild), "index_io".
  static Result<std::unique_ptr<IndexRebuild>> start(const SearchSettings& settings);
  ~IndexRebuild();

  Result<void> put(const items::Item& item);  // hidden items are left out
  Result<void> finish();
  std::uint64_t documents() const;  // put so far, without the hidden

 private:
  struct Impl;
  explicit IndexRebuild(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace freshet::search
