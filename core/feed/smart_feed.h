// The smart feed: refresh, load_more, peek.
//
//   refresh    open → recall → leave out the seen → swap the buffer and hand out its first page
//   load_more  hand out the next page of the buffer; without one, refresh
//   peek       open → recall → count; writes nothing
//
// Where nothing may be kept (FeedRequest::keeps) a refresh is open → recall → the best of it, which
// may come again, and load_more goes on in a buffer that is there.
//
// What is handed out is excluded at once, by the same script that hands it out; the filter learns
// of it behind the reply, and then it is acknowledged. What is not, since a worker died or Redis
// was away, is recorded at the reader's next request. A buffer never holds what was handed out, so
// load_more asks the filter only when something else was recorded since (a channel's fill).
//
// Round trips: refresh 2, load_more 1; each one more when titles must be fetched, a page refilled,
// a replay is not acknowledged, or the filter asked by a load_more; refresh also with redisbloom,
// and two or three without an index.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <unordered_set>

#include "core/base/dependency.h"
#include "core/config/settings.h"
#include "core/feed/ports.h"
#include "core/items/card_cache.h"
#include "core/items/ports.h"
#include "core/readers/reason.h"

namespace freshet::feed {

struct FeedItem {
  ItemId id;
  items::SharedCard card;  // never null
  readers::Reason reason;
};

struct FeedPage {
  std::vector<FeedItem> items;
  std::int64_t generation = 0, sequence = 0;  // for the page token; 0 and 0 when degraded
  bool exhausted = false;                     // nothing unseen is left; else asking again gives more
  // What was missing. The index: the buffer's page, or one of what is hot and newest. Redis: an
  // empty one. Writes: nothing is kept.
  std::optional<Dependency> degraded;
};

class SmartFeed {
 public:
  using WallClock = std::function<UnixSeconds()>;
  // All must outlive this. `clock` says how old items are and on which UTC day an impression falls.
  SmartFeed(FeedStore& store, Recall& recall, items::CardCache& cards, const Settings& settings,
            WallClock clock = wall_now);

  // For refresh and load_more. Errors: kUnavailable "too_many_pending"; kInvalid "bad_query".
  Task<Result<FeedPage>> page(const FeedRequest& request);
  // How many of the items that a refresh would hand out now are not waiting in the buffer already.
  // nullopt when Redis or the index is away.
  Task<Result<std::optional<std::size_t>>> peek(const FeedRequest& request);

  // `shown` hears what is on each page that is handed out by page(), once also when the page is
  // handed out again.
  void on_impressions(std::function<void(std::span<const ItemId>)> observer) { impression_observer_ = std::move(observer); }

  // Calls `done` when nothing is being recorded: now, or when the last of it ended. For a worker
  // that stops.
  void notify_when_recorded(std::function<void()> done);

 private:
  struct UnseenItems {
    std::vector<ItemId> items;  // best first
    bool exhausted = false;
  };
  Task<Result<FeedPage>> load_more(const FeedRequest& request);
  Task<Result<FeedPage>> refresh(const FeedRequest& request);
  // nullopt: to be tried again.
  Task<Result<std::optional<FeedPage>>> try_refresh(const FeedRequest& request);
  Task<Result<FeedPage>> stateless_refresh(const FeedRequest& request);
  Task<Result<FeedPage>> serve_old_buffer(const FeedRequest& request);
  Task<Result<UnseenItems>> fallback_candidates(const FeedRequest& request, const FeedState& state);
  Task<Result<UnseenItems>> recall_unseen(const FeedRequest& request, const FeedState& state);
  Task<Result<std::vector<ItemId>>> remove_seen(const ReaderId& reader, const FeedState& state,
                                                 std::vector<ItemId> items);
  // From a page as it was handed out to what is served.
  // `recheck`: ask the filter, since something else was recorded while the page waited in the
  // buffer.
  Task<Result<FeedPage>> serve_page(const FeedRequest& request, Page page, bool recheck,
                               std::shared_ptr<const SeenView> seen, std::vector<Interest> interests);
  void assign_reasons(const FeedRequest& request, const std::vector<Interest>& interests,
                    const std::vector<items::SharedCard>& interest_cards, std::vector<FeedItem>& items) const;
  Task<Result<std::vector<ItemId>>> filter_known(const std::vector<ItemId>& items);
  // What is shown of a page, and of the interests that its reasons may name.
  struct PageCards {
    std::vector<FeedItem> items;  // without reasons
    std::vector<items::SharedCard> interest_cards;
  };
  Task<Result<PageCards>> load_cards(const std::vector<ItemId>& items, const std::vector<Interest>& interests);
  void record(const ReaderId& reader, Impressions impressions);
  void resend_unacknowledged(const ReaderId& reader, const std::vector<UnacknowledgedDelivery>& deliveries);

  FeedStore& store_;
  Recall& recall_;
  items::CardCache& cards_;
  const RecallSettings settings_;
  const WallClock clock_;
  std::size_t pending_records_ = 0;  // record() under way
  std::function<void()> recorded_callback_;
  std::function<void(std::span<const ItemId>)> impression_observer_;
  std::unordered_set<ItemId> trending_;  // the head of the rank, as a refresh of anybody read it last
};

}  // namespace freshet::feed
