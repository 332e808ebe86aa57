// Spool records of this module's events, written while Redis is unavailable
// (core/redis/spool_record.h).
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "core/readers/ports.h"
#include "core/redis/spool_record.h"

namespace freshet::readers {

// REQUIRES: the event has a time.
redis::SpoolRecord to_spool_record(const View& view);
redis::SpoolRecord to_spool_record(const ReaderEvent& event);
redis::SpoolRecord to_spool_record(const Dismissal& dismissal);
// Index of the reader in a record's fields.
inline constexpr std::size_t kReaderField = 1;
// The reader of a record with these fields; empty if it is malformed.
std::string_view reader_of_record(const std::vector<std::string_view>& fields);
redis::SpoolRecord undo_spool_record(const ReaderId& reader, const ItemId& item, UnixSeconds at);
redis::SpoolRecord clear_spool_record(const ReaderId& reader, ViewKind kind, UnixSeconds until);
redis::SpoolRecord removal_spool_record(const ReaderId& reader, ViewKind kind, const ItemId& item,
                                        UnixSeconds at);

// Applies the event of a record with these fields, at its own time. RTT and errors: the store's;
// kInvalid "spool_format" if it is malformed.
Task<Result<void>> apply_spool_record(ReaderStore& store, const std::vector<std::string_view>& fields);

}  // namespace freshet::readers
