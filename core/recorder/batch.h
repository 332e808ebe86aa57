// What a run of stream entries asks for: the last word on each item. Pure.
#pragma once

#include <string>
#include <vector>

#include "core/async/reply.h"
#include "core/base/result.h"
#include "core/store/item_fields.h"

namespace freshet::recorder {

struct Change {
  enum class Kind { kPut, kRemove, kLook };  // kLook: the item's hash says which of the two
  Kind kind = Kind::kRemove;
  feed::Item item;  // kPut; else only its id
};

struct Batch {
  std::vector<std::string> entries;  // ids, ascending: to be acknowledged when all is done
  std::vector<Change> changes;       // at most one an item
  std::size_t malformed = 0;         // entries that say nothing that can be done
  bool empty() const { return entries.empty(); }
};

// `fields` as Redis gives them: name, value, name, value. Errors: kInvalid, with the field in `member`.
Result<Change> parse_change(const redis::Reply& fields);

// `entries` as XREADGROUP gives them: {id, fields} each, ascending. What is malformed is logged and counted;
// an entry that was removed from the stream while it was pending (nil fields) only wants its acknowledgement.
Batch read_batch(const redis::Reply& entries);

}  // namespace freshet::recorder
