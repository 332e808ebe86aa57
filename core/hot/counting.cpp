#include "core/hot/counting.h"

namespace freshet::hot {

Task<Result<Counted<TrackCounts>>> track(HotStore& store, const TrackEvent& event, bool later) {
  Result<TrackCounts> counts = fail(ErrorCode::kUnavailable, "redis_full");
  if (!later) counts = co_await store.track(event);
  if (counts) co_return Counted<TrackCounts>{false, *counts};
  if (!can_spool(counts.error(), !event.event.empty())) co_return tl::unexpected(counts.error());
  if (auto kept = store.track_later(event); !kept) co_return tl::unexpected(kept.error());
  co_return Counted<TrackCounts>{true, {}};
}

Task<Result<Counted<ViewOutcome>>> view(HotStore& store, const ViewEvent& event, bool later) {
  Result<ViewOutcome> outcome = fail(ErrorCode::kUnavailable, "redis_full");
  if (!later) outcome = co_await store.view(event);
  if (outcome) co_return Counted<ViewOutcome>{false, *outcome};
  if (!can_spool(outcome.error(), !event.event.empty())) co_return tl::unexpected(outcome.error());
  if (auto kept = store.view_later(event); !kept) co_return tl::unexpected(kept.error());
  co_return Counted<ViewOutcome>{true, {}};
}

}  // namespace freshet::hot
