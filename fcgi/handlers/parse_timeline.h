// Parses requests of the timeline and follow routes. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/config/settings.h"
#include "core/timeline/ports.h"
#include "fcgi/http/target.h"

namespace freshet::handlers {

// Ok if it is one of waterfall.channels. Error: kNotFound "unknown_channel", member "channel".
Result<void> check_channel(std::string_view channel, const TimelineSettings& settings);

// ?direction=first|down|up&score=&limit=. `score` is required for down and up, and validated for
// first too. The reader is not yet resolved.
Result<timeline::PageQuery> parse_page(const http::Target& target, std::string_view channel);

// The recipients of a push are either `readers` or the followers of `author`; the other is empty.
struct PushBody {
  std::vector<ItemId> items;
  std::vector<ReaderId> readers;
  AuthorId author;
  EventId event;  // empty: not idempotent
};
// {items: 1..100 ids, customers: 1..10,000 ids, eventId?} or {items, followersOf: author,
// eventId?}. An invalid id is "bad_id", with its position in the detail; duplicates are allowed.
Result<PushBody> parse_push(json::Value body);
// Larger than the largest push, so that an oversized one gets an error that names the list.
inline constexpr json::Limits kPushLimits{16, 65'536};

struct Follow {
  ReaderId follower;
  AuthorId author;
};
// {follower, author}, in the query or in a JSON body.
Result<Follow> parse_follow(const http::Target& target);
Result<Follow> parse_follow(json::Value body);

}  // namespace freshet::handlers
