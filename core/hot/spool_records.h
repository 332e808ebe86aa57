// Spool format of the events of this module (core/redis/spool_record.h), used while Redis is
// unavailable.
#pragma once

#include <string_view>
#include <vector>

#include "core/hot/ports.h"
#include "core/redis/spool_record.h"

namespace freshet::hot {

// REQUIRES: `event` has an id and a time.
redis::SpoolRecord to_spool_record(const TrackEvent& event);
redis::SpoolRecord to_spool_record(const ViewEvent& event);

// True if the fields of a spool record (redis::fields_of()) are an event of this module.
bool is_hot_event(const std::vector<std::string_view>& fields);
// The visitor that the event is attributed to; "" if there is none. REQUIRES: is_hot_event(fields).
std::string_view spooled_visitor(const std::vector<std::string_view>& fields);
// Counts the event with its own time. 1 RTT. REQUIRES: is_hot_event(fields). Errors: the store's;
// kInvalid "spool_format".
Task<Result<void>> apply_spool_record(HotStore& store, const std::vector<std::string_view>& fields);

}  // namespace freshet::hot
