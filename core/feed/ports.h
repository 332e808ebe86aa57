// Ports of the smart feed: recall from the search index, and storage of a reader's buffer, seen
// filter and interests.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/async/task.h"
#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/items/ports.h"
#include "core/readers/interaction.h"

namespace freshet::feed {

// --- Recall

struct Interest {  // an item that the reader interacted with; recall searches for its tags and terms
  ItemId item;
  double weight = 1;  // > 0, relative to the others
  // The reader's strongest interaction with it.
  readers::Interaction interaction = readers::Interaction::kView;
};

// Number of newest interests that reasons may name. Each needs its card.
inline constexpr std::size_t kMaxNamedInterests = 5;

// CPU time used by searches, failed ones included. Written by the search thread before it returns
// its result.
using SearchCost = std::shared_ptr<std::chrono::microseconds>;

struct RecallQuery {
  std::string text;                 // text typed by the reader; if empty, interests are used
  std::vector<Interest> interests;  // if empty as well, the newest items are returned
  UnixSeconds now;                  // reference time for ages; items dated later are excluded
  std::size_t size = 500;
  // Above 0: items without a match have a score, too, and one that matches all interests has about
  // 1 + this times as much. 0: matches come first.
  double interest_weight = 0;
  ReaderId reader = {};  // one text search at a time is allowed per reader; empty: no limit
  SearchCost cost = {};  // null: not measured
};

struct Candidate {
  ItemId item;
  // BM25 × decay: 0 if it matches no interest and is included only because it is new. With an
  // interest_weight, (1 + BM25) × decay.
  double score = 0;
  UnixSeconds published_at;
};

struct RecallResult {
  std::vector<Candidate> candidates;  // ordered by (score, published_at, item), all descending
  bool exhausted = false;             // the index has no further candidates
};

class Recall {
 public:
  virtual ~Recall() = default;
  // The `size` best items that are neither hidden nor dated in the future: exactly what scoring
  // every item would give. With a text, only items that match it; otherwise all items; those with a
  // score of 0 follow the others, newest first. A search that has used recall.budget of CPU
  // time returns what it has found. No Redis. Runs on a pool thread; the caller does not block.
  // Errors: kUnavailable "index_unavailable", "search_busy" (the queue is full, or the reader's
  // previous text search is still running), "search_timeout" (nothing found in time).
  virtual Task<Result<RecallResult>> search(RecallQuery query) = 0;
};

// --- A reader's feed

enum class FeedAction : std::uint8_t { kRefresh, kLoadMore, kPeek };

struct FeedRequest {
  ReaderId reader;
  // Idempotency key: the action and its page token or event id. Within feed.replay_window of the
  // first delivery, the same key returns the same page with the same items and token. Empty: no
  // replay.
  std::string idempotency_key;
  std::string query;  // text to search for; empty: recall by interests
  std::size_t limit = 20;
  FeedAction action = FeedAction::kRefresh;
  SearchCost cost = {};      // where to add the cost of searches; null: not measured
  bool allow_writes = true;  // false while Redis is full: no buffer is created
};

// One delivery of a page. Its items are excluded from later pages from that moment on; it must be
// acknowledged once its impressions are recorded.
struct Delivery {
  std::int64_t seq = 0;  // unique among a reader's deliveries
  std::vector<ItemId> items;
};

// A page as it was delivered.
struct Page {
  std::vector<ItemId> items;      // after refill_page(): those that were kept, then the new ones
  std::int64_t generation = 0;    // of the buffer; increases with every refresh of the reader
  std::int64_t sequence = 0;      // number of the page in its generation, from 1
  std::int64_t delivery_seq = 0;  // the delivery it belongs to
  bool has_more_buffered = false;
  bool exhausted = false;     // the buffer is empty and recall had no further candidates
  bool replay = false;        // delivered before for the same idempotency key
  bool acknowledged = false;  // its impressions are recorded, so its items are final
};

// A reader's impressions of the last seven days, read in one round trip.
class SeenView {
 public:
  virtual ~SeenView() = default;
  // For each item, in order, whether it was shown to the reader. May report false positives, never
  // false negatives.
  virtual std::vector<bool> contains(const std::vector<ItemId>& items) const = 0;
};

struct UnacknowledgedDelivery {
  Delivery delivery;
  UnixSeconds delivered_at;
  bool is_recorded = false;  // the filter already has all its items; only the acknowledgement is missing
};

struct FeedState {
  bool is_replay = false;         // already answered: next_page() has its page; all other fields are empty
  std::int64_t generation = 0;    // 0: no buffer
  std::int64_t delivery_seq = 0;  // of the last delivery
  std::int64_t external_impressions = 0;  // how many times impressions were recorded elsewhere
  std::vector<ItemId> delivered_items;    // recently delivered; the filter may not have them yet
  std::vector<ItemId> dismissed_items;    // within feedback.ttl
  // Those of the above whose acknowledgement timed out: their impressions may be lost.
  std::vector<UnacknowledgedDelivery> unacknowledged;
  std::vector<Interest> interests;            // newest first
  std::vector<ItemId> hot_items;              // those that trend most, first
  std::vector<ItemId> buffered_items;         // only if loaded for a peek
  std::shared_ptr<const SeenView> seen_view;  // null if the filter must be queried by item (redisbloom)
};

// Result of next_page() and refill_page().
struct PageResult {
  enum class Status : std::uint8_t {
    kPage,
    kEmpty
  } status = Status::kEmpty;  // kEmpty: no buffer for this query; refresh
  Page page;
  // Impressions were recorded outside of feed pages since the buffer was filled, so the page may
  // contain items already shown. If so, `seen_view` is set (null with redisbloom).
  bool has_external_impressions = false;
  std::shared_ptr<const SeenView> seen_view;
  std::vector<UnacknowledgedDelivery> unacknowledged;  // as in FeedState
  std::vector<Interest> interests;                     // from the newest kMaxNamedInterests interactions
};

struct BufferSwap {
  std::int64_t generation = 0;  // this and the next two as loaded by load_state()
  std::int64_t delivery_seq = 0;
  std::int64_t external_impressions = 0;
  std::vector<ItemId> candidates;  // unseen, best first: the first page, and the buffer after it
  bool exhausted = false;          // recall had no further candidates
  // Items whose cards to return with the reply: those likely on the page and not cached.
  std::vector<ItemId> card_ids;
};

struct SwapResult {
  // Too many pages were delivered since load_state(): load again. All other fields are empty.
  bool must_reload = false;
  Page page;
  // BufferSwap::card_ids has the ids, in the same order. Fewer if a node did not answer.
  std::vector<items::ItemCard> cards;
};

// Items shown to a reader, on delivered pages or elsewhere.
struct Impressions {
  std::vector<Delivery> deliveries;
  // Items of `deliveries` that are not listed here were not shown and may be delivered again.
  std::vector<ItemId> items;
  UnixSeconds at;
  bool is_resend = false;    // recorded late: `at` may be long ago
  bool is_recorded = false;  // already in the filter: acknowledge only
  // Without deliveries: the reader's feed already knows that buffered items may be among `items`.
  bool is_noted = false;
};

struct SeenDay {
  std::string day;               // "20260306" (UTC)
  std::int64_t impressions = 0;  // fingerprints: an estimate that counts repetitions
  std::uint64_t bytes = 0;  // fingerprints: estimated size of the strings; redisbloom: size of the filter
  double fill = 0;          // impressions ÷ capacity
  double false_positive_rate = 0;  // estimated, for this day alone
};

// For /status.
struct SeenStatus {
  std::string filter;         // value of seen.filter
  std::vector<SeenDay> days;  // days with data, newest first
  std::uint64_t bytes = 0;
  double false_positive_rate = 0;  // estimated, for all days together
};

class FeedStore {
 public:
  virtual ~FeedStore() = default;
  // Loads everything that a refresh or peek needs. 1 RTT, 2 on the first call of a day. Errors of
  // all methods: Redis' own; kUnavailable "too_many_pending" if more than feed.max_pending
  // impressions are unacknowledged.
  virtual Task<Result<FeedState>> load_state(const FeedRequest& request, bool peek) = 0;
  // For each of `items`, in order, whether the reader has seen it. No round trip with fingerprints,
  // 1 RTT with redisbloom.
  virtual Task<Result<std::vector<bool>>> check_seen(const ReaderId& reader,
                                                     const std::shared_ptr<const SeenView>& view,
                                                     const std::vector<ItemId>& items) = 0;
  // The newest items, including those dated in the future. 1 RTT.
  virtual Task<Result<std::vector<ItemId>>> newest_items(std::size_t limit) = 0;
  // Replaces the buffer and delivers its first page. If another refresh of the same query came
  // first (the generation has changed), keeps that buffer and delivers a page from it. Atomic, 1
  // RTT.
  virtual Task<Result<SwapResult>> swap_buffer(const FeedRequest& request, const BufferSwap& swap) = 0;
  // Delivers the next page of the buffer. Atomic, 1 RTT; one more if the result has external
  // impressions.
  virtual Task<Result<PageResult>> next_page(const FeedRequest& request) = 0;
  // Completes a page from the buffer, as far as that reaches, when only the items of `partial` can
  // be shown. The result is a new delivery that includes those items and replaces the old one in
  // replays. Cost as next_page().
  virtual Task<Result<PageResult>> refill_page(const FeedRequest& request, const Page& partial) = 0;
  // Call before showing a replayed page that is not acknowledged. Returns those of `items` that may
  // be shown, without any that the request that delivered the page has left out in the meantime.
  // The returned items count as shown, even if another request leaves them out. 1 RTT.
  virtual Task<Result<std::vector<ItemId>>> replay_page(const FeedRequest& request,
                                                        const std::vector<ItemId>& items) = 0;
  // Writes impressions to the filter, then acknowledges their deliveries or, if there are none,
  // notes that impressions were recorded outside of feed pages. 2 RTT, 1 if that is noted already.
  // After an error the deliveries stay unacknowledged.
  virtual Task<Result<void>> record(ReaderId reader, Impressions impressions) = 0;
  // State of the filter for /status. 1 RTT.
  virtual Task<Result<SeenStatus>> seen_status() = 0;
};

}  // namespace freshet::feed
