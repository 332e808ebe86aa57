// Items and readers' data in SQLite: the durable copy that survives a loss of Redis, and the source
// of the search index and the model. Only the recorder and add_backup_id() write it; other
// processes (freshetctl, exports) may read at the same time.
//
// WAL mode with synchronous = FULL: after commit() returns Ok the data survives kill -9 and,
// provided the disk honors fsync, a power loss. Stream entries are acknowledged only afterwards.
// Deleted values are overwritten (secure_delete). user_version holds the schema version.
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
#include "core/items/covisits.h"
#include "core/items/ports.h"

namespace freshet::database {

// Blocking; single-threaded; do not use across a fork. Errors of every method: kUnavailable
// "disk_full", "database_readonly", "database_locked" (after a short wait), "database_io",
// "database_corrupt", "database_absent" (cannot be opened), "database_newer" (written by a later
// version of Freshet); kInternal "database_error". After an error, call rollback(); the batch can
// then be retried.
class Database {
 public:
  enum class Mode : std::uint8_t {
    kWrite,  // created if absent, migrated if older
    kRead    // must exist and have the current schema version
  };
  static Result<std::unique_ptr<Database>> open(const std::string& path, Mode mode);
  ~Database();

  // Random id assigned when the file was created; copies share it. Empty if an older version wrote
  // the file and it was opened for reading.
  const std::string& database_id() const;
  Result<std::uint64_t> stored_fencing_token();  // 0: none
  // Stores a fencing token and writes under it from now on. Errors: also kUnavailable "lease_lost"
  // if a higher token is stored.
  Result<void> set_fencing_token(std::uint64_t token);
  // Error: kUnavailable "lease_lost" if another token than ours is stored. Call after writing to a
  // store with its own lock, to detect that the write came too late.
  Result<void> verify_fencing_token();

  // Ids of the backups since which this database has recorded all erasures, oldest first
  // (add_backup_id()). A restored database gets those of the database that it replaces.
  Result<std::vector<std::string>> backup_ids();
  Result<void> set_backup_ids(const std::vector<std::string>& ids);  // call in a transaction

  // A transaction. After set_fencing_token(), begin() also has the errors of
  // verify_fencing_token().
  Result<void> begin();
  Result<void> commit();
  void rollback();  // no-op outside a transaction
  // Checkpoints the write-ahead log into the database and truncates it. Call outside a transaction.
  // Errors: kUnavailable "database_locked" if another process is still reading an older snapshot.
  Result<void> truncate_wal();

  // Inserts or replaces by id. O(log items).
  Result<void> put_item(const items::Item& item);
  // Ok if there is no such item.
  Result<void> remove_item(const ItemId& id);
  // The id of the last committed entry of a stream; "" if none. `stream`: PartitionKeys::word() of
  // the stream's partition.
  Result<void> put_last_entry(std::string_view stream, std::string_view entry);
  Result<std::string> last_entry(std::string_view stream);
  // The highest entry of a stream whose counts of views were added; "" if none.
  Result<void> put_counted_entry(std::string_view stream, std::string_view entry);
  Result<std::string> counted_entry(std::string_view stream);
  // Returns whether an entry of any stream was ever committed, under any setting of
  // redis.partitions.
  Result<bool> has_recorded_entries();
  // Adds views of an item to a bucket of kViewBucketSeconds. Ignores buckets that are older than
  // kViewBucketsKept or have not begun at `now`.
  Result<void> add_views(UnixSeconds bucket, const ItemId& item, std::int64_t views, UnixSeconds now);
  // Bounds the counts of views: keeps the kMaxViewedItems most viewed items of each bucket that is
  // over, merges buckets older than kViewBucketsKept by the hour, and deletes those older than
  // kViewHoursKept. Call in a transaction. O(rows).
  Result<void> prune_view_counts(UnixSeconds now);

  // Counts that `next` was read after `item` at a time; a later time than `now` counts as now.
  // Ignores times more than kCovisitsKept ago.
  Result<void> add_covisits(const ItemId& item, const ItemId& next, UnixSeconds at, std::int64_t count,
                            UnixSeconds now);
  // Returns the items that were read after `item` at least kMinCovisits times today and in the
  // three days before (UTC), the most recent first. O(rows of the item).
  Result<std::vector<items::Covisit>> covisits(const ItemId& item, std::size_t limit, UnixSeconds now);
  // Bounds the pairs: keeps the kMaxCovisits most recent ones of each day, and deletes days older
  // than kCovisitsKept. Call in a transaction. O(rows).
  Result<void> prune_covisits(UnixSeconds now);
  static constexpr std::int64_t kMinCovisits = 3, kMaxCovisits = 100'000;
  static constexpr seconds kCovisitsKept{3 * 86400};
  static constexpr std::int64_t kViewBucketSeconds = 300, kMaxViewedItems = 2000;
  static constexpr seconds kViewBucketsKept{2 * 86400}, kViewHoursKept{14 * 86400};

  // Records that a reader was erased, so that restoring an older backup omits them. `reader` is a
  // salted hash (ReaderPseudonyms::erasure), never the id. Kept for the life of the database.
  // Readers who were merged into this one are recorded as erased when they were merged, and their
  // merges are removed. O(merges into the reader).
  Result<void> put_erasure(std::string_view reader, UnixSeconds at);
  struct Erasure {
    std::string reader;
    UnixSeconds at;
  };
  Result<std::vector<Erasure>> erasures_since(UnixSeconds since);  // O(erasures)

  // Both readers are hashes as in put_erasure().
  struct Merge {
    std::string from, to;
    UnixSeconds at;  // the last time that it was done
  };
  // Records that a reader was merged into another one. If `to` was merged into `from` before,
  // directly or through others, that merge of `to` is removed. Call in a transaction.
  Result<void> put_merge(const Merge& merge);
  Result<std::vector<Merge>> merges();  // O(merges)
  // Merges into a reader and into those who were merged into it.
  Result<std::vector<Merge>> merges_into(std::string_view reader);
  // Keeps the latest `max` merges, without those whose source was erased afterwards. O(merges).
  Result<void> prune_merges(std::int64_t max = kMaxMerges);
  static constexpr std::int64_t kMaxMerges = 1'000'000;

  // Interactions, dismissals and follows. Valid as long as this object.
  ReaderRows& readers();

  // Calls `each` for every item, hidden ones included, ordered by id, in one snapshot. Does not
  // block writers. Stops at the first error of `each` and returns it.
  Result<void> for_each_item(const std::function<Result<void>(const items::Item&)>& each);
  // The same for the first `limit` items whose id is greater than `after`.
  Result<void> for_some_items(std::string_view after, std::int64_t limit,
                              const std::function<Result<void>(const items::Item&)>& each);
  // The same for ids only.
  Result<void> for_each_id(const std::function<Result<void>(std::string_view)>& each);
  std::int64_t item_count() const;       // items, as of open() or this object's last commit()
  Result<std::int64_t> count_visible();  // items that are not hidden; O(items)

  // Returns whether the file at the path is no longer the open one, because it was deleted or
  // replaced. Further writes would be lost: destroy this object and open the path again. One or two
  // stat(2) calls.
  bool was_replaced() const;

 private:
  struct Impl;
  explicit Database(std::unique_ptr<Impl> state);
  std::unique_ptr<Impl> impl_;
};

}  // namespace freshet::database
