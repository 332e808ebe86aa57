// What hot:article:{id} says: an article's counters, and what counting needs of the item.
//
//   date hidden       the item store's: unix s, and 1 for an item that is hidden or was removed;
//                     no date: it was never put
//   first             unix s: publish time of what was never put, from its first event
//   early             unix s of the last event before `date`
//   pv uv ms          engagement: page views (and dwell times), visitors, the sum of dwell
//   counted           what PFCOUNT last said, above 100 (track.lua)
//   uv_correction     visitors that were taken back, whom the HyperLogLog has still
//   renewed           unix s: those above end engagement.counter_ttl later
//   views total score counted views, their undecayed sum, the accumulated score
//   viewed            unix s: views and total end views.counter_ttl later
//   purges            names of the last purges that it was changed by (added.cpp)
//   shown             how often it was on a page of a feed (core/items/impression_counter.h), as long as the
//                     counters of engagement or, before the first of those, as the hash
//   nets              of an article that strangers alone have read: the first 6 bytes of each
//                     network's name; a '+' before them: it is vouched for nevertheless
//   v                 the version: grows with each write that a place may follow from, and is the
//                     Redis time of the last one in µs unless that clock went back
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/time.h"
#include "core/config/settings.h"
#include "core/hot/models.h"
#include "core/redis/command.h"
#include "core/redis/keys.h"
#include "core/redis/reply.h"

namespace freshet::hot {

struct Article {
  EngagementCounts counts;  // zeros when they have expired
  std::int64_t views = 0;   // likewise
  double views_total = 0;
  std::optional<double> views_score;
  std::optional<UnixSeconds> published;  // may be ahead; nullopt: nothing was ever seen of it
  UnixSeconds decay_start;                     // what decay counts from: not ahead of now
  bool in_item_store = false;
  bool hidden = false;
  std::int64_t impressions = 0;
  bool listed = true;  // false: only strangers have read it, of fewer than ten networks
  std::int64_t version = 0;
  bool has_counters() const { return counts.pv > 0 || views > 0; }
};

// One command, and its reply as the article at `now`, by Redis' clock.
void append_article_read(redis::Pipeline& out, const redis::Keys& keys, std::string_view id);
Article parse_article(const redis::Reply& reply, UnixSeconds now, const Settings& settings);

// Whether it may have places in ranks.
inline bool is_rankable(const Article& article) { return article.listed && !article.hidden; }
// Its place in the model's rank; nullopt for none: not shown, without counters, or of a base
// without a logarithm.
std::optional<double> rank_score(const Article& article, const Model& model, const Settings& settings);

}  // namespace freshet::hot
