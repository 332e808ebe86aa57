// Storage port of counting and hot lists. hot_store.h implements it on Redis; unit tests fake it.
// Every method of a port states its round trips (RTT) and takes and returns plain values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/async/task.h"
#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/hot/models.h"
#include "core/hot/threshold_top_k.h"
#include "core/hot/trending.h"

namespace freshet::hot {

// --- Engagement

// Decides what an event may contribute to an article. Resolved before the event is counted.
struct EventAdmission {
  // Hashes of the client's network (IPv4 /24, IPv6 /48) and of the one around it (/16, /32). Empty
  // for the internal server, whose events also verify the article (items.unknown = count).
  std::string network = {}, wide_network = {};
  bool is_from_client() const { return !network.empty(); }
  bool may_create = true;  // may create an unverified article
  // False beyond limits.pv_per_network: adds neither a page view nor a visitor.
  bool may_count = true;
};

// The id under which clients' events of a hidden or embargoed item are counted, so that they get
// the replies of an unknown article and do not count. No client can name it, since ids contain no
// kIdMark, and it is in no rank.
inline constexpr std::string_view kInvisibleSuffix = "\x1einvisible";
inline ItemId invisible_alias(const ItemId& item) {
  return ItemId::trusted(item.str() + std::string(kInvisibleSuffix));
}
inline bool is_invisible_alias(std::string_view id) { return id.ends_with(kInvisibleSuffix); }

struct TrackEvent {
  ItemId item;
  VisitorId visitor;  // counted in UV
  SessionId
      session;  // one PV per session and item within the window; the visitor's id if there is no session
  std::int64_t dwell_ms = 0;  // 0 … dwell_cap_ms: already clamped
  // Ignored if the item was put. A client's counts only with an article's first event, or with
  // items.unknown = list if it is later than the one so far and within an hour of that event; the
  // site's first one (!is_from_client()) replaces it.
  std::optional<UnixSeconds> published_at;
  EventId event_id;                             // empty: not idempotent
  std::optional<UnixSeconds> occurred_at = {};  // in the past; nullopt: now, by Redis' clock
  // The dwell time is an unproven claim of the client: a session's first report can claim at most
  // hot.max_initial_dwell, later ones that plus the time since.
  bool untrusted_dwell = false;
  VisitorId attributed_to = {};  // visitor that the contribution is recorded for; empty: none
  EventAdmission admission = {};
};

// Side effects of an event.
struct EventOutcome {
  bool listed = true;    // false: unverified, so not on public lists
  bool created = false;  // the event created an unverified article
  bool counted = false;  // it added a page view, a visitor or a view
  bool refused = false;  // it would have, but for EventAdmission::may_count
};

struct TrackResult {
  std::int64_t pv = 0;
  std::int64_t uv = 0;
  double avg_dwell_ms = 0;  // plain mean over the sessions
  double score = 0;         // base × decay at the time of the event
  EventOutcome outcome = {};
};

// --- Views

struct ViewEvent {
  ItemId item;
  std::optional<UnixSeconds> published_at;  // as in TrackEvent
  std::string fingerprint;                  // formatted like an id; key for deduplication and UV
  EventId event_id;
  std::optional<UnixSeconds> occurred_at = {};  // as in TrackEvent
  VisitorId attributed_to = {};                 // as in TrackEvent
  EventAdmission admission = {};
};

struct ViewResult {
  bool dedup = false;        // seen within the window: nothing was counted
  bool first_today = false;  // the visitor's first view of the day
  double score_inc = 0;      // added to hot:score
  bool tracked = false;      // reports counted page views of the article in the last two days
  EventOutcome outcome = {};
};

// --- Lists

enum class ViewsMode { kAccumulate, kCurrent };

struct ListQuery {
  const Model* model = &kViewsModel;        // a row of kModels; rank_page() also reads kNewestItems
  ViewsMode mode = ViewsMode::kAccumulate;  // kCurrent: for views only
  seconds window{0};                        // maximum age; 0: no limit
  TagName tag;                              // the tag's key (utf8::fold()); empty: all tags
  auto operator<=>(const ListQuery&) const = default;
};

struct ScoredItem {
  ItemId item;
  double score = 0;  // as stored in the rank; for mode = current as served
};

// How long a list is not built again after a build that exceeded gateway.request_budget.
inline constexpr milliseconds kSlowListTtl{10'000};

// The list cached in Redis, shared by all workers.
struct CachedList {
  enum class Freshness { kFresh, kStale, kMustBuild, kTooSlow } freshness = Freshness::kMustBuild;
  // kFresh: built within the current rebuild interval. kStale: older; another process is rebuilding
  // it. kMustBuild: this caller holds the short lock and must rebuild it; json may hold the old
  // list until then. kTooSlow: as kStale, but the last build ran out of time: do not build.
  std::string json;          // empty if there is none or it contains an item hidden since
  bool below_floor = false;  // as HotList::below_floor()
  std::int64_t built_ms = 0;
  std::string epoch;  // pass back to store_list()
  // Time until an embargoed item is published, which makes the list outdated; nullopt: no such
  // item.
  std::optional<milliseconds> expires_in = std::nullopt;
};

// An article's position in a model's rank; at most a second behind its counters. Both are unset
// with Ranks::kOmit.
struct RankPosition {
  std::optional<double> score;       // as stored in the rank; nullopt: not ranked
  std::optional<std::int64_t> rank;  // 1 is the hottest
};

struct ItemStats {
  bool known = false;   // some counter is not zero
  bool listed = true;   // as in EventOutcome
  bool visible = true;  // false: hidden or embargoed
  std::int64_t pv = 0, uv = 0, dwell_sum_ms = 0, dwell_count = 0;
  UnixSeconds decay_start;  // start of the decay: the publish time, or `now` if that is in the future
  UnixSeconds now;          // Redis' clock when read
  std::array<RankPosition, kModels.size()> positions;
  std::int64_t views_pv = 0;  // counted views
  double views_total = 0;     // undecayed sum of increments
  std::optional<TrendSums> trend;
  std::int64_t uv_today = 0;
  std::int64_t impressions = 0;  // in feeds
  const RankPosition& position(const Model& model) const { return positions.at(index_of(model)); }
};

// Opaque position in a rank scan; empty at the start.
using RankCursor = std::vector<std::int64_t>;
// A page of a rank scan: the members that match the filters, and the cursor of the next page.
struct RankPage {
  std::vector<ScoredItem> items;   // highest first
  std::optional<RankCursor> next;  // nullopt at the end
};

struct BucketMember {  // for mode = current
  ItemId item;
  double total = 0;
  UnixSeconds published;
  unsigned partition = 0;
};

// Selects whether statistics include positions in ranks.
enum class Ranks : std::uint8_t { kOmit, kInclude };

class HotStore {
 public:
  virtual ~HotStore() = default;
  // 1 RTT, one atomic script each; 2 RTT for an unverified article. With views.from_track, track()
  // counts a view for each page view. Rank updates and the visitor's contribution are written
  // asynchronously. A client's event of a hidden or embargoed item does
  // not count and has the same result as that of an unknown one, for 1 RTT more. A publish time
  // that replaces a client's takes 2 RTT more. Errors: kNotFound "unknown_item"
  // (items.unknown = reject); kRateLimited "unverified_quota" (EventAdmission::may_create is false
  // or items.unknown_max is reached); Redis errors.
  virtual Task<Result<TrackResult>> track(const TrackEvent& event) = 0;
  virtual Task<Result<ViewResult>> view(const ViewEvent& event) = 0;
  // Spools an event that Redis could not take; the spool survives this process. It is applied once
  // when Redis is available again. No round trip. Errors: kUnavailable "spool_full".
  virtual Result<void> spool_track(const TrackEvent& event) = 0;
  virtual Result<void> spool_view(const ViewEvent& event) = 0;
  // The cached list. 1 RTT while it is fresh; otherwise 2, which try to take the rebuild lock.
  virtual Task<Result<CachedList>> cached_list(const ListQuery& query) = 0;
  // Replaces the cached list and releases the lock, asynchronously.
  virtual void store_list(const ListQuery& query, const CachedList& built) = 0;
  // Replaces the lock, asynchronously: cached_list() returns kTooSlow to all processes for
  // kSlowListTtl.
  virtual void mark_list_slow(const ListQuery& query) = 0;
  // Up to `count` members of the query's rank from the cursor on, without embargoed items. 2 RTT;
  // with a window or a tag 4, or up to 9 in a long rank (which read at most 2,000 members per
  // page). In a cluster 2 more if one partition holds many of them. kNewestItems includes older
  // items of a tag with at most 1,000 items, for 1 more.
  virtual Task<Result<RankPage>> rank_page(const ListQuery& query, RankCursor from, std::int64_t count) = 0;
  // Returns whether any item has the tag. 1 RTT.
  virtual Task<Result<bool>> has_items(const TagName& tag) = 0;
  // All buckets of mode = current. 1 RTT.
  virtual Task<Result<std::vector<BucketUpperBound>>> buckets() = 0;
  // The `count` members with the highest totals of each bucket, with their publish times. 2 RTT;
  // more if buckets hold re-dated articles or their bounds are wrong.
  virtual Task<Result<std::vector<BucketMember>>> bucket_heads(const std::vector<BucketName>& buckets,
                                                               std::int64_t offset, std::int64_t count) = 0;
  // 1 RTT; 2 for positions in several partitions. In the order of `items`.
  virtual Task<Result<std::vector<ItemStats>>> stats(const std::vector<ItemId>& items, Ranks ranks) = 0;
};

}  // namespace freshet::hot
