// Parses requests of the hot-article routes. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/json.h"
#include "core/config/settings.h"
#include "core/hot/ports.h"
#include "core/items/ports.h"
#include "fcgi/http/target.h"

namespace freshet::handlers {

struct TrackBody {
  hot::TrackEvent event;    // visitor not yet resolved; session empty if the body has none
  ReaderId claimed_reader;  // userId; empty if absent
  std::string fingerprint;  // tells anonymous visitors apart; empty if absent
};
// {articleId, userId?, dwellMs, sessionId?, fingerprint?, publishedAt?, eventId?}. dwellMs is
// rounded; values above the cap are reduced to it.
Result<TrackBody> parse_track(json::Value body, std::int64_t dwell_cap_ms);

// {articleId, publishedAt, fingerprint, eventId?}
Result<hot::ViewEvent> parse_view(json::Value body);

struct HotListRequest {
  hot::ListQuery query;
  std::size_t limit = 10;
  std::optional<UnixSeconds> at;
  bool is_past = false;  // `at` is in the past
};
enum class PastMoments : std::uint8_t { kReject, kAccept };
// ?model=&limit=&mode=&window=&tag=&at=. `at` must be in now..now + 365 days, or from 14 days ago
// with kAccept; a few seconds in the past count as now.
Result<HotListRequest> parse_hot(const http::Target& target, UnixSeconds now, const Settings& settings,
                                 PastMoments past = PastMoments::kReject);

// ?id=a&id=b or ?ids=a,b, or both: 1..100 ids. An id with a comma is an `id`.
Result<std::vector<ItemId>> parse_ids(const http::Target& target);

// The body of PUT /api/items/{id}, or a line of POST /api/items. An update_time in the future
// counts as now.
Result<items::Item> parse_item(json::Value body, const ItemId& id, UnixSeconds now);

}  // namespace freshet::handlers
