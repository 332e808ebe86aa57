// Recommendations for a channel: what a reader should see next goes to the head of their
// timeline, the best on top, and counts as shown: the seen-filter learns of it as of a page of the
// feed.
//
// What the filter knows is not pushed, nor what the feed has just handed out; what is pushed stays
// out of the feed for seven days, also of what is buffered there already. A page that the feed
// hands out between the look at the filter and the note in it, some milliseconds, can have the same
// items, and so can the buffer of a reader who had none and refreshes just then.
//
// First the push, then the note. After a crash between the two the timeline has what the filter
// does not know: the next time it is chosen again, keeps its place and is noted then, so nothing is
// lost and nothing stands twice; until then the feed may show it too. The other way round items
// would be lost for a week.
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
  // All must outlive this.
  RecommendationPusher(recommend::Recommendations& recommendations, feed::FeedStore& feed_store, TimelineStore& timelines,
              WallClock clock = wall_now);

  // The best that the reader has neither seen, done, viewed nor dismissed, best first; writes
  // nothing. 3 RTT at most when titles are known. Errors of both: Redis' own.
  Task<Result<std::vector<ItemId>>> select(const ReaderId& reader, std::size_t limit);
  // Chooses and pushes; while all that was chosen stands in the timeline already (older than the
  // filter remembers, or from a crash), again. 1 RTT more than choose() and one for the note, each
  // time.
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
