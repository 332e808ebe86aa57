// Items and what readers did, in SQLite: what survives the loss of Redis, and what the search index
// and the model are made from. One process writes it, the recorder; others may read meanwhile
// (freshetctl, exports).
//
// WAL with synchronous = FULL: what commit() returned Ok for survives kill -9 and, as far as the
// disk keeps what it says it has synced, a power cut; the entries it came from leave the stream
// after it. Deleted values are overwritten (secure_delete). The schema's version stands in
// user_version.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/database/database_readers.h"
#include "core/items/ports.h"

namespace freshet::database {

// Blocking; one thread; not carried over a fork. Errors of every method: kUnavailable "disk_full",
// "database_readonly", "database_locked" (after waiting a moment), "database_io",
// "database_corrupt", "database_absent" (cannot be opened), "database_newer" (written by a later
// version of Freshet); kInternal "database_error". After an error: rollback(), then the batch can
// be tried again.
class Database {
 public:
  enum class Mode : std::uint8_t {
    kWrite,  // created when absent, migrated when older
    kRead    // must exist and be of this version
  };
  static Result<std::unique_ptr<Database>> open(const std::string& path, Mode mode);
  ~Database();

  // Random, made with the file; a copy has the same. "": a version that knew none wrote it, and it
  // was opened to be read.
  const std::string& database_id() const;
  Result<std::uint64_t> stored_fencing_token();  // 0: none
  // Notes that the owner of this token writes from now on, through this object. Errors: also
  // kUnavailable "lease_lost" when a higher one was noted.
  Result<void> set_fencing_token(std::uint64_t token);
  // Errors: kUnavailable "lease_lost" when another token than ours was noted since. After a write
  // to something else that has a lock of its own it tells whether that came too late.
  Result<void> verify_fencing_token();

  // What is written between the two is there afterwards as a whole or not at all. begin() has the
  // errors of expect_ours(), too, once there was a write_as().
  Result<void> begin();
  Result<void> commit();
  void rollback();  // harmless when nothing was begun
  // Moves what the write-ahead log holds into the database and empties the log's file. Outside of
  // transactions. Errors: kUnavailable "database_locked" when another process still reads an older
  // state.
  Result<void> truncate_wal();

  // Adds or replaces, by id. O(log items).
  Result<void> put_item(const items::Item& item);
  // Removing what is not there is no error.
  Result<void> remove_item(const ItemId& id);
  // The id of the last entry of a stream whose change is in here; "" at first. `stream`:
  // GroupKeys::word() of its group.
  Result<void> put_last_entry(std::string_view stream, std::string_view entry);
  Result<std::string> last_entry(std::string_view stream);
  Result<bool> has_recorded_entries();  // an entry of any stream, whatever the number of groups was
  // That a reader was erased, under a salted hash of the id, never the id (ReaderHashes::epoch):
  // for a backup from before that to be restored without them. Kept as long as the database.
  Result<void> put_erasure(std::string_view reader, UnixSeconds at);
  struct Erasure {
    std::string reader;
    UnixSeconds at;
  };
  Result<std::vector<Erasure>> erasures_since(UnixSeconds since);  // O(erasures)

  // Interactions and dismissals; lives as long as this.
  ReaderRows& readers();

  // Every item, hidden ones too, ordered by id, as of the call: writers are not held up. Stops at
  // the first error that `each` returns, and returns it.
  Result<void> for_each_item(const std::function<Result<void>(const items::Item&)>& each);
  // Likewise every id, without the rest of the item.
  Result<void> for_each_id(const std::function<Result<void>(std::string_view)>& each);
  std::int64_t item_count() const;          // items, as of open() or this object's last commit()
  Result<std::int64_t> count_visible();  // those that are not hidden; O(items)

  // True when the file at the path is no longer the one that is open: deleted, or another was put
  // there. What is written then is lost; close (destroy) this and open anew. One or two stat(2).
  bool was_replaced() const;

 private:
  struct Impl;
  explicit Database(std::unique_ptr<Impl> state);
  std::unique_ptr<Impl> impl_;
};

}  // namespace freshet::database
