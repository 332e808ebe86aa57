// What is trending and new right now, with what ranking needs of each item: read in the background,
// a few times a second, by each worker that serves recommendations.
#pragma once

#include <chrono>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/config/settings.h"
#include "core/model/content.h"
#include "core/recommend/ranker.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::recommend {

class TrendSource {
 public:
  // `redis` and `settings` must outlive this.
  TrendSource(redis::Redis& redis, const Settings& settings, redis::Keys keys);

  // The heads of hot:score, hot:rank and hot:newest, each item once, without those that are hidden,
  // dated ahead or were never put (unless none was: a site that only counts). Points are those of
  // the hot views, else page views. Titles, tags and content are kept for recommend.card_ttl or
  // until hot:epoch moves; items that `model` does not have come with their content. One call at a
  // time. 2 RTT and one more for every 125 items. Errors: Redis' own.
  Task<Result<std::vector<LiveItem>>> read(std::shared_ptr<const model::Model> model);

 private:
  using Clock = std::chrono::steady_clock;
  struct CachedItem {
    LiveItem item;                          // without points and terms
    std::vector<model::TermCount> content;  // when it was read with its text
    bool registered = false, hidden = false, has_content = false;
    Clock::time_point read;
  };
  Task<Result<std::vector<std::string>>> read_heads();
  Task<Result<void>> load_metadata(const std::vector<std::string>& ids, const model::Model* model);
  Task<Result<std::vector<double>>> read_points(const std::vector<std::string>& ids);
  CachedItem parse_item(const std::string& id, const redis::Reply& fields, const redis::Reply& first_seen,
                 bool has_content) const;
  bool needs_load(const std::string& id, const model::Model* model, Clock::time_point now) const;

  redis::Redis& redis_;
  const Settings& all_settings_;
  const RecommendSettings& settings_;
  const redis::Keys keys_;
  std::unordered_map<std::string, CachedItem> cache_;
  std::string epoch_;
};

}  // namespace freshet::recommend
