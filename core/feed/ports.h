// What the smart feed needs of storage: recall from the search index, and a reader's buffer, seen
// filter and interests. the stores of this room implement these; unit tests fake them.
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

struct Interest {  // an item that the reader engaged with; its tags and terms are what is looked for
  ItemId item;
  double weight = 1;                                        // > 0, relative to the others
  readers::Interaction interaction = readers::Interaction::kView;  // the strongest of theirs with it
};

// Of a reader's interests so many, the newest, are named in reasons: each needs its card.
inline constexpr std::size_t kMaxNamedInterests = 5;

// What searches have cost, also those that failed. Written by the search's thread before its answer
// comes.
using SearchCost = std::shared_ptr<std::chrono::microseconds>;  // of CPU

struct RecallQuery {
  std::string text;                 // what the reader typed; when empty …
  std::vector<Interest> interests;  // … what they like; when that is empty too: the newest first
  UnixSeconds now;                  // ages are counted to here; what is dated later is left out
  std::size_t size = 500;
  ReaderId reader = {};  // who searches: for one text at a time; empty: anybody
  SearchCost cost = {};  // null: nobody asks
};

struct Candidate {
  ItemId item;
  double score = 0;  // BM25 × decay; 0: nothing of the interests is in it, it is there for being new
  UnixSeconds published_at;
};

struct RecallResult {
  std::vector<Candidate> candidates;  // by (score, published_at, item), each descending
  bool exhausted = false;             // there are no more than these
};

class Recall {
 public:
  virtual ~Recall() = default;
  // The `size` best of all items that are not hidden or dated ahead: exactly what scoring every one
  // of them would give. With a text only items that match it; else every item, those without a
  // match behind the others, newest first. A search that has computed for recall.budget ends with
  // what it has found. No Redis. Blocks a thread of a pool, never the caller. Errors: kUnavailable
  // "index_unavailable", "search_busy" (too many wait, or the reader's last text is still searched),
  // "search_timeout" (nothing found until then); kInvalid "bad_query" (member "query").
  virtual Task<Result<RecallResult>> search(RecallQuery query) = 0;
};

// --- A reader's feed

enum class FeedAction : std::uint8_t { kRefresh, kLoadMore, kPeek };

struct FeedRequest {
  ReaderId reader;
  // An id: action and the page token or event id that came with it. A page that was handed out once
  // for it within feed.replay_window is handed out again, with the same items and token. Empty:
  // nothing is remembered.
  std::string idempotency_key;
  std::string query;  // empty: by interests
  std::size_t limit = 20;
  FeedAction action = FeedAction::kRefresh;
  SearchCost cost = {};  // of what it searches; null: nobody asks
  bool allow_writes = true;     // false: Redis has no room, so no buffer is made
};

// A page as one step handed it out: excluded from later ones from that moment on, and waiting for
// its acknowledgement until it is recorded.
struct Delivery {
  std::int64_t seq = 0;  // never the same of two of a reader's
  std::vector<ItemId> items;
};

// A page as it was handed out.
struct Page {
  std::vector<ItemId> items;     // of a refill: those that were kept, then the new ones
  std::int64_t generation = 0;   // of the buffer; grows with every refresh of the reader
  std::int64_t sequence = 0;     // of the page in that generation, from 1
  std::int64_t delivery_seq = 0;  // by which it was handed out
  bool has_more_buffered = false;         // the buffer holds more
  bool exhausted = false;        // the buffer is empty and recall had no more
  bool replay = false;           // handed out before
  bool acknowledged = false;     // and recorded: it is as it was shown
};

// What is known of the reader's impressions of the last seven days, as read in one round trip.
class SeenView {
 public:
  virtual ~SeenView() = default;
  // Of each item, in order, whether it is among them; also true for a few of what is not.
  virtual std::vector<bool> contains(const std::vector<ItemId>& items) const = 0;
};

struct UnacknowledgedDelivery {
  Delivery delivery;
  UnixSeconds delivered_at;
  bool is_recorded = false;  // the filter was just read and has all of it: the acknowledgement is missing
};

struct FeedState {
  bool is_replay = false;             // the request was answered before: take() has its page; all else is empty
  std::int64_t generation = 0;     // 0: no buffer
  std::int64_t delivery_seq = 0;    // the last that was handed out
  std::int64_t external_impressions = 0;          // counts what was recorded beside pages
  std::vector<ItemId> delivered_items;  // lately; the filter may not know them yet
  std::vector<UnacknowledgedDelivery> unacknowledged;  // of these, long ago: their impressions were lost on the way
  std::vector<Interest> interests;             // newest first
  std::vector<ItemId> hot_items;                     // head of the rank by engagement
  std::vector<ItemId> buffered_items;                  // peek only
  std::shared_ptr<const SeenView> seen_view;        // null when the filter must be asked by item (redisbloom)
};

// What take() answers.
struct PageResult {
  enum class Status : std::uint8_t {
    kPage,
    kEmpty
  } status = Status::kEmpty;  // kEmpty: no buffer for this query: refresh
  Page page;
  // Something else was recorded since the buffer was filled: the page may have it. Then, with
  // fingerprints, `seen` is not null.
  bool has_external_impressions = false;
  std::shared_ptr<const SeenView> seen_view;
  std::vector<UnacknowledgedDelivery> unacknowledged;  // as Opening's
  std::vector<Interest> interests;             // of their newest kNamedInterests interactions
};

struct BufferSwap {
  std::int64_t generation = 0;  // as opened, all three
  std::int64_t delivery_seq = 0;
  std::int64_t external_impressions = 0;
  std::vector<ItemId> candidates;  // unseen, best first: a page and the buffer behind it
  bool exhausted = false;          // recall had no more
  std::vector<ItemId> card_ids;     // whose cards are wanted with the reply: likely the page's, not yet known
};

struct SwapResult {
  bool must_reload = false;  // too much was handed out since opened: to be opened again; all else is empty
  Page page;
  std::vector<items::ItemCard> cards;  // of Refill::details
};

// What was shown of some pages, or beside them.
struct Impressions {
  std::vector<Delivery> deliveries;
  std::vector<ItemId> items;  // what of the pages is not among them is forgotten and may come again
  UnixSeconds at;
  bool is_resend = false;     // `at` may be long ago
  bool is_recorded = false;  // the filter has them: only to be acknowledged
};

struct SeenDay {
  std::string day;                 // "20260306", UTC
  std::int64_t impressions = 0;    // fingerprints: estimated, with repetitions
  std::uint64_t bytes = 0;         // fingerprints: estimated, of the strings; redisbloom: of the filter
  double fill = 0;                 // impressions ÷ those the filter was made for
  double false_positive_rate = 0;  // estimated, of this day alone
};

// For /status.
struct SeenStatus {
  std::string filter;              // as in seen.filter
  std::vector<SeenDay> days;       // of which there is something, newest first
  std::uint64_t bytes = 0;         // of all days
  double false_positive_rate = 0;  // estimated, of all days together
};

class FeedStore {
 public:
  virtual ~FeedStore() = default;
  // 1 RTT: all that a refresh (or peek) must know; on the first call of a day 2. Errors of all
  // methods: Redis' own; kUnavailable "too_many_pending" when more than feed.max_pending
  // impressions wait for their acknowledgement.
  virtual Task<Result<FeedState>> load_state(const FeedRequest& request, bool peek) = 0;
  // Which of `items` the reader has seen, in order. 0 RTT with fingerprints, 1 with redisbloom.
  virtual Task<Result<std::vector<bool>>> check_seen(const ReaderId& reader,
                                               const std::shared_ptr<const SeenView>& view,
                                               const std::vector<ItemId>& items) = 0;
  // 1 RTT: the newest items, those dated ahead among them.
  virtual Task<Result<std::vector<ItemId>>> newest_items(std::size_t limit) = 0;
  // 1 RTT, atomic: replaces the buffer and hands out its first page. When another refresh of the
  // same query came first (the generation has changed) its buffer is kept and the page is taken
  // from there.
  virtual Task<Result<SwapResult>> swap_buffer(const FeedRequest& request, const BufferSwap& swap) = 0;
  // 1 RTT, atomic: hands out the next page of the buffer; with Taken::noted 1 more.
  virtual Task<Result<PageResult>> next_page(const FeedRequest& request) = 0;
  // The same: fills up a page of which only `kept` can be shown, as far as the buffer goes. The
  // page, with what is kept, is a new handout, and what is remembered of it is corrected.
  virtual Task<Result<PageResult>> refill_page(const FeedRequest& request, const Page& partial) = 0;
  // 1 RTT: before a replay that is not acknowledged is shown. Which of `items` may be: not those
  // that who handed out the page has left out meanwhile. They count as shown, whoever else leaves
  // them out.
  virtual Task<Result<std::vector<ItemId>>> replay_page(const FeedRequest& request,
                                                       const std::vector<ItemId>& items) = 0;
  // Writes impressions into the filter and, when it has them, acknowledges what was handed out: 2
  // RTT. After an error all waits as before.
  virtual Task<Result<void>> record(ReaderId reader, Impressions impressions) = 0;
  // What the filter holds, for /status. 1 RTT.
  virtual Task<Result<SeenStatus>> seen_status() = 0;
};

}  // namespace freshet::feed
