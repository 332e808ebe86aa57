// Parses stream entries into a batch of changes: the last change of each item, and all changes of
// readers and counts of views. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/base/result.h"
#include "core/database/database_readers.h"
#include "core/items/item_fields.h"
#include "core/redis/reply.h"

namespace freshet::recorder {

struct ItemChange {
  enum class Operation { kPut, kRemove };
  Operation operation = Operation::kRemove;
  items::Item item;  // kPut; otherwise only the id is set
};

// --- Changes of readers (core/readers/reader_entries.h)
struct DismissalChange {
  readers::Dismissal dismissal;
  UnixSeconds at;
};
struct DismissalRemoval {
  ReaderId reader;
  ItemId item;
  UnixSeconds at;
};
struct FollowRemoval {
  ReaderId reader;
  AuthorId author;
};
using ReaderChange =
    std::variant<readers::ReaderEvent, DismissalChange, DismissalRemoval, readers::Follow, FollowRemoval>;

// An entry of one of the streams. Ids are unique only within a stream.
struct EntryId {
  unsigned stream = 0;  // number of the partition
  std::string id;
  bool operator==(const EntryId&) const = default;
};

// Views of items and pairs of items, counted by a worker (core/items/view_count_buffer.h).
struct ViewCounts {
  struct Count {
    UnixSeconds bucket;
    ItemId item;
    std::int64_t views = 0;
  };
  struct Covisit {
    ItemId item, next;
    std::int64_t count = 0;
  };
  EntryId entry;
  std::vector<Count> counts;
  UnixSeconds covisits_at;
  std::vector<Covisit> covisits;
};

// Erases all data of a reader, after the preceding entries of the stream were processed.
struct ErasureJob {
  EntryId entry;  // acknowledged when the job is done
  ReaderId reader;
  std::string job_id;
};

// Moves what is stored about a reader to another one.
struct MergeJob {
  EntryId entry;  // acknowledged when the job is done
  ReaderId from, to;
  std::string job_id;
};

// Pushes what an author published to the followers.
struct FanoutJob {
  EntryId entry;  // acknowledged when the job is done
  AuthorId author;
  std::vector<ItemId> items;     // the last one becomes the newest
  std::int64_t up_to_score = 0;  // score of the last recipient among the author's followers
  std::string job_id;
};

struct EntryBatch {
  std::vector<EntryId> entries;          // ascending per stream; acknowledged when all changes are applied
  std::vector<ItemChange> item_changes;  // in stream order
  std::vector<ReaderChange> reader_changes;  // in stream order
  std::vector<ViewCounts> view_counts;       // in stream order
  std::vector<ErasureJob> erasures;          // not part of `entries`
  std::vector<MergeJob> merges;              // not part of `entries`
  std::vector<FanoutJob> fanouts;            // not part of `entries`
  std::size_t malformed_count = 0;           // entries without a valid operation
  bool empty() const { return entries.empty(); }
  void append(EntryBatch more);
};

// `fields` as returned by Redis: name, value, name, value. Errors: kInvalid, with the field in
// `member`; `detail` contains no reader data.
using ParsedEntry = std::variant<ItemChange, ReaderChange, ViewCounts, ErasureJob, MergeJob, FanoutJob>;
Result<ParsedEntry> parse_entry(const redis::Reply& fields);

// Parses the entries of one stream as returned by XREADGROUP: {id, fields} each, ascending. Keeps
// the last change of each item. Malformed entries are logged and counted. An entry deleted while
// pending has nil fields and only needs to be acknowledged.
EntryBatch parse_batch(const redis::Reply& entries, unsigned stream);

}  // namespace freshet::recorder
