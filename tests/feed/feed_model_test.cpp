// Checks the invariant of the feed against an exact model: within seven days no reader is shown an
// item twice, and no item that could be recalled is lost, whatever happens in between. Requests of
// several readers run as coroutines over a real Redis; their steps (round trips and searches)
// interleave in an order drawn from a seed.
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "core/feed/feed_store.h"
#include "core/feed/smart_feed.h"
#include "core/items/item_store.h"
#include "core/redis/blocking_redis.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"
#include "tests/feed/exact_filter.h"
#include "tests/support/redis_server.h"
#include "tests/support/repeat_count.h"
#include "tests/support/stepped_redis.h"

using namespace freshet;
using test::ExactFilter;
using test::StepScheduler;

namespace {

constexpr seconds kDay{86400};
constexpr std::size_t kReaders = 3;

enum class Fault { kNone, kUnavailable, kReplyLost };

// A worker's Redis connection. Each round trip is one step; it may fail before the request is sent,
// or lose the reply. A dead worker sends nothing more.
class SteppedRedis final : public redis::Redis {
 public:
  SteppedRedis(redis::BlockingRedis& inner, StepScheduler& turns) : inner_(inner), turns_(turns) {}
  std::function<Fault()> next_fault = [] { return Fault::kNone; };
  bool dead = false;
  Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
    auto turn = turns_.next_step();
    co_await turn;
    const Fault now = dead ? Fault::kUnavailable : next_fault();
    if (now == Fault::kUnavailable) co_return fail(ErrorCode::kUnavailable, "redis_unavailable");
    auto replies = inner_.call(pipeline);
    if (now == Fault::kReplyLost) co_return fail(ErrorCode::kUnknownOutcome, "redis_timeout");
    co_return replies;
  }
  bool ready() const override { return true; }

 private:
  redis::BlockingRedis& inner_;
  StepScheduler& turns_;
};

// The index: visible items, newest first.
class ModelIndex final : public feed::Recall {
 public:
  explicit ModelIndex(StepScheduler& turns) : turns_(turns) {}
  std::map<std::int64_t, ItemId, std::greater<>> visible;
  std::function<bool()> is_unavailable;
  Task<Result<feed::RecallResult>> search(feed::RecallQuery query) override {
    auto turn = turns_.next_step();
    co_await turn;
    if (is_unavailable()) co_return fail(ErrorCode::kUnavailable, "index_unavailable");
    feed::RecallResult out;
    for (const auto& [at, item] : visible) {
      if (out.candidates.size() == query.size) break;
      out.candidates.push_back({item, 1, UnixSeconds{seconds{at}}});
    }
    out.exhausted = visible.size() <= query.size;
    co_return out;
  }

 private:
  StepScheduler& turns_;
};

struct Conditions {
  bool faults = false;  // Redis becomes unavailable, replies are lost, workers die
  bool exact = true;    // the filter has no false positives
};

struct ModelReader {
  ReaderId id;
  std::map<ItemId, UnixSeconds> shown_at;
  std::map<std::string, std::set<ItemId>> by_request;  // the items shown for each idempotency key
  std::string last_request;
  std::size_t may_be_lost = 0;            // items of pages whose replies were lost
  std::size_t requests = 0, replies = 0;  // pages
};

class Explorer {
 public:
  Explorer(test::RedisServer& server, unsigned seed, Conditions conditions)
      : random_(seed),
        inner_(server.endpoint(), milliseconds(5000), redis::kAllScripts),
        keys_(""),
        conditions_(conditions) {
    settings_.recall.size = 20;
    settings_.recall.max_depth = 1000;
    settings_.recall.budget = milliseconds(60000);
    settings_.seen.impressions_per_day = 100000;
    if (conditions.exact)
      filter_ = std::make_unique<ExactFilter>();
    else
      filter_ = feed::make_seen_filter(settings_, keys_);
    index_.is_unavailable = [this] { return draw_fault() != Fault::kNone; };
    for (std::size_t i = 0; i < kReaders; ++i)
      readers_[i].id = ReaderId::trusted("reader" + std::to_string(i));
    start_worker();
    for (int i = 0; i < 60; ++i) insert();
  }

  void run(int operations) {
    for (int i = 0; i < operations; ++i) {
      operate();
      for (auto steps = random_() % 4; steps > 0; --steps) turns_.run_step();
    }
    finish_all();
    check_nothing_lost();
  }

 private:
  struct Worker {
    explicit Worker(Explorer& of)
        : redis(of.inner_, of.turns_),
          items(redis, of.settings_, of.keys_),
          store(redis, *of.filter_, of.settings_, of.keys_, [&of] { return of.now_; }),
          feed(store, of.index_, cards, of.settings_, [&of] { return of.now_; }) {
      redis.next_fault = [&of] { return of.draw_fault(); };
    }
    SteppedRedis redis;
    items::RedisItemStore items;
    items::CardCache cards{items, 0};
    feed::RedisFeedStore store;
    feed::SmartFeed feed;
  };
  bool chance(unsigned percent) { return random_() % 100 < percent; }
  Fault draw_fault() {
    if (!conditions_.faults || draining_ || !chance(6)) return Fault::kNone;
    return chance(50) ? Fault::kUnavailable : Fault::kReplyLost;
  }
  void start_worker() { workers_.push_back(std::make_unique<Worker>(*this)); }

  void operate() {
    const auto what = random_() % 100;
    if (what < 62) return request();
    if (what < 70) return insert();
    if (what < 78) return change_one();
    if (what < 81 && in_flight_ == 0) return next_day();
    if (what < 84 && conditions_.faults && in_flight_ == 0) return kill_worker();
    turns_.run_step();
  }

  // --- readers

  void request() {
    ModelReader& reader = readers_[random_() % kReaders];
    feed::FeedRequest feed_request;
    feed_request.reader = reader.id;
    feed_request.limit = 1 + random_() % 7;
    const bool again = !reader.last_request.empty() && chance(15);
    feed_request.action = chance(25) ? feed::FeedAction::kRefresh : feed::FeedAction::kLoadMore;
    feed_request.idempotency_key = again ? reader.last_request : "m.e." + std::to_string(++requests_);
    if (chance(8)) feed_request.action = feed::FeedAction::kPeek;
    ++in_flight_;
    ++reader.requests;
    spawn(ask(reader, feed_request, again), [this, &reader](std::exception_ptr error) {
      --in_flight_;
      ++reader.replies;
      if (error) std::rethrow_exception(error);
    });
  }

  Task<void> ask(ModelReader& reader, feed::FeedRequest feed_request, bool again) {
    if (feed_request.action == feed::FeedAction::kPeek) {
      const auto count = co_await workers_.back()->feed.peek(feed_request);
      REQUIRE(count);
      co_return;
    }
    const auto answered = reader.replies;
    const auto page = co_await workers_.back()->feed.page(feed_request);
    // Or other requests of this reader overtook each of its attempts.
    if (!page || page->degraded) REQUIRE((conditions_.faults || reader.requests - answered > 10));
    if (!page || (page->degraded && page->items.empty())) {
      reader.may_be_lost += feed_request.limit;
      co_return;
    }
    std::vector<ItemId> items;
    for (const feed::FeedItem& each : page->items) items.push_back(each.id);
    // A replayed page may have been made for another limit.
    REQUIRE((again || items.size() <= feed_request.limit));
    // A replay shows the same items, or the next page if the original is no longer remembered.
    std::set<ItemId>& before = reader.by_request[feed_request.idempotency_key];
    for (const ItemId& item : items) {
      const auto at = reader.shown_at.find(item);
      const bool repeated = at != reader.shown_at.end() && now_ - at->second <= 7 * kDay;
      INFO(item.str() << " for " << reader.id.str());
      REQUIRE((!repeated || before.contains(item)));
      reader.shown_at[item] = now_;
    }
    before.insert(items.begin(), items.end());
    if (!again) reader.last_request = feed_request.idempotency_key;
  }

  // --- the site

  void write(const ItemId& id, std::int64_t at, bool hidden) {
    items::Item item;
    item.id = id;
    item.title = "title of " + id.str();
    item.published_at = UnixSeconds{seconds{at}};
    item.hidden = hidden;
    REQUIRE(redis::run_sync(items_now_.put(item)));
    if (hidden)
      index_.visible.erase(at);
    else
      index_.visible[at] = id;
    hidden ? (void)hidden_.emplace(at, id) : (void)hidden_.erase(at);
  }
  void insert() {
    ++inserted_;
    write(ItemId::trusted("item" + std::to_string(inserted_)), 1700000000 + inserted_, false);
  }
  void change_one() {
    auto& from = chance(50) || hidden_.empty() ? index_.visible : hidden_;
    if (from.empty()) return;
    auto at = from.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(random_() % from.size()));
    const auto [when, id] = *at;
    write(id, when, &from == &index_.visible);
  }

  // --- the service

  void next_day() {
    while (turns_.run_step()) {
    }
    const seconds passed = kDay * static_cast<int>(1 + random_() % 3);
    now_ += passed;
    for (ModelReader& reader : readers_) age_pages(reader, milliseconds(passed).count());
  }
  // Redis uses the real clock, so delivered pages are aged instead.
  void age_pages(const ModelReader& reader, std::int64_t by_ms) {
    const std::string key = keys_.feed_state(reader.id.view());
    redis::Pipeline read, change;
    read.add("HMGET", key, "0", "1", "2", "3", "late");
    const auto all = inner_.call(read);
    REQUIRE(all);
    for (std::size_t i = 0; i < 5; ++i) {
      std::string older;
      std::istringstream lines(std::string((*all)[0][i].string().value_or("")));
      for (std::string page; std::getline(lines, page);) {
        auto words = redis::split_words(page, kIdSeparator);
        const std::string time = std::to_string(redis::to_int(words.at(2)) - by_ms);
        words[2] = time;
        std::string text;
        for (const auto each : words) text.append(text.empty() ? 0 : 1, kIdSeparator).append(each);
        older += i == 4 ? text + "\n" : text;
      }
      if (!older.empty()) change.add("HSET", key, i == 4 ? "late" : std::to_string(i), older);
    }
    if (!change.empty()) REQUIRE(inner_.call(change));
  }
  void kill_worker() {
    workers_.back()->redis.dead = true;
    start_worker();
  }

  void finish_all() {
    draining_ = true;
    while (turns_.run_step()) {
    }
    REQUIRE(in_flight_ == 0);
  }

  // Every visible item has been shown to each reader in the last seven days, or is shown now.
  void check_nothing_lost() {
    for (ModelReader& reader : readers_) {
      // The end of a buffer is the end of what was recalled when it was filled; a refresh returns
      // the rest.
      auto action = feed::FeedAction::kLoadMore;
      bool ended = false;
      for (int pages = 0; pages < 500 && !ended; ++pages) {
        feed::FeedRequest feed_request{reader.id, {}, {}, 7, action};
        Result<feed::FeedPage> page;
        spawn(
            [](feed::SmartFeed& feed, feed::FeedRequest what, Result<feed::FeedPage>& out) -> Task<void> {
              out = co_await feed.page(what);
            }(workers_.back()->feed, feed_request, page),
            [](std::exception_ptr) {});
        while (turns_.run_step()) {
        }
        REQUIRE(page);
        for (const feed::FeedItem& each : page->items) {
          const auto at = reader.shown_at.find(each.id);
          INFO(each.id.str() << " for " << reader.id.str());
          REQUIRE((at == reader.shown_at.end() || now_ - at->second > 7 * kDay));
          reader.shown_at[each.id] = now_;
        }
        ended = page->exhausted && page->items.empty() && action == feed::FeedAction::kRefresh;
        action = page->exhausted ? feed::FeedAction::kRefresh : feed::FeedAction::kLoadMore;
      }
      REQUIRE(ended);
      std::size_t missing = 0;
      for (const auto& [at, item] : index_.visible) {
        const auto shown = reader.shown_at.find(item);
        missing += shown == reader.shown_at.end() || now_ - shown->second > 7 * kDay ? 1U : 0U;
      }
      INFO(missing << " of " << index_.visible.size() << " were never shown to " << reader.id.str());
      // A generous bound on the filter's false positives.
      const std::size_t hidden_by_filter = conditions_.exact ? 0 : 1 + index_.visible.size() / 50;
      CHECK(missing <= reader.may_be_lost + hidden_by_filter);
    }
  }

  std::mt19937 random_;
  redis::BlockingRedis inner_;
  const redis::Keys keys_;
  const Conditions conditions_;
  Settings settings_;
  std::unique_ptr<feed::SeenFilter> filter_;
  StepScheduler turns_{random_};
  ModelIndex index_{turns_};
  items::RedisItemStore items_now_{inner_, settings_, keys_};
  std::vector<std::unique_ptr<Worker>> workers_;  // only the last is alive
  std::array<ModelReader, kReaders> readers_;
  std::map<std::int64_t, ItemId, std::greater<>> hidden_;
  UnixSeconds now_ = wall_now();
  int in_flight_ = 0;
  int requests_ = 0;
  std::int64_t inserted_ = 0;
  bool draining_ = false;
};

void explore(Conditions conditions, int seeds) {
  test::RedisServer server;
  std::random_device entropy;
  for (int i = 0; i < seeds; ++i) {
    const unsigned seed = entropy();
    INFO("seed " << seed);
    server.flush_all();
    Explorer(server, seed, conditions).run(400);
  }
}

}  // namespace

TEST_CASE("no reader sees an item twice and none is lost, in any order of steps", "[feed][invariant][long]") {
  explore({.exact = true}, test::repeat_count(10, 100));
}
TEST_CASE("the invariant holds with the fingerprints filter, apart from its false positives",
          "[feed][invariant][long]") {
  explore({.exact = false}, test::repeat_count(6, 60));
}

TEST_CASE("the invariant holds while Redis fails, replies are lost and workers die",
          "[feed][invariant][long]") {
  explore({.faults = true}, test::repeat_count(10, 100));
}
