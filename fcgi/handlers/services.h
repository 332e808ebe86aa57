// Dependencies of handlers: settings, the use cases' ports, identity, and the counters of this
// worker. One per worker.
#pragma once

#include <functional>
#include <optional>

#include "core/base/dependency.h"
#include "core/config/settings.h"
#include "core/feed/smart_feed.h"
#include "core/hot/hot_lists.h"
#include "core/hot/ports.h"
#include "core/items/ports.h"
#include "core/readers/personal_data.h"
#include "core/readers/ports.h"
#include "core/recommend/recommendations.h"
#include "core/timeline/ports.h"
#include "core/tuning/past_list.h"
#include "fcgi/http/bots.h"
#include "fcgi/http/identity.h"
#include "fcgi/http/page_token.h"
#include "fcgi/http/rate_limiter.h"
#include "fcgi/process/scoreboard.h"

namespace freshet::http {
struct ClientLists;
class SignatureKeys;
}  // namespace freshet::http

namespace freshet::handlers {

class LastLists;

struct Services {
  const Settings& settings;
  hot::HotStore& hot;
  hot::HotStore& hot_bulk;  // over the bulk connection, for large requests
  items::ItemStore& items;
  items::ItemStore& items_bulk;  // over the bulk connection
  items::CardCache& cards;
  hot::HotLists& hot_lists;
  LastLists& last_lists;
  feed::SmartFeed& feed;
  readers::ReaderStore& readers;
  readers::ReaderStore& readers_bulk;  // over the bulk connection
  recommend::Recommendations& recommendations;
  timeline::TimelineStore& timelines;
  timeline::FollowStore& follows;
  readers::PersonalData& users;
  http::PageTokenSigner& page_tokens;
  http::Identity& identity;
  http::BotMatcher& bot_matcher;
  http::RateLimiter& rate_limiter;
  Scoreboard& board;
  WorkerSlot& slot;
  std::function<bool()> is_redis_ready;
  // Both are asynchronous (core/readers/read_buffer.h): how long a reader read an item, and a view
  // for the reader's history.
  std::function<void(const ReaderId&, const ItemId&, milliseconds)> record_interest;
  std::function<void(const readers::View&)> record_view;
  std::function<Task<Result<std::vector<tuning::PastEntry>>>(tuning::PastListQuery)> past_list;
  const http::ClientLists* client_lists = nullptr;  // null: no client is listed
  http::SignatureKeys* signature_keys = nullptr;    // null: the internal server requires no signatures

  bool is_bot(std::string_view agent) { return settings.bots.enabled && bot_matcher.is_bot(agent); }
  // Redis lost its items and they have not been restored: lists are degraded. Detected within two
  // seconds.
  bool has_lost_data() const {
    return board.redis_sample().data_lost_since.load(std::memory_order_relaxed) != 0;
  }
  // Redis is nearly full: public writes go to the spool. Detected within two seconds.
  bool is_redis_full() const { return board.redis_sample().memory_full.load(std::memory_order_relaxed); }
  redis::MemoryLevel redis_memory() const { return board.redis_sample().memory.load(); }
  void count_refusal(Refusal reason) {
    slot.refused[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  }
  // `missing`; if nothing is missing but Redis lost its items, kItems.
  std::optional<Dependency> or_data_loss(std::optional<Dependency> missing) const {
    return missing || !has_lost_data() ? missing : Dependency::kItems;
  }
  // A view by POST /api/views of an article whose page views count as views, too.
  void count_view_of_tracked() { slot.views_of_tracked.fetch_add(1, std::memory_order_relaxed); }
  void count_feed_page(bool degraded) {
    slot.feed_pages.fetch_add(1, std::memory_order_relaxed);
    if (degraded) slot.feed_pages_degraded.fetch_add(1, std::memory_order_relaxed);
  }
};

}  // namespace freshet::handlers
