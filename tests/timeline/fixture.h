// Test fixture for timelines.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/timeline/follow_store.h"
#include "core/timeline/timeline_store.h"
#include "tests/support/store_fixture.h"

namespace freshet::test {

using timeline::Direction;
using Ids = std::vector<std::string>;

// Records the number of commands of each round trip.
class RecordingRedis final : public redis::Redis {
 public:
  explicit RecordingRedis(redis::BlockingRedis& inner) : inner_(inner) {}
  std::vector<std::size_t> round_trips;                                          // commands of each
  std::function<void(std::size_t trip)> before_round_trip = [](std::size_t) {};  // counted from 1
  Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
    round_trips.push_back(pipeline.size());
    before_round_trip(round_trips.size());
    co_return inner_.call(pipeline);
  }
  bool ready() const override { return true; }

 private:
  redis::BlockingRedis& inner_;
};

struct KeyMode {
  std::string prefix;
};
// Runs the test that calls it once per mode.
inline KeyMode each_mode() { return GENERATE(KeyMode{""}, KeyMode{"site:"}); }

struct TimelineFixture : Fixture {
  RecordingRedis recording{redis}, bulk{redis};
  std::optional<items::CardCache> cards;  // caches nothing, so pages show the current items
  std::optional<timeline::RedisTimelineStore> instance;
  std::optional<timeline::RedisFollowStore> follows;

  explicit TimelineFixture(const KeyMode& mode) {
    settings.redis.key_prefix = mode.prefix;
    settings.timeline.max_items = 50;
    settings.fanout.max_push_followers = 0;  // every author with a follower is pulled
    reopen();
  }
  // Reopens the stores after `settings` changed.
  void reopen() {
    open();
    instance.reset();
    cards.emplace(*items, 0);
    instance.emplace(recording, bulk, write_queue, *cards, settings, keys(), redis::RunAfter(),
                     milliseconds(0));
    follows.emplace(redis, settings, keys(), [this] { return "job" + std::to_string(++events); });
  }
  timeline::RedisTimelineStore& store() { return *instance; }
  void follow(const std::string& author, const std::string& reader = "reader") {
    REQUIRE(run_sync(follows->follow(ReaderId::trusted(reader), AuthorId::trusted(author))));
  }
  void publish(const std::string& author, const Ids& ids) {
    std::vector<ItemId> published;
    for (const auto& each : ids) published.push_back(ItemId::trusted(each));
    REQUIRE(run_sync(follows->publish(AuthorId::trusted(author), published)));
  }
  std::string timeline(const std::string& reader = "reader", const std::string& channel = "discover") const {
    return keys().timeline(channel, reader);
  }

  Result<timeline::PushResult> try_push(const Ids& ids, const Ids& readers = {"reader"},
                                        const std::string& channel = "discover") {
    timeline::PushRequest push{channel, {}, {}};
    for (const auto& each : ids) push.items.push_back(ItemId::trusted(each));
    for (const auto& each : readers) push.readers.push_back(ReaderId::trusted(each));
    return run_sync(store().push(push));
  }
  timeline::PushResult push(const Ids& ids, const Ids& readers = {"reader"},
                            const std::string& channel = "discover") {
    const auto out = try_push(ids, readers, channel);
    INFO((out ? "" : out.error().detail));
    REQUIRE(out);
    return *out;
  }
  bool remove_item(const std::string& item) {
    const auto out = run_sync(store().remove("discover", ReaderId::trusted("reader"), ItemId::trusted(item)));
    REQUIRE(out);
    return *out;
  }
  void hide(const std::string& id, bool hidden = true) {
    items::Item one = item(id, UnixSeconds{seconds{1700000000}});
    one.hidden = hidden;
    put(one);
  }

  Result<timeline::TimelinePage> try_page(Direction direction, std::int64_t score = 0, int limit = 5,
                                          const std::string& channel = "discover",
                                          const std::string& reader = "reader") {
    return run_sync(store().read({channel, ReaderId::trusted(reader), direction, score, limit}));
  }
  timeline::TimelinePage page(Direction direction, std::int64_t score = 0, int limit = 5,
                              const std::string& channel = "discover", const std::string& reader = "reader") {
    auto out = try_page(direction, score, limit, channel, reader);
    INFO((out ? "" : out.error().detail));
    REQUIRE(out);
    return std::move(*out);
  }
  timeline::TimelinePage first(int limit = 5) { return page(Direction::kFirst, 0, limit); }
  timeline::TimelinePage newer(std::int64_t score, int limit = 5) {
    return page(Direction::kNewer, score, limit);
  }
  timeline::TimelinePage older(std::int64_t score, int limit = 5) {
    return page(Direction::kOlder, score, limit);
  }

  // Members of a timeline without its marks, oldest first.
  std::vector<std::pair<std::string, std::int64_t>> members(const std::string& key) {
    const auto all = command("ZRANGEBYSCORE", key, "(0", "+inf", "WITHSCORES");
    std::vector<std::pair<std::string, std::int64_t>> out;
    for (std::size_t i = 0; i + 1 < all.size(); i += 2)
      out.emplace_back(redis::string_at(all, i), redis::to_int(redis::string_at(all, i + 1)));
    return out;
  }
  Ids ids_in(const std::string& key) {
    Ids out;
    for (const auto& [id, score] : members(key)) out.push_back(id);
    return out;
  }
  std::int64_t bytes(const std::string& key) {
    return command("MEMORY", "USAGE", key, "SAMPLES", 0).integer().value_or(0);
  }
};

inline Ids ids_of(const timeline::TimelinePage& page) {
  Ids out;
  for (const auto& each : page.items) out.push_back(each.item.str());
  return out;
}

// "8", "9", … "12", ascending or descending.
inline Ids count(int from, int to) {
  Ids out;
  for (int i = from; i != to; i += from < to ? 1 : -1) out.push_back(std::to_string(i));
  out.push_back(std::to_string(to));
  return out;
}

}  // namespace freshet::test
