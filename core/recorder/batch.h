// What a run of stream entries asks for: the last word on each item, and every word of readers.
// Pure.
#pragma once

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
  items::Item item;  // kPut; else only its id
};

// --- What readers did (core/readers/reader_entries.h)
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
using ReaderChange = std::variant<readers::ReaderEvent, DismissalChange, DismissalRemoval, readers::Follow, FollowRemoval>;

// An entry of one of the streams: ids alone are unique only within one.
struct EntryId {
  unsigned stream = 0;  // which group's
  std::string id;
  bool operator==(const EntryId&) const = default;
};

// Everything about the reader is to be forgotten, after what stands before it in the stream.
struct ErasureJob {
  EntryId entry;  // to be acknowledged when the job is done
  ReaderId reader;
  std::string job_id;
};

// What an author published is to be pushed to followers.
struct FanoutJob {
  EntryId entry;  // to be acknowledged when the job is done
  AuthorId author;
  std::vector<ItemId> items;  // the last becomes the newest
  std::int64_t up_to_score = 0;      // score among the author's followers of the last who gets them
  std::string job_id;
};

struct EntryBatch {
  std::vector<EntryId> entries;       // ascending in each stream: to be acknowledged when all is done
  std::vector<ItemChange> item_changes;        // in their order
  std::vector<ReaderChange> reader_changes;  // in their order
  std::vector<ErasureJob> erasures;      // their entries are not among `entries`
  std::vector<FanoutJob> fanouts;        // likewise
  std::size_t malformed_count = 0;          // entries that say nothing that can be done
  bool empty() const { return entries.empty(); }
  void append(EntryBatch more);
};

// `fields` as Redis gives them: name, value, name, value. Errors: kInvalid, with the field in
// `member` and nothing of a reader in `detail`.
using ParsedEntry = std::variant<ItemChange, ReaderChange, ErasureJob, FanoutJob>;
Result<ParsedEntry> parse_entry(const redis::Reply& fields);

// `entries` as XREADGROUP gives them of one stream: {id, fields} each, ascending; of an item's
// changes the last. What is malformed is logged and counted; an entry that was removed from the
// stream while it was pending (nil fields) only wants its acknowledgement.
EntryBatch parse_batch(const redis::Reply& entries, unsigned stream);

}  // namespace freshet::recorder
