// What counting and hot lists need of storage, in their own words: hot_store.h implements it on
// Redis, unit tests fake it. Every method of a port, in each room, says its round trips, and takes
// and returns plain values.
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
#include "core/hot/threshold_top_k.h"
#include "core/hot/models.h"

namespace freshet::hot {

// --- Engagement

// What is asked of an event before it may add to an article.
struct EventAdmission {
  // The network of a client of the public server, hashed. Empty: the site's own word, which vouches
  // for the article (items.unknown = count).
  std::string network = {};
  bool may_create = true;  // an article that nobody vouched for may come into being by it
  bool counts_as_visitor = true;      // its visitor counts as one
};

struct TrackEvent {
  ItemId item;
  VisitorId visitor;  // what UV counts
  SessionId
      session;  // one PV per session and item in the window; never empty (the visitor when none was given)
  std::int64_t dwell_ms = 0;                // 0..dwell_cap_ms: already clamped
  std::optional<UnixSeconds> published_at;  // the client's word, used at first sight of an unknown item only
  EventId event_id;                            // empty: not idempotent
  std::optional<UnixSeconds> occurred_at = {};       // when it happened, in the past; nullopt: now, by Redis' clock
  // The client's word alone: a session's first report can claim hot.max_initial_dwell, later ones what it
  // claimed and the time since.
  bool untrusted_dwell = false;
  VisitorId attributed_to = {};  // under whom it is remembered what this adds; empty: under nobody
  EventAdmission admission = {};
};

// What an event did besides counting.
struct EventOutcome {
  bool listed = true;        // false: nobody vouched for the article, so no public list has it
  bool created = false;        // such an article came into being
  bool new_visitor = false;  // of a listed one
};

struct TrackResult {
  std::int64_t pv = 0;
  std::int64_t uv = 0;
  double avg_dwell_ms = 0;  // the plain mean of the sessions' dwell
  double score = 0;         // base × decay at the moment of the event
  EventOutcome outcome = {};
};

// --- Views

struct ViewEvent {
  ItemId item;
  std::optional<UnixSeconds> published_at;  // as above
  std::string fingerprint;                  // an id by the same rules; the dedup and UV key of this seed
  EventId event_id;
  std::optional<UnixSeconds> occurred_at = {};  // as above
  VisitorId attributed_to = {};           // as above
  EventAdmission admission = {};
};

struct ViewResult {
  bool dedup = false;        // seen within the window: nothing was counted
  bool first_today = false;  // `uv` of its increment
  double score_inc = 0;      // what was added to hot:score
  EventOutcome outcome = {};
};

// --- Lists

enum class ViewsMode { kAccumulate, kCurrent };

struct ListQuery {
  const Model* model = &kViewsModel;           // a row of kModels
  ViewsMode mode = ViewsMode::kAccumulate;  // kCurrent: of views only
  seconds window{0};                        // published within; 0: all
  TagName tag;                              // empty: all
  auto operator<=>(const ListQuery&) const = default;
};

struct ScoredItem {
  ItemId item;
  double score = 0;  // its place in the rank; of mode = current as served
};

// The list as Redis has it for everybody.
struct CachedList {
  enum class Freshness { kFresh, kStale, kMustBuild } freshness = Freshness::kMustBuild;
  // kFresh: built in this time slice. kStale: older, and another process is rebuilding. kBuild:
  // this caller holds the short lock and is to build it; json may hold the old list meanwhile.
  std::string json;  // empty when there is none (or it shows an item that has been hidden since)
  std::int64_t built_ms = 0;
  std::string epoch;  // hand back to store_list()
  // In how long an item comes to its date, and a list of now is outdated; nullopt: nobody knows of
  // one.
  std::optional<milliseconds> expires_in = std::nullopt;
};

// How an article stands in the rank of a model; up to a second behind its counters. Both are unset
// where ranks were left out.
struct RankPosition {
  std::optional<double> score;       // nullopt: it has none
  std::optional<std::int64_t> rank;  // 1 is the hottest
};

struct ItemStats {
  bool known = false;  // any counter exists
  bool listed = true;  // as Effect's
  std::int64_t pv = 0, uv = 0, dwell_sum_ms = 0, dwell_count = 0;
  UnixSeconds decay_start;  // effective publish time
  UnixSeconds now;    // Redis' clock when read
  std::array<RankPosition, kModels.size()> positions;
  std::int64_t views_pv = 0;  // counted views
  double views_total = 0;     // undecayed sum of increments
  std::int64_t uv_today = 0;
  std::int64_t impressions = 0;  // on pages of feeds
  const RankPosition& position(const Model& model) const { return positions.at(index_of(model)); }
};

// Where a walk down a rank stands, for the store alone to read; it begins with an empty one.
using RankCursor = std::vector<std::int64_t>;
// A page of the walk: the members that pass the filters, and where to go on.
struct RankPage {
  std::vector<ScoredItem> items;  // highest first
  std::optional<RankCursor> next;  // nullopt at the end
};

struct BucketMember {  // of mode = current
  ItemId item;
  double total = 0;
  UnixSeconds published;
  unsigned partition = 0;
};

// Whether statistics tell an article's rank as well as its place.
enum class Ranks : std::uint8_t { kOmit, kInclude };

class HotStore {
 public:
  virtual ~HotStore() = default;
  // 1 RTT, one atomic script each, and 2 of an article that nobody vouched for; the article's
  // places in ranks, and what it is remembered that the visitor added, follow behind the reply.
  // Errors: kNotFound "unknown_item" (items.unknown = reject); kRateLimited "unverified_quota"
  // (Standing::may_begin, or items.unknown_max are there); Redis' own.
  virtual Task<Result<TrackResult>> track(const TrackEvent& event) = 0;
  virtual Task<Result<ViewResult>> view(const ViewEvent& event) = 0;
  // Keeps an event that Redis could not take where it survives this process (the spool); it is
  // applied, once, when Redis answers again. No round trip. Errors: kUnavailable "spool_full".
  virtual Result<void> spool_track(const TrackEvent& event) = 0;
  virtual Result<void> spool_view(const ViewEvent& event) = 0;
  // The cached list: 1 RTT while it is fresh. Else 2, and at most once per slice the lock to
  // rebuild it.
  virtual Task<Result<CachedList>> cached_list(const ListQuery& query) = 0;
  // Behind the reply, no waiting: replaces the cached list and gives the lock back.
  virtual void store_list(const ListQuery& query, const CachedList& built) = 0;
  // Up to `count` members of the query's rank from a place on, without what is dated ahead. 2 RTT;
  // with a window or a tag 4, or up to 9 down a long rank (at most 2,000 members of it a page). In
  // a cluster two more when one group has many of them.
  virtual Task<Result<RankPage>> rank_page(const ListQuery& query, RankCursor from, std::int64_t count) = 0;
  // 1 RTT: every bucket of mode = current.
  virtual Task<Result<std::vector<BucketUpperBound>>> buckets() = 0;
  // 2 RTT: the `count` members with the highest totals of each of `buckets`, with their publish
  // times. More when buckets hold what was re-dated, or what the index says of them is wrong.
  virtual Task<Result<std::vector<BucketMember>>> bucket_heads(const std::vector<BucketName>& buckets,
                                                               std::int64_t offset, std::int64_t count) = 0;
  // 1 RTT; 2 for ranks among several groups. Same order as `items`.
  virtual Task<Result<std::vector<ItemStats>>> stats(const std::vector<ItemId>& items, Ranks ranks) = 0;
};

}  // namespace freshet::hot
