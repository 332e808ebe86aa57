#include "core/hot/counting.h"

namespace freshet::hot {

Task<Result<CountResult<TrackResult>>> track(HotStore& store, const TrackEvent& event, bool must_spool) {
  Result<TrackResult> result = fail(ErrorCode::kUnavailable, "redis_full");
  if (!must_spool) result = co_await store.track(event);
  if (result) co_return CountResult<TrackResult>{false, *result};
  if (!can_spool(result.error(), !event.event_id.empty())) co_return tl::unexpected(result.error());
  if (auto spooled = store.spool_track(event); !spooled) co_return tl::unexpected(spooled.error());
  co_return CountResult<TrackResult>{true, {}};
}

Task<Result<CountResult<ViewResult>>> view(HotStore& store, const ViewEvent& event, bool must_spool) {
  Result<ViewResult> result = fail(ErrorCode::kUnavailable, "redis_full");
  if (!must_spool) result = co_await store.view(event);
  if (result) co_return CountResult<ViewResult>{false, *result};
  if (!can_spool(result.error(), !event.event_id.empty())) co_return tl::unexpected(result.error());
  if (auto spooled = store.spool_view(event); !spooled) co_return tl::unexpected(spooled.error());
  co_return CountResult<ViewResult>{true, {}};
}

}  // namespace freshet::hot
