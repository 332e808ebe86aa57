// Parameters and bodies of the routes about timelines and follows, as the use-cases want them.
// Pure.
#pragma once

#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/config/settings.h"
#include "core/timeline/ports.h"
#include "fcgi/gateway/request.h"
#include "fcgi/http/target.h"

namespace freshet::handlers {

// Ok iff it is one of waterfall.channels. kNotFound "unknown_channel", member "channel".
Result<void> check_channel(std::string_view channel, const TimelineSettings& settings);

// ?direction=first|down|up&score=&limit=; `score` is required for down and up, and looked at for
// first too. The reader is still to be found.
Result<timeline::PageQuery> parse_page(const http::Target& target, std::string_view channel);

// To whom items go: to `readers`, or to those who follow `author`; one of them is empty.
struct PushBody {
  std::vector<ItemId> items;
  std::vector<ReaderId> readers;
  AuthorId author;
  EventId event;  // empty: not idempotent
};
// {items: 1..100 ids, customers: 1..10,000 ids, eventId?} or {items, followersOf: author,
// eventId?}. An id that is none is "bad_id", with its place in the detail; a reader or item may
// come twice. Changes `text`. O(bytes).
Result<PushBody> parse_push(std::string& text);

struct Follow {
  ReaderId follower;
  AuthorId author;
};
// {follower, author}, from the JSON body; without a body from the query. Changes the request's
// body.
Result<Follow> parse_follow(Request& request, const http::Target& target);

}  // namespace freshet::handlers
