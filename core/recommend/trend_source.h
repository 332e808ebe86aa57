// Reads the trending and new items with the metadata that ranking needs. Each worker that serves
// recommendations does this in the background, a few times per second. Also reads what was read
// after an item.
#pragma once

#include <chrono>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/config/settings.h"
#include "core/hot/article.h"
#include "core/items/covisits.h"
#include "core/model/content.h"
#include "core/recommend/ranker.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::recommend {

class TrendSource {
 public:
  // `redis` and `settings` must outlive this.
  TrendSource(redis::Redis& redis, const Settings& settings, redis::Keys keys);

  // Reads the heads of hot:score, hot:rank, hot:trending and hot:newest; each item once. Leaves out
  // items that are hidden, published in the future or not registered (the latter are kept if no
  // item is registered, for sites that only count). Points come from hot views, otherwise from page
  // views; clicks are page views or views. Titles, tags and content are cached for
  // recommend.card_ttl or until hot:epoch changes. Items missing from `model` come with their
  // content. Not reentrant. 2 RTT, plus one per 125 items. Errors: Redis errors.
  Task<Result<std::vector<LiveItem>>> read(std::shared_ptr<const model::Model> model);
  // 1 RTT. Errors: Redis errors.
  Task<Result<std::vector<items::Covisit>>> covisits(const ItemId& item);

 private:
  using Clock = std::chrono::steady_clock;
  struct CachedItem {
    LiveItem item;                          // without points, trend, exposure and terms
    std::vector<model::TermCount> content;  // only if has_content
    bool registered = false, hidden = false, has_content = false;
    Clock::time_point read;
  };
  Task<Result<std::vector<std::string>>> read_heads();
  Task<Result<void>> load_metadata(const std::vector<std::string>& ids, const model::Model* model);
  Task<Result<void>> read_counts(std::vector<LiveItem>& items);
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
