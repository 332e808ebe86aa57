// The smart feed: refresh, load_more, peek.
//
//   refresh    load state → recall → remove seen items → swap the buffer and deliver its first page
//   load_more  deliver the next page of the buffer; without a buffer, refresh
//   peek       load state → recall → count; writes nothing
//
// While writes are disabled (FeedRequest::allow_writes) a refresh returns the best items of a
// recall without storing anything, so they may be shown again; load_more continues an existing
// buffer, and without one ends the feed.
//
// Items are excluded from later pages by the script that delivers them. They are then added to the
// seen filter asynchronously, and the delivery is acknowledged. If that was lost because a worker
// died or Redis was unavailable, it is repeated at the reader's next request. A buffer never holds
// delivered items, so load_more consults the filter only if impressions were recorded outside of
// feed pages since then (by a pushed recommendation).
//
// Round trips: refresh 2, load_more 1. One more each if cards must be fetched, a page refilled, an
// unacknowledged page replayed, or if load_more consults the filter; also for a refresh with
// redisbloom, and two or three without an index.
#pragma once

#include <cstdint>
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
  // No unseen items are left, or none among the best recall.max_depth. If false, another request
  // may return more.
  bool exhausted = false;
  // The missing dependency. kIndex: the page comes from the buffer, or from the hottest and newest
  // items. kRedis: the page is empty. kWrites: nothing was stored.
  std::optional<Dependency> degraded;
};

// Interests as recall gets them: each weighs 0.9 times the next newer one. `newest_first`: as
// loaded.
std::vector<Interest> weigh_interests(const std::vector<Interest>& newest_first);
// Orders candidates by score × (1 + weight / (1 + position / 10)), where `position` is that in
// `hot`; the others keep their score. Equal scores keep their order.
void order_by_trend(std::vector<Candidate>& candidates, const std::vector<ItemId>& hot, double weight);

class SmartFeed {
 public:
  using WallClock = std::function<UnixSeconds()>;
  // All references must outlive this. `clock` determines the age of items and the UTC day of
  // impressions.
  SmartFeed(FeedStore& store, Recall& recall, items::CardCache& cards, const Settings& settings,
            WallClock clock = wall_now);

  // For refresh and load_more. Errors: kUnavailable "too_many_pending".
  Task<Result<FeedPage>> page(const FeedRequest& request);
  // Number of items that a refresh would deliver now and that are not in the buffer yet. nullopt if
  // Redis or the index is unavailable.
  Task<Result<std::optional<std::size_t>>> peek(const FeedRequest& request);

  // Keeps an item that the reader viewed, interacted with or dismissed out of later pages, as an
  // impression at that time would (nullopt: now). Asynchronous; failures are ignored. `is_noted`:
  // as in Impressions. 1 RTT, 2 if it is not noted.
  void record_use(const ReaderId& reader, const ItemId& item, std::optional<UnixSeconds> at, bool is_noted);

  // `observer` is called with the items of each page that page() delivers, not for replays.
  void on_impressions(std::function<void(std::span<const ItemId>)> observer) {
    impression_observer_ = std::move(observer);
  }

  // Calls `done` once no impressions are being recorded: immediately, or when the last write
  // completes. For the shutdown of a worker.
  void notify_when_recorded(std::function<void()> done);

 private:
  struct UnseenItems {
    std::vector<ItemId> items;  // best first
    bool exhausted = false;
  };
  Task<Result<FeedPage>> load_more(const FeedRequest& request);
  Task<Result<FeedPage>> refresh(const FeedRequest& request);
  // nullopt: try again.
  Task<Result<std::optional<FeedPage>>> try_refresh(const FeedRequest& request);
  Task<Result<FeedPage>> stateless_refresh(const FeedRequest& request);
  Task<Result<FeedPage>> serve_old_buffer(const FeedRequest& request);
  Task<Result<UnseenItems>> fallback_candidates(const FeedRequest& request, const FeedState& state);
  // If a deeper search fails, returns what the searches before it found. Errors: those of
  // Recall::search(), and kUnavailable "search_timeout" if none was found within the budget.
  Task<Result<UnseenItems>> recall_unseen(const FeedRequest& request, const FeedState& state);
  Task<Result<std::vector<ItemId>>> remove_seen(const ReaderId& reader, const FeedState& state,
                                                std::vector<ItemId> items);
  // Turns a delivered page into the served one: drops items that cannot be shown, refills, adds
  // reasons and records the impressions. `recheck`: consult the filter, since impressions were
  // recorded elsewhere while the page waited in the buffer.
  Task<Result<FeedPage>> serve_page(const FeedRequest& request, Page page, bool recheck,
                                    std::shared_ptr<const SeenView> seen, std::vector<Interest> interests);
  void assign_reasons(const FeedRequest& request, const std::vector<Interest>& interests,
                      const std::vector<items::SharedCard>& interest_cards,
                      std::vector<FeedItem>& items) const;
  Task<Result<std::vector<ItemId>>> filter_known(const std::vector<ItemId>& items);
  // Cards of a page and of the interests that its reasons may name.
  struct PageCards {
    std::vector<FeedItem> items;
    std::vector<items::SharedCard> interest_cards;
  };
  Task<Result<PageCards>> load_cards(const std::vector<ItemId>& items,
                                     const std::vector<Interest>& interests);
  void record(const ReaderId& reader, Impressions impressions);
  void resend_unacknowledged(const ReaderId& reader, const std::vector<UnacknowledgedDelivery>& deliveries);

  FeedStore& store_;
  Recall& recall_;
  items::CardCache& cards_;
  const RecallSettings settings_;
  const WallClock clock_;
  std::size_t pending_records_ = 0;  // record() calls in progress
  std::function<void()> recorded_callback_;
  std::function<void(std::span<const ItemId>)> impression_observer_;
  std::unordered_set<ItemId> trending_;  // top of the hot rank, as last read by any reader's refresh
};

}  // namespace freshet::feed
