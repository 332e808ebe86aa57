// The search index on disk: its writer and its rebuild.
//
// The index is a folder of Xapian databases partitioned by publish time, and a stub file XAPIANDB
// that lists them, so that any Xapian tool opens the folder as one database. Xapian skips a
// database whose dates lie outside a range, while term statistics are those of the whole index;
// recall depends on that.
//
// Every slice commits separately. After a crash in between, an item that was moving may be in two
// slices or in none until the batch is repeated; every operation may be repeated. Blocking;
// single-threaded.
#pragma once

#include <cstdint>
#include <memory>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/config/settings.h"
#include "core/items/ports.h"

namespace freshet::search {

// One writer at a time across all processes. Errors of every method: kUnavailable "index_locked"
// (another writer or a rebuild is running: retry later) and "index_io" (disk full, unreadable …).
// After an error call rollback(); the batch can then be retried on the same object.
class SearchIndex {
 public:
  // Creates the index if it does not exist.
  static Result<std::unique_ptr<SearchIndex>> open(const SearchSettings& settings);
  ~SearchIndex();

  // Adds or replaces an item; removes it if it is hidden. Takes effect with commit().
  Result<void> put(const items::Item& item);
  Result<void> remove(const ItemId& id);
  // Changes are durable and visible to readers when this returns. Does nothing without changes.
  Result<void> commit();
  void rollback();
  std::uint64_t documents() const;  // as of the last commit

  // The version of the terms in the index, see TimeSlices::version().
  const std::string& version() const;
  // The version of the terms that put() writes. An index of another version should be rebuilt.
  const std::string& current_version() const;

  // Rebuilds the index while the old one is still written and searched. Usage: begin_rebuild(),
  // put_rebuilt() every item once, finish_rebuild(). In between, put() and remove() change both
  // indexes. A rollback() abandons the rebuild, and the old index stays. begin_rebuild() does
  // nothing if another process has replaced an outdated index. Error: also "index_locked" if
  // another rebuild is running.
  Result<void> begin_rebuild();
  bool is_rebuilding() const;
  // REQUIRES: is_rebuilding(). Ignores hidden items.
  Result<void> put_rebuilt(const items::Item& item);
  // REQUIRES: is_rebuilding(). Commits, and swaps the new index in by a rename.
  Result<void> finish_rebuild();

 private:
  struct Impl;
  explicit SearchIndex(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Builds a new index next to the live one, which stays searchable, and swaps it in by a rename;
// readers notice the swap themselves. A SearchIndex of another process may stay open: its put() and
// remove() return "index_locked" until this object is destroyed, and then write to the new index.
// Usage: start(), read every row of the database, put() each, finish(). If destroyed before
// finish(), the old index stays.
class IndexRebuild {
 public:
  // Waits for a writer's current batch. Errors: kUnavailable "index_locked" (another rebuild),
  // "index_io".
  static Result<std::unique_ptr<IndexRebuild>> start(const SearchSettings& settings);
  ~IndexRebuild();

  Result<void> put(const items::Item& item);  // ignores hidden items
  Result<void> finish();
  std::uint64_t documents() const;  // put so far

 private:
  struct Impl;
  explicit IndexRebuild(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace freshet::search
