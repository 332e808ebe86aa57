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
#include "core/hot/current_top.h"
#include "core/hot/models.h"

namespace freshet::hot {

// --- Engagement

// What is asked of an event before it may add to an article.
struct Standing {
  // The network of a client of the public server, hashed. Empty: the site's own word, which vouches
  // for the article (items.unknown = count).
  std::string network = {};
  bool may_begin = true;  // an article that nobody vouched for may come into being by it
  bool in_uv = true;      // its visitor counts as one
};

struct TrackEvent {
  ItemId item;
  VisitorId visitor;  // what UV counts
  SessionId
      session;  // one PV per session and item in the window; never empty (the visitor when none was given)
  std::int64_t dwell_ms = 0;                // 0..dwell_cap_ms: already clamped
  std::optional<UnixSeconds> published_at;  // the client's word, used at first sight of an unknown item only
  EventId event;                            // empty: not idempotent
  std::optional<UnixSeconds> at = {};       // when it happened, in the past; nullopt: now, by Redis' clock
  // The client's word alone: a session's first report can claim hot.first_dwell, later ones what it
  // claimed and the time since.
  bool unproven = false;
  VisitorId counted_as = {};  // under whom it is remembered what this adds; empty: under nobody
  Standing standing = {};
};

// What an event did besides counting.
struct Effect {
  bool listed = true;        // false: nobody vouched for the article, so no public list has it
  bool began = false;        // such an article came into being
  bool new_visitor = false;  // of a listed one
};

struct TrackCounts {
  std::int64_t pv = 0;
  std::int64_t uv = 0;
  double avg_dwell_ms = 0;  // the plain mean of the sessions' dwell
  double score = 0;         // base × decay at the moment of the event
  Effect effect = {};
};

// --- Views

struct ViewEvent {
  ItemId item;
  std::optional<UnixSeconds> published_at;  // as above
  std::string fingerprint;                  // an id by the same rules; the dedup and UV key of this seed
  EventId event;
  std::optional<UnixSeconds> at = {};  // as above
  VisitorId counted_as = {};           // as above
  Standing standing = {};
};

struct ViewOutcome {
  bool dedup = false;        // seen within the window: nothing was counted
  bool first_today = false;  // `uv` of its increment
  double score_inc = 0;      // what was added to hot:score
  Effect effect = {};
};

// --- Lists

enum class ViewsMode { kAccumulate, kCurrent };

struct ListQuery {
  const Model* model = &kByViews;           // a row of kModels
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
  enum class State { kFresh, kStale, kBuild } state = State::kBuild;
  // kFresh: built in this time slice. kStale: older, and another process is rebuilding. kBuild:
  // this caller holds the short lock and is to build it; json may hold the old list meanwhile.
  std::string json;  // empty when there is none (or it shows an item that has been hidden since)
  std::int64_t built_ms = 0;
  std::string epoch;  // hand back to store_list()
  // In how long an item comes to its date, and a list of now is outdated; nullopt: nobody knows of
  // one.
  std::optional<milliseconds> due = std::nullopt;
};

// How an article stands in the rank of a model; up to a second behind its counters. Both are unset
// where ranks were left out.
struct Ranked {
  std::optional<double> place;       // nullopt: it has none
  std::optional<std::int64_t> rank;  // 1 is the hottest
};

struct ItemStats {
  bool known = false;  // any counter exists
  bool listed = true;  // as Effect's
  std::int64_t pv = 0, uv = 0, dwell_sum_ms = 0, dwell_count = 0;
  UnixSeconds first;  // effective publish time
  UnixSeconds now;    // Redis' clock when read
  std::array<Ranked, kModels.size()> ranked;
  std::int64_t views_pv = 0;  // counted views
  double views_total = 0;     // undecayed sum of increments
  std::int64_t uv_today = 0;
  std::int64_t shown = 0;  // on pages of feeds
  const Ranked& in(const Model& model) const { return ranked.at(index_of(model)); }
};

// Where a walk down a rank stands, for the store alone to read; it begins with an empty one.
using RankPlace = std::vector<std::int64_t>;
// A page of the walk: the members that pass the filters, and where to go on.
struct RankPage {
  std::vector<ScoredItem> items;  // highest first
  std::optional<RankPlace> next;  // nullopt at the end
};

struct BucketMember {  // of mode = current
  ItemId item;
  double total = 0;
  UnixSeconds published;
  unsigned group = 0;
};

// Whether statistics tell an article's rank as well as its place.
enum class Ranks : std::uint8_t { kLeftOut, kCounted };

class HotStore {
 public:
  virtual ~HotStore() = default;
  // 1 RTT, one atomic script each, and 2 of an article that nobody vouched for; the article's
  // places in ranks, and what it is remembered that the visitor added, follow behind the reply.
  // Errors: kNotFound "unknown_item" (items.unknown = reject); kRateLimited "too_many_unknown"
  // (Standing::may_begin, or items.unknown_max are there); Redis' own.
  virtual Task<Result<TrackCounts>> track(const TrackEvent& event) = 0;
  virtual Task<Result<ViewOutcome>> view(const ViewEvent& event) = 0;
  // Keeps an event that Redis could not take where it survives this process (the spool); it is
  // applied, once, when Redis answers again. No round trip. Errors: kUnavailable "spool_full".
  virtual Result<void> track_later(const TrackEvent& event) = 0;
  virtual Result<void> view_later(const ViewEvent& event) = 0;
  // The cached list: 1 RTT while it is fresh. Else 2, and at most once per slice the lock to
  // rebuild it.
  virtual Task<Result<CachedList>> cached_list(const ListQuery& query) = 0;
  // Behind the reply, no waiting: replaces the cached list and gives the lock back.
  virtual void store_list(const ListQuery& query, const CachedList& built) = 0;
  // Up to `count` members of the query's rank from a place on, without what is dated ahead. 2 RTT;
  // with a window or a tag 4, or up to 9 down a long rank (at most 2,000 members of it a page). In
  // a cluster two more when one group has many of them.
  virtual Task<Result<RankPage>> rank_page(const ListQuery& query, RankPlace from, std::int64_t count) = 0;
  // 1 RTT: every bucket of mode = current.
  virtual Task<Result<std::vector<BucketBound>>> buckets() = 0;
  // 2 RTT: the `count` members with the highest totals of each of `buckets`, with their publish
  // times. More when buckets hold what was re-dated, or what the index says of them is wrong.
  virtual Task<Result<std::vector<BucketMember>>> bucket_heads(const std::vector<BucketName>& buckets,
                                                               std::int64_t offset, std::int64_t count) = 0;
  // 1 RTT; 2 for ranks among several groups. Same order as `items`.
  virtual Task<Result<std::vector<ItemStats>>> stats(const std::vector<ItemId>& items, Ranks ranks) = 0;
};

}  // namespace freshet::hot
