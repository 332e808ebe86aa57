// Events of this room as they wait in a spool while Redis is away (core/redis/spool_record.h).
#pragma once

#include <string_view>
#include <vector>

#include "core/readers/ports.h"
#include "core/redis/spool_record.h"

namespace freshet::readers {

// REQUIRES: each has a time.
redis::SpoolRecord to_spool_record(const View& view);
redis::SpoolRecord to_spool_record(const ReaderEvent& event);
redis::SpoolRecord to_spool_record(const Dismissal& dismissal);
// Of whom the event of these fields is; "" when it is none.
std::string_view reader_of_record(const std::vector<std::string_view>& fields);
redis::SpoolRecord undo_spool_record(const ReaderId& reader, const ItemId& item, UnixSeconds at);
redis::SpoolRecord clear_spool_record(const ReaderId& reader, ViewKind kind, UnixSeconds until);

// Applies what fields_of() such an event are, as its time says. RTT and errors: the store's;
// kInvalid "spool_format" when it is none of these.
Task<Result<void>> apply_spool_record(ReaderStore& store, const std::vector<std::string_view>& fields);

}  // namespace freshet::readers
