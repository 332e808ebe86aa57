// Pushes recommendations to a channel: the items a reader should see next go to the head of their
// timeline, best on top, and count as shown. They are added to the seen filter like a page of the
// feed.
//
// Items that are in the filter or were recently delivered by the feed are not pushed. Pushed items
// stay out of the feed for seven days, even if they were already buffered there. Two races remain:
// a page that the feed delivers within the milliseconds between reading the filter and writing to
// it, and the buffer of a reader without one whose refresh runs at that moment, may contain the
// same items.
//
// The push comes before the write to the filter. After a crash in between, the timeline has items
// that the filter lacks; the next run selects them again, keeps their position and records them
// then. Nothing is lost or duplicated; until then the feed may show them too. In the opposite
// order, items would be lost for a week.
#pragma once

#include <string>
#include <vector>

#include "core/feed/ports.h"
#include "core/recommend/recommendations.h"
#include "core/timeline/ports.h"

namespace freshet::timeline {

class RecommendationPusher {
 public:
  using WallClock = std::function<UnixSeconds()>;
  // All references must outlive this.
  RecommendationPusher(recommend::Recommendations& recommendations, feed::FeedStore& feed_store,
                       TimelineStore& timelines, WallClock clock = wall_now);

  // The best items that the reader has neither seen, interacted with, viewed nor dismissed, best
  // first. Writes nothing. At most 3 RTT if their titles are cached. Errors of both methods: Redis'
  // own.
  Task<Result<std::vector<ItemId>>> select(const ReaderId& reader, std::size_t limit);
  // Selects and pushes items. Repeats if all selected items are already in the timeline (from
  // before the filter's seven days, or from a crash). Each round takes 2 RTT more than select().
  Task<Result<PushResult>> push(const std::string& channel, const ReaderId& reader, std::size_t limit);

 private:
  Task<Result<std::unordered_set<std::string>>> seen_or_delivered(const ReaderId& reader,
                                                                  const recommend::Selection& selection);

  recommend::Recommendations& recommendations_;
  feed::FeedStore& feed_store_;
  TimelineStore& timelines_;
  const WallClock clock_;
};

}  // namespace freshet::timeline
