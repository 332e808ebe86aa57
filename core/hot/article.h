// The hash hot:article:{id}: an article's counters and the item properties that counting needs.
//
//   date hidden       written by the item store: unix s, and 1 for a hidden or removed item;
//                     no `date`: never PUT
//   first             unix s: publish time of an article that was never PUT, from its first event
//                     or from the first of the site's own events that names one
//   dated             1: `first` is from the site
//   begin             unix s: time of the first event; set only with items.unknown = list, and only
//                     if a client sent that event (parts/add_view.lua)
//   increments        what views added to `total`, and when, until the site sets the publish time
//                     (parts/increments.lua)
//   redated           'first clock': the client's date, and when another replaced it; 'several'
//                     after more than one such change
//   early             unix s of the last event before `date`
//   pv uv ms          engagement: page views (also the number of dwell times), visitors, dwell sum
//   counted           last PFCOUNT result, above 100 (track.lua)
//   uv_correction     visitors that were reverted but are still in the HyperLogLog
//   imported          'pv uv': what `freshetctl import-counters` added to them
//   renewed           unix s: the engagement counters expire engagement.counter_ttl later
//   views total score counted views, their undecayed sum, the accumulated score
//   viewed            unix s: views and total expire views.counter_ttl later
//   began views_began version with which the engagement counters and the counted views started,
//                     or an earlier one of this hash (contributions.cpp)
//   trend             trending: five sums (parts/trend.lua)
//   r:{version}       1: the contribution with this first version is reverted, but may still be
//                     staged (contributions.cpp)
//   shown             impressions (core/items/impression_counter.h); expire with the
//                     engagement counters or, before the first of them, with the hash
//   nets              unverified article: first 2 bytes of the hash of each network that read it
//                     (IPv4 /16, IPv6 /32); a leading '+' means that it is listed
//   nets_since        unix s: the first of them
//   v                 version: grows with each write that affects ranks; Redis time of the last
//                     such write in µs, unless that clock went back
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/time.h"
#include "core/config/settings.h"
#include "core/hot/models.h"
#include "core/hot/trending.h"
#include "core/redis/command.h"
#include "core/redis/keys.h"
#include "core/redis/reply.h"

namespace freshet::hot {

struct Article {
  EngagementCounts counts;  // zeros when they have expired
  std::int64_t views = 0;   // 0 when they have expired
  double views_total = 0;
  std::optional<double> views_score;
  std::optional<TrendSums> trend;        // nullopt: no views since the model exists
  std::optional<UnixSeconds> published;  // may be in the future; nullopt: no date and no event yet
  UnixSeconds decay_start;               // when decay starts: never in the future
  bool in_item_store = false;
  bool hidden = false;
  std::int64_t impressions = 0;
  bool listed = true;  // false: unverified, and read from too few networks
  std::int64_t version = 0;
  bool has_counters() const { return counts.pv > 0 || views > 0; }
};

// Appends one HMGET; parse_article() reads its reply. `now`: by Redis' clock.
void append_article_read(redis::Pipeline& out, const redis::Keys& keys, std::string_view id);
Article parse_article(const redis::Reply& reply, UnixSeconds now, const Settings& settings);

// True if the article may be in ranks.
inline bool is_rankable(const Article& article) { return article.listed && !article.hidden; }
// The article's score in the model's rank. nullopt if it has none: not rankable, no counters, or a
// base score of 0 (which has no logarithm).
std::optional<double> rank_score(const Article& article, const Model& model, const Settings& settings);

// Parses the field `trend`; encode_trend() writes it. nullopt if it is empty.
std::optional<TrendSums> parse_trend(std::string_view field);
std::string encode_trend(const TrendSums& sums);

// Removes `weight` from the buckets of `increments` (parts/increments.lua) that are nearest to
// `time`.
std::string without_increment(std::string_view increments, UnixSeconds time, double weight);

}  // namespace freshet::hot
