// Request bodies and parameters of the routes about one reader, as the use-cases want them. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "core/base/json.h"
#include "core/readers/ports.h"

namespace freshet::handlers {

// "topic" (also when absent) or "reply". "bad_kind".
Result<readers::ViewKind> parse_view_kind(const std::optional<std::string_view>& name);

// {userId?, topicId, kind?}. The reader is what the body claims, empty when it claims none.
Result<readers::View> parse_history(json::Value body);

// {userId, topicId, kind, at?, eventId?}. Without `at` it happened now; an `at` ahead of now by
// more than a day is "bad_time", by less it counts as now.
Result<readers::ReaderEvent> parse_interaction(json::Value body, UnixSeconds now);

// {userId?, topicId, kind, reason?, eventId?}; kind is not_interested. The reader as in
// parse_history().
Result<readers::Dismissal> parse_dismissal(json::Value body);

}  // namespace freshet::handlers
