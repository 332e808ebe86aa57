// Places of articles in hot:rank, hot:score and the buckets of mode = current. They follow from an
// article's hash (article.h) alone, and are written behind the events, many at once. Each carries the
// version of the hash that it was made from, and no earlier one replaces a later one; so in whatever
// order workers place an article, the last state is what stays.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/id_note.h"
#include "core/config/settings.h"
#include "core/hot/article.h"
#include "core/redis/deferred.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::hot {

struct RankPlace {
  std::string id;
  std::optional<double> key;             // nullopt: no place
  std::optional<UnixSeconds> published;  // nullopt: nothing of it is counted
  std::int64_t version = 0;
};
struct ViewsPlace {
  std::string id;
  std::optional<double> score;  // nullopt: no place
  double total = 0;             // 0: none in a bucket
  UnixSeconds published;        // also without a place: it names the bucket
  std::int64_t version = 0;
  bool counted = true;  // false: nothing of it is
};

RankPlace rank_place(std::string id, const Article& article, const EngagementSettings& settings);
ViewsPlace views_place(std::string id, const Article& article);

enum class Rank : std::uint8_t { kServed, kNext };  // kNext: the one that a rebuild makes

// One command each. `now`: by Redis' clock, for the floor. Harmless when repeated or late; that of
// kServed puts ids into hot:unplaced where the rank has another formula. At most 500 at once.
void append_places(redis::Pipeline& out, std::span<const RankPlace> places, UnixSeconds now,
                   const Settings& settings, const redis::Keys& keys, Rank rank = Rank::kServed);
void append_places(redis::Pipeline& out, std::span<const ViewsPlace> places, const Settings& settings,
                   const redis::Keys& keys);

// Places these articles as they are now; one that is hidden or was never seen is left out. 2 RTT for
// every 500. `rank`: of engagement. Returns how many got a place in that.
Task<Result<std::int64_t>> place_articles(redis::Redis& redis, std::span<const std::string> ids,
                                          const Settings& settings, const redis::Keys& keys,
                                          Rank rank = Rank::kServed);

// Of a worker: what its events changed, written kEvery after the first of them, or when kMost
// articles wait. Of an article that comes again only the last state is kept.
class Placing {
 public:
  static constexpr milliseconds kEvery{250};
  static constexpr std::size_t kMost = 256;
  static constexpr milliseconds kNoted{2000};  // from an event to its place it takes less

  // All must outlive this. Without `after` whoever uses it calls flush(). `note`: where others find
  // what a killed worker left unplaced; null: nowhere.
  Placing(redis::Deferred& deferred, const Settings& settings, redis::Keys keys, redis::After after = {},
          IdNote* note = nullptr);
  // Before an event of the article is counted.
  void expect(std::string_view id) { noted_.add(id, IdNoter::Clock::now()); }
  void add(RankPlace place, UnixSeconds now);
  void add(ViewsPlace place);
  void flush();
  // The worker ends, and all is placed.
  void forget() { noted_.clear(); }
  std::size_t waiting() const { return ranks_.size() + views_.size(); }

 private:
  void added();

  redis::Deferred& deferred_;
  const Settings& settings_;
  const redis::Keys keys_;
  redis::FlushTimer timer_;
  IdNoter noted_;
  std::unordered_map<std::string, RankPlace> ranks_;
  std::unordered_map<std::string, ViewsPlace> views_;
  UnixSeconds now_{};  // the latest that an event had
};

}  // namespace freshet::hot
