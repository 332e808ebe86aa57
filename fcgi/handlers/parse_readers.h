// Parses requests of the routes about one reader. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "core/base/json.h"
#include "core/readers/ports.h"

namespace freshet::handlers {

// "topic" (the default) or "reply". Error: "bad_kind".
Result<readers::ViewKind> parse_view_kind(const std::optional<std::string_view>& name);

// {userId?, topicId, kind?}. The reader is the claimed one, empty if the body claims none.
Result<readers::View> parse_history(json::Value body);

// {userId, topicId, kind, at?, eventId?}. Without `at`, it happened now. An `at` up to a day in the
// future counts as now; a later one is "bad_time".
Result<readers::ReaderEvent> parse_interaction(json::Value body, UnixSeconds now);

// {userId?, topicId, kind, reason?, eventId?}; kind is not_interested. The reader is as in
// parse_history().
Result<readers::Dismissal> parse_dismissal(json::Value body);

}  // namespace freshet::handlers
