// Events of this room as they wait in a spool while Redis is away (core/redis/spool_record.h).
#pragma once

#include <string_view>
#include <vector>

#include "core/hot/ports.h"
#include "core/redis/spool_record.h"

namespace freshet::hot {

// REQUIRES: `event` has an id and a time.
redis::SpoolRecord to_spool_record(const TrackEvent& event);
redis::SpoolRecord to_spool_record(const ViewEvent& event);

// Whether fields_of() an event are of this room.
bool is_hot_event(const std::vector<std::string_view>& fields);
// Whose visitor's event it is; "" when nobody's. REQUIRES: is_ours(fields).
std::string_view spooled_visitor(const std::vector<std::string_view>& fields);
// Counts it, as its time says. 1 RTT. REQUIRES: is_ours(fields). Errors: the store's; kInvalid
// "spool_format".
Task<Result<void>> apply_spool_record(HotStore& store, const std::vector<std::string_view>& fields);

}  // namespace freshet::hot
