// An erased reader is unknown to the seen filter at once, on every worker, at no cost to other
// readers.
#include "core/feed/seen_epoch.h"

#include <catch2/catch.hpp>

#include "core/feed/feed_store.h"
#include "core/redis/blocking_redis.h"
#include "core/redis/scripts.h"
#include "tests/support/redis_server.h"

using namespace freshet;

namespace {

class Counting final : public redis::Redis {
 public:
  explicit Counting(redis::BlockingRedis& inner) : inner_(inner) {}
  Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
    ++round_trips;
    auto replies = co_await inner_.run(pipeline);
    co_return replies;
  }
  bool ready() const override { return true; }
  int round_trips = 0;

 private:
  redis::BlockingRedis& inner_;
};

// One worker of a site.
struct Worker {
  Worker(const test::RedisServer& server, const Settings& settings, const redis::Keys& keys)
      : connection(server.endpoint(), milliseconds(5000), redis::kAllScripts),
        filter(feed::make_seen_filter(settings, keys)),
        feed(redis, *filter, settings, keys, wall_now,
             [](const ReaderId& reader) { return "hash-of-" + reader.str(); }) {
    REQUIRE(redis::run_sync(filter->probe(connection)));
  }
  redis::BlockingRedis connection;
  Counting redis{connection};
  std::unique_ptr<feed::SeenFilter> filter;
  feed::RedisFeedStore feed;

  void record_shown(const ReaderId& reader, const ItemId& item) {
    feed::Impressions impressions;
    impressions.items.push_back(item);
    impressions.at = wall_now();
    REQUIRE(redis::run_sync(feed.record(reader, impressions)));
  }
  // True if the filter knows that the reader saw the item; also counts the round trips of the read.
  bool knows(const ReaderId& reader, const ItemId& item, int* round_trips = nullptr) {
    redis.round_trips = 0;
    const auto opened = redis::run_sync(feed.load_state({reader, {}, {}, 5}, false));
    REQUIRE(opened);
    if (round_trips != nullptr) *round_trips = redis.round_trips;
    const auto seen = redis::run_sync(feed.check_seen(reader, opened->seen_view, {item}));
    REQUIRE(seen);
    return seen->front();
  }
};

}  // namespace

TEST_CASE("the filter forgets an erased reader on all workers and reads others in one round trip", "[seen]") {
  static test::RedisServer server;
  server.flush_all();
  Settings settings;
  const redis::Keys keys("");
  Worker one(server, settings, keys), two(server, settings, keys);
  const ReaderId reader = ReaderId::trusted("r"), other = ReaderId::trusted("o");
  const ItemId before = ItemId::trusted("before"), after = ItemId::trusted("after");
  for (const ReaderId& each : {reader, other}) one.record_shown(each, before);
  CHECK(one.knows(reader, before));
  CHECK(two.knows(reader, before));

  redis::Pipeline erase;
  erase.add("INCR", keys.seen_epoch("hash-of-r")).add("EXPIRE", keys.seen_epoch("hash-of-r"), 100);
  REQUIRE(one.connection.call(erase));
  int round_trips = 0;
  CHECK(!one.knows(reader, before, &round_trips));
  CHECK(round_trips == 2);
  CHECK(!one.knows(reader, before, &round_trips));
  CHECK(round_trips == 1);
  CHECK(one.knows(other, before, &round_trips));
  CHECK(round_trips == 1);
  // Impressions written under the new epoch are found under it, even by a worker that learns of it
  // only now.
  one.record_shown(reader, after);
  CHECK(one.knows(reader, after));
  CHECK(two.knows(reader, after));
  CHECK(!two.knows(reader, before));
  // The epoch of an active reader outlives the days of the filter.
  redis::Pipeline ask;
  ask.add("TTL", keys.seen_epoch("hash-of-r")).add("EXISTS", keys.seen_epoch("hash-of-o"));
  const auto replies = *one.connection.call(ask);
  CHECK(*replies[0].integer() > 8 * 86400);
  CHECK(*replies[1].integer() == 0);
}

TEST_CASE("a reader's feed knows what merged readers saw, in one round trip", "[seen]") {
  static test::RedisServer server;
  server.flush_all();
  Settings settings;
  const redis::Keys keys("");
  Worker one(server, settings, keys), two(server, settings, keys);
  const ReaderId account = ReaderId::trusted("account"), visitor = anonymous_reader(VisitorId::trusted("c"));
  const ItemId by_account = ItemId::trusted("a"), by_visitor = ItemId::trusted("v"),
               late = ItemId::trusted("l");
  one.record_shown(account, by_account);
  one.record_shown(visitor, by_visitor);
  CHECK(!one.knows(account, by_visitor));

  redis::Pipeline merge;
  merge.add("ZADD", keys.merged_names("account"), 1, feed::SeenEpochs::name(visitor, 0).view());
  REQUIRE(one.connection.call(merge));
  int round_trips = 0;
  CHECK(one.knows(account, by_visitor, &round_trips));
  CHECK(round_trips == 2);  // this process did not know the name
  two.record_shown(visitor, late);
  for (const ItemId& each : {by_account, by_visitor, late}) {
    CHECK(one.knows(account, each, &round_trips));
    CHECK(round_trips == 1);
  }
  CHECK(!one.knows(account, ItemId::trusted("other")));
  CHECK(!one.knows(visitor, by_account));
  CHECK(two.knows(account, by_visitor));
}

TEST_CASE("without an epoch the filter knows a reader by the plain id", "[seen]") {
  feed::SeenEpochs epochs(redis::Keys(""), [](const ReaderId& reader) { return reader.str(); });
  const ReaderId reader = ReaderId::trusted("r");
  CHECK(epochs.filter_id(reader) == reader);
  redis::Pipeline none;
  CHECK(feed::SeenEpochs(redis::Keys(""), {}).append_read(none, reader) == 0);
  CHECK(none.empty());
}
