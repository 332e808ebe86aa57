// Redis cost of the feed.
#include <array>

#include "core/feed/feed_store.h"
#include "core/feed/smart_feed.h"
#include "core/items/item_store.h"
#include "tests/cost/cost.h"

using namespace freshet;
using test::Cost;

namespace {

constexpr int kItems = 600;

// An index that returns all items, newest first.
class Index final : public feed::Recall {
 public:
  Task<Result<feed::RecallResult>> search(feed::RecallQuery query) override {
    feed::RecallResult out;
    for (int i = 0; i < std::min(static_cast<int>(query.size), kItems); ++i)
      out.candidates.push_back({ItemId::trusted("item-" + std::to_string(i)), 1, UnixSeconds{seconds{1}}});
    co_return out;
  }
};

// Rejects the asynchronous writes of impressions while `held`.
class WriteBlockingRedis final : public redis::Redis {
 public:
  explicit WriteBlockingRedis(redis::Redis& inner) : inner_(inner) {}
  Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
    if (block_writes && pipeline.at(0).find("APPEND") != std::string_view::npos)
      co_return fail(ErrorCode::kUnavailable, "redis_unavailable");
    auto replies = co_await inner_.run(pipeline);
    co_return replies;
  }
  bool ready() const override { return true; }
  bool block_writes = false;

 private:
  redis::Redis& inner_;
};

// A worker with a warm item cache, and a reader with interests.
struct Site {
  Site() {
    cards.heartbeat(items::CardCache::Clock::time_point::max());
    for (int i = 0; i < kItems; ++i) {
      items::Item item;
      item.id = ItemId::trusted("item-" + std::to_string(i));
      item.title = "title";
      item.published_at = UnixSeconds{seconds{1700000000}};
      REQUIRE(redis::run_sync(items.put(item)));
    }
    REQUIRE(redis::run_sync(filter->probe(costs.direct)));
    redis::Pipeline interest;
    interest.add("ZADD", keys.interactions(reader.view()), 1, "v:item-599");
    REQUIRE(costs.direct.call_all(interest));
    request_page(ReaderId::trusted("other"), feed::FeedAction::kRefresh, 100);
    for (int page = 0; page < 5; ++page)
      request_page(ReaderId::trusted("other"), feed::FeedAction::kLoadMore, 100);
    request_page(reader, feed::FeedAction::kRefresh);
    request_page(reader, feed::FeedAction::kLoadMore);
  }
  void request_page(const ReaderId& reader_id, feed::FeedAction action, std::size_t limit = 20) {
    const feed::FeedRequest request{reader_id, "r." + std::to_string(++requests), {}, limit, action};
    if (action == feed::FeedAction::kPeek) {
      REQUIRE(redis::run_sync(feed.peek(request)));
      return;
    }
    const auto page = redis::run_sync(feed.page(request));
    REQUIRE(page);
    REQUIRE(page->items.size() == limit);
  }
  Cost cost(feed::FeedAction action, bool with_writes) {
    write_blocker.block_writes = !with_writes;
    Cost out = costs.measure([&] { request_page(reader, action); });
    write_blocker.block_writes = false;
    return out;
  }

  test::CostMeter costs;
  Settings settings;
  const redis::Keys keys{""};
  const ReaderId reader = ReaderId::trusted("reader");
  WriteBlockingRedis write_blocker{costs.redis};
  Index index;
  items::RedisItemStore items{costs.redis, settings, keys};
  items::CardCache cards{items, settings.items_cache_bytes};
  std::unique_ptr<feed::SeenFilter> filter = feed::make_seen_filter(settings, keys);
  UnixSeconds now = wall_now();
  feed::RedisFeedStore store{write_blocker,
                             *filter,
                             settings,
                             keys,
                             [this] { return now; },
                             [](const ReaderId& reader_id) { return reader_id.str(); }};
  feed::SmartFeed feed{store, index, cards, settings};
  int requests = 0;
};

}  // namespace

TEST_CASE("Redis cost of a page of the feed", "[cost]") {
  struct Row {
    const char* name;
    feed::FeedAction action;
    bool with_writes;  // include asynchronous writes
    int later_s;       // seconds after the row before
    std::int64_t commands, round_trips, aof_bytes;
  };
  const std::array rows{
      Row{"load_more and its impressions", feed::FeedAction::kLoadMore, true, 0, 12, 3, 933},
      Row{"refresh and its impressions", feed::FeedAction::kRefresh, true, 0, 19, 4, 5155},
      Row{"load_more", feed::FeedAction::kLoadMore, false, 0, 8, 1, 458},
      Row{"refresh", feed::FeedAction::kRefresh, false, 0, 15, 2, 4364},
      Row{"refresh, the first of a second", feed::FeedAction::kRefresh, false, 1, 16, 2, 4177},
      Row{"peek", feed::FeedAction::kPeek, true, 0, 8, 1, 0},
  };
  Site site;
  for (const Row& row : rows) {
    site.now += seconds{row.later_s};
    const Cost cost = site.cost(row.action, row.with_writes);
    INFO(row.name << ": " << cost.text());
    CHECK(cost.commands() == row.commands);
    CHECK(cost.round_trips == row.round_trips);
    CHECK(cost.aof_bytes == row.aof_bytes);
  }
}
