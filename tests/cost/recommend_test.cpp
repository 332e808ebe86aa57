// Redis cost of a page of recommendations and of a history.
#include "core/items/item_store.h"
#include "core/readers/read_buffer.h"
#include "core/readers/reader_store.h"
#include "core/recommend/recommendations.h"
#include "core/recommend/recommender.h"
#include "tests/cost/cost.h"
#include "tests/support/write_queues.h"

using namespace freshet;
using test::Cost;

namespace {

class NoIndex final : public feed::Recall {
  Task<Result<feed::RecallResult>> search(feed::RecallQuery) override {
    co_return fail(ErrorCode::kUnavailable, "index_unavailable");
  }
};

// A reader with a hundred interactions and a full history, and a worker that has loaded the newest
// items.
struct Site {
  Site() {
    settings.recommend.trend_refresh = milliseconds(3'600'000);
    cards.heartbeat(items::CardCache::Clock::time_point::max());
    for (int i = 0; i < 200; ++i) {
      items::Item item;
      item.id = ItemId::trusted("item-" + std::to_string(i));
      item.title = "title";
      item.published_at = UnixSeconds{seconds{1700000000}};
      REQUIRE(redis::run_sync(items.put(item)));
      if (i < 20) REQUIRE(redis::run_sync(readers.record_view({reader, item.id, readers::ViewKind::kTopic})));
      if (i < 100)
        REQUIRE(redis::run_sync(
            readers.record_interactions({{reader, item.id, readers::Interaction::kLike, wall_now(), {}}})));
    }
    request_page();
  }
  void request_page() {
    const auto page = redis::run_sync(recommendations.page({reader}));
    REQUIRE(page);
    REQUIRE(page->items.size() == 20);
    REQUIRE(page->excluded.interacted == 100);
  }

  test::CostMeter costs;
  Settings settings;
  const redis::Keys keys{""};
  const ReaderId reader = ReaderId::trusted("ann");
  test::NullWriteQueue write_queue;
  items::RedisItemStore items{costs.redis, settings, keys};
  readers::RedisReaderStore readers{costs.redis, write_queue, settings, keys,
                                    [] { return std::string("e"); }};
  recommend::TrendSource trend{costs.redis, settings, keys};
  model::ActiveModel model;
  NoIndex index;
  recommend::MappedRecommender recommender{trend, model, settings};
  items::CardCache cards{items, settings.items_cache_bytes};
  recommend::Recommendations recommendations{readers, recommender, cards, index, settings};
};

}  // namespace

TEST_CASE_METHOD(Site, "a page of recommendations with cached titles is six reads in one round trip",
                 "[cost]") {
  const Cost cost = costs.measure([&] { request_page(); });
  INFO(cost.text());
  CHECK(cost.commands() == 6);
  CHECK(cost.calls.count("evalsha") == 0);
  CHECK(cost.round_trips == 1);
  CHECK(cost.aof_bytes == 0);
}

TEST_CASE_METHOD(Site, "similar items with cached titles are one read, and one more for a reader", "[cost]") {
  const auto item = ItemId::trusted("item-199");
  redis::Pipeline write;
  const std::vector<items::Covisit> read{
      {ItemId::trusted("item-150"), static_cast<double>(unix_s(wall_now())) / 3600}};
  write.add("SET", keys.covisits(item.view()), items::encode_covisits(read));
  REQUIRE(costs.direct.call_all(write));
  const auto request = [&](const ReaderId& who) {
    return costs.measure([&] {
      const auto page = redis::run_sync(recommendations.similar(item, who, 20));
      REQUIRE(page);
      REQUIRE(page->items.size() == 1);
    });
  };
  request({});
  const Cost anonymous = request({});
  INFO(anonymous.text());
  CHECK(anonymous.commands() == 1);
  CHECK(anonymous.round_trips == 1);
  CHECK(anonymous.aof_bytes == 0);
  const Cost known = request(reader);
  INFO(known.text());
  CHECK(known.commands() == 2);
  CHECK(known.round_trips == 2);
}

TEST_CASE_METHOD(Site, "a worker's copy of 200 known items is read in three round trips", "[cost]") {
  const auto read = [&] { REQUIRE(redis::run_sync(trend.read(nullptr))->size() == 200); };
  read();  // their metadata
  const Cost cost = costs.measure(read);
  INFO(cost.text());
  CHECK(cost.round_trips == 3);
  CHECK(cost.commands() == 5 + 200);  // the epoch and the heads of three ranks and of the newest items
}

TEST_CASE_METHOD(Site, "a history is two reads in one round trip", "[cost]") {
  const Cost cost = costs.measure([&] {
    const auto views = redis::run_sync(readers.views(reader, readers::ViewKind::kTopic));
    REQUIRE(views);
    REQUIRE(views->size() == 10);
  });
  INFO(cost.text());
  CHECK(cost.commands() == 2);
  CHECK(cost.round_trips == 1);
}

TEST_CASE_METHOD(Site, "Redis cost of a topic view: new, repeated, and with an event id", "[cost]") {
  struct Row {
    const char* what;
    const char* item;
    const char* event;
    std::int64_t commands, aof_bytes;
  };
  for (const Row& row : {Row{"new", "item-50", "", 11, 271}, Row{"again", "item-50", "", 6, 72},
                         Row{"with an event id", "item-51", "an-event-of-sixteen", 16, 421},
                         Row{"that event again", "item-51", "an-event-of-sixteen", 2, 0}}) {
    readers::View view{reader, ItemId::trusted(row.item), readers::ViewKind::kTopic};
    if (*row.event != 0) view.event = EventId::trusted(row.event);
    const Cost cost = costs.measure([&] { REQUIRE(redis::run_sync(readers.record_view(view))); });
    INFO(row.what << ": " << cost.text() << ", " << cost.aof_bytes << " bytes");
    CHECK(cost.commands() == row.commands);
    CHECK(cost.aof_bytes == row.aof_bytes);
    CHECK(cost.round_trips == 1);
  }
}

TEST_CASE_METHOD(Site,
                 "Redis cost of interests from dwell: new readers, further items, the same item on the same "
                 "day, several items",
                 "[cost]") {
  test::ImmediateWriteQueue now{costs.direct};
  readers::ReadBuffer reads{now, settings, keys};
  // TIME once; per reader the items and, with the first ones, the key's TTL.
  const auto record = [&](const std::string& id, int count = 1) {
    return costs.measure([&] {
      for (int i = 0; i < 50 * count; ++i)
        reads.add_interest(ReaderId::trusted("r" + std::to_string(i % 50)),
                           ItemId::trusted(id + std::to_string(i / 50)), settings.feed.interest_min_dwell);
      reads.flush();
    });
  };
  const Cost first = record("item-1");
  INFO(first.text());
  CHECK(first.commands() == 1 + 3 * 50);
  // From then on, a new item also checks for overflow.
  const Cost second = record("item-2");
  INFO(second.text());
  CHECK(second.commands() == 1 + 3 * 50);
  const Cost again = record("item-2");
  INFO(again.text());
  CHECK(again.commands() == 1 + 2 * 50);
  const Cost several = record("more-", 5);
  INFO(several.text());
  CHECK(several.commands() == 1 + 3 * 50);
  CHECK(second.aof_bytes < first.aof_bytes * 2 / 3);
}

TEST_CASE_METHOD(Site,
                 "Redis cost of views that are interests as well: new readers, further items, the same item "
                 "in the same second",
                 "[cost]") {
  test::ImmediateWriteQueue now{costs.direct};
  readers::ReadBuffer reads{now, settings, keys};
  const auto record = [&](const std::string& item) {
    return costs.measure([&] {
      for (int i = 0; i < 50; ++i) {
        const ReaderId each = ReaderId::trusted("r" + std::to_string(i));
        reads.add_interest(each, ItemId::trusted(item), settings.feed.interest_min_dwell);
        reads.add_view({each, ItemId::trusted(item)});
      }
      reads.flush();
    });
  };
  // TIME once; per reader three commands for the interest and eight for the view.
  const Cost first = record("item-1");
  INFO(first.text());
  CHECK(first.calls.at("evalsha") == 1);
  CHECK(first.commands() == 1 + 11 * 50);
  const Cost second = record("item-2");
  INFO(second.text());
  CHECK(second.commands() == 1 + 11 * 50);
  // A second view in the same second, which most of the fifty are, stays at its place.
  const Cost again = record("item-2");
  INFO(again.text());
  CHECK(again.commands() <= 1 + 8 * 50);
}
