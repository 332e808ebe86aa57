// Fixture of the stores' tests: a private Redis, the stores on it, and short helper functions.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/hot/contributions.h"
#include "core/hot/hot_store.h"
#include "core/hot/rank_updater.h"
#include "core/hot/rebuild.h"
#include "core/hot/spool_records.h"
#include "core/items/item_store.h"
#include "core/items/view_count_buffer.h"
#include "core/redis/blocking_redis.h"
#include "core/redis/fields.h"
#include "core/redis/keys.h"
#include "core/redis/scripts.h"
#include "tests/support/redis_server.h"
#include "tests/support/write_queues.h"

namespace freshet::test {

using redis::run_sync;

// The deferred writers that an event store needs.
struct DeferredWork {
  DeferredWork(redis::WriteQueue& deferred, const Settings& settings, const redis::Keys& keys)
      : rank_updater(deferred, settings, keys),
        contributions(deferred, settings, keys, [this] { return std::to_string(10'000'000 + ++batches); }),
        view_counts(deferred, keys),
        writers{deferred, rank_updater, contributions, view_counts} {}
  // Writes what a worker would write shortly after its events.
  void flush() {
    rank_updater.flush();
    contributions.flush();
    view_counts.flush();
  }
  int batches = 0;
  hot::RankUpdater rank_updater;
  hot::ContributionBuffer contributions;
  items::ViewCountBuffer view_counts;
  hot::RedisHotStore::DeferredWriters writers;
};

// One server for the whole test program; each Fixture starts with an empty database.
inline RedisServer& server() {
  static RedisServer one;
  return one;
}

struct Fixture {
  Settings settings;
  redis::BlockingRedis redis{server().endpoint(), milliseconds(10000), redis::kAllScripts};
  ImmediateWriteQueue write_queue{redis};
  int events = 0;
  unsigned partitions = 1;  // applied by open()
  std::unique_ptr<DeferredWork> deferred;
  std::unique_ptr<hot::RedisHotStore> hot;
  std::unique_ptr<items::RedisItemStore> items;

  Fixture() {
    server().flush_all();
    open();
    write_queue.apply = [this](const auto& fields) { return freshet::hot::apply_spool_record(*hot, fields); };
  }
  // Recreates the stores, after `settings` or `partitions` were changed.
  void open() {
    deferred = std::make_unique<DeferredWork>(write_queue, settings, keys());
    hot = std::make_unique<hot::RedisHotStore>(redis, deferred->writers, settings, keys(),
                                               [this] { return "made-" + std::to_string(++events); });
    items = std::make_unique<items::RedisItemStore>(redis, settings, keys());
  }
  // With several partitions the key names are those of a cluster, although the server is a single
  // one.
  redis::Keys keys() const {
    const auto topology =
        partitions == 1 ? redis::Keys::Topology::kStandalone : redis::Keys::Topology::kCluster;
    return redis::Keys(settings.redis.key_prefix, topology, partitions);
  }

  static hot::TrackEvent track_event(const std::string& id, const std::string& visitor, std::int64_t dwell_ms,
                                     const std::string& session = {}) {
    hot::TrackEvent out;
    out.item = ItemId::trusted(id);
    out.visitor = VisitorId::trusted(visitor);
    out.session = SessionId::trusted(session.empty() ? visitor : session);
    out.dwell_ms = dwell_ms;
    return out;
  }
  static hot::ViewEvent view_event(const std::string& id, const std::string& fingerprint) {
    hot::ViewEvent out;
    out.item = ItemId::trusted(id);
    out.fingerprint = fingerprint;
    return out;
  }
  // track() and view() call it.
  void flush_deferred() { deferred->flush(); }
  hot::TrackResult track(const hot::TrackEvent& event) {
    auto out = run_sync(hot->track(event));
    INFO((out ? "" : out.error().detail));
    REQUIRE(out);
    flush_deferred();
    return *out;
  }
  hot::ViewResult view(const hot::ViewEvent& event) {
    auto out = run_sync(hot->view(event));
    INFO((out ? "" : out.error().detail));
    REQUIRE(out);
    flush_deferred();
    return *out;
  }
  std::string field(const std::string& id, const std::string& name) {
    return text(command("HGET", keys().article(id), name));
  }
  items::Item item(const std::string& id, UnixSeconds published) const {
    items::Item out;
    out.id = ItemId::trusted(id);
    out.title = "Title of " + id;
    out.published_at = published;
    return out;
  }
  void put(const items::Item& one) {
    const auto ok = run_sync(items->put(one));
    INFO((ok ? "" : ok.error().detail));
    REQUIRE(ok);
  }
  void remove(const std::string& id) { REQUIRE(run_sync(items->remove(ItemId::trusted(id)))); }

  template <class... Args>
  redis::Reply command(const Args&... args) {
    redis::Pipeline one;
    one.add(args...);
    auto replies = redis.call(one);
    REQUIRE(replies);
    return std::move(replies->front());
  }
  std::string text(const redis::Reply& reply) { return std::string(reply.string().value_or("")); }
  std::int64_t ttl(const std::string& key) { return command("TTL", key).integer().value_or(-9); }
  // True if the key was given this TTL within the last seconds.
  bool has_new_ttl(const std::string& key, std::int64_t expected) {
    const std::int64_t left = ttl(key);
    return left > expected - 60 && left <= expected;
  }
  bool exists(const std::string& key) { return command("EXISTS", key).integer().value_or(0) == 1; }
  std::optional<double> score(const std::string& key, const std::string& id) {
    const auto value = command("ZSCORE", key, id).number();
    return value ? std::optional(*value) : std::nullopt;
  }
  UnixSeconds now() { return UnixSeconds{seconds{redis::to_int(redis::string_at(command("TIME"), 0))}}; }
  void wait_for(UnixSeconds second) {
    while (now() < second) std::this_thread::sleep_for(milliseconds{5});
  }
  std::vector<std::string> all_keys() {  // sorted
    const auto reply = command("KEYS", "*");
    std::vector<std::string> out;
    for (std::size_t i = 0; i < reply.size(); ++i) out.emplace_back(redis::string_at(reply, i));
    std::sort(out.begin(), out.end());
    return out;
  }
  hot::ItemStats stats(const std::string& id) {
    auto out = run_sync(hot->stats({ItemId::trusted(id)}, hot::Ranks::kInclude));
    REQUIRE(out);
    return out->front();
  }
  std::optional<double> rank_score(const std::string& id, const hot::Model& model = hot::kEngagementModel) {
    return stats(id).position(model).score;
  }
  // All members of a query's rank, read page by page.
  std::vector<hot::ScoredItem> scan_rank(const hot::ListQuery& query, std::int64_t page_size = 100) {
    std::vector<hot::ScoredItem> out;
    std::optional<hot::RankCursor> from = hot::RankCursor();
    while (from) {
      auto page = run_sync(hot->rank_page(query, *from, page_size));
      REQUIRE(page);
      out.insert(out.end(), page->items.begin(), page->items.end());
      from = page->next;
    }
    return out;
  }
  std::vector<std::string> ids(const hot::ListQuery& query) {
    std::vector<std::string> out;
    for (const auto& each : scan_rank(query)) out.push_back(each.item.str());
    return out;
  }
};

inline hot::ListQuery engagement_query(seconds window = seconds{0}, const std::string& tag = {}) {
  hot::ListQuery out;
  out.model = &hot::kEngagementModel;
  out.window = window;
  out.tag = TagName::trusted(tag);
  return out;
}
inline hot::ListQuery accumulate_query(seconds window = seconds{0}, const std::string& tag = {}) {
  hot::ListQuery out;
  out.window = window;
  out.tag = TagName::trusted(tag);
  return out;
}

}  // namespace freshet::test
