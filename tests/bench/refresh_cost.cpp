// Measures a worker's CPU per refresh of a feed:
//   refresh_cost [FOLDER [items [readers [rounds [kinds]]]]]
//
// Uses the data of `scripts/bench feed`, a real index and all layers below the handler, with a stub
// for Redis, so without sockets, JSON or the queue to recall's thread. Items are cached; the seen
// filter's days are filled to capacity. Prints µs of CPU per refresh for readers without interests,
// as in the benchmark (kinds = 1), with ten interests (2), or both (3, the default). Builds the
// index in FOLDER/index if it is missing.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/base/heap.h"
#include "core/feed/feed_store.h"
#include "core/feed/recall.h"
#include "core/feed/seen_layout.h"
#include "core/feed/smart_feed.h"
#include "core/items/item_store.h"
#include "core/readers/reader_store.h"
#include "core/redis/blocking_redis.h"
#include "core/search/search_index.h"
#include "tests/bench/stub_redis.h"

using namespace freshet;
using namespace freshet::bench;

namespace {

const UnixSeconds kNow{seconds{1770000000}};
constexpr std::int64_t kSpanS = 90 * 86400;  // the items' maximum age
constexpr std::size_t kInterests = 10;
constexpr unsigned kFresh = 5'000;  // interests are among this many newest items

struct Size {
  int items = 100'000, readers = 100, rounds = 20;
};

items::Item item(int number, int items) {
  const auto text = [](int value) { return std::to_string(value); };
  items::Item out;
  out.id = ItemId::trusted("i" + text(number));
  out.title =
      "Article " + text(number) + " about topic " + text(number % 977) + " and place " + text(number % 331);
  out.url = "https://example.org/" + text(number);
  out.author = "author" + text(number % 500);
  out.tags = {TagName::trusted("t" + text(number % 200)),
              TagName::trusted("t" + text(number % 1400 * 7 % 200))};
  out.published_at = kNow - seconds{number * kSpanS / items};
  return out;
}

void build(const Settings& settings, int items) {
  const auto index = value_or_exit(search::SearchIndex::open(settings.search));
  for (int number = items; number-- > 0;) {
    if (!index->put(item(number, items))) std::exit(1);
    if (number % 5000 == 0 && !index->commit()) std::exit(1);
  }
}

// Answers the commands that a refresh sends to Redis.
class FeedRedis final : public StubRedis {
 public:
  explicit FeedRedis(int items) : items_(items) {
    std::mt19937 random(3);
    for (int day = 0; day < feed::kSeenDays; ++day) {
      std::string& shard = shards_.emplace_back();
      while (shard.size() < feed::kFingerprintBytes * feed::kImpressionsPerShard)
        shard += static_cast<char>(random());
    }
  }
  bool with_interests = false;
  unsigned reader = 0;

 private:
  std::string reply_to(const Command& command) const override {
    if (command[0] == "SET") return "+OK\r\n";
    if (command[0] == "TIME")
      return array(2) + bulk(std::to_string(kNow.time_since_epoch().count())) + bulk("0");
    if (command[0] == "MGET") {
      std::string out = array(command.size() - 1);
      for (std::size_t day = 0; day + 1 < command.size(); ++day) out += bulk(shards_[day]);
      return out;
    }
    if (command[0] == "ZREVRANGE" && command[1].starts_with("user:interactions:") && with_interests)
      return interests();
    if (command[0] == "EVALSHA") return page(command);
    if (command[0] == "APPEND") return ":3000\r\n";
    if (command[0] != "HMGET") return command[0] == "GET" ? "$-1\r\n" : array(0);
    std::string out = array(command.size() - 2);
    if (!command[1].starts_with("item:")) {
      for (std::size_t i = 2; i < command.size(); ++i) out += "$-1\r\n";
      return out;
    }
    const items::Item found = item(std::atoi(command[1].c_str() + command[1].rfind('i') + 1), items_);
    for (std::size_t i = 2; i < command.size(); ++i) {
      if (command[i] == "published_at")
        out += bulk(std::to_string(found.published_at.time_since_epoch().count()));
      else if (command[i] == "title")
        out += bulk(found.title);
      else
        out += "$-1\r\n";
    }
    return out;
  }
  std::string interests() const {
    std::string out = array(kInterests);
    std::mt19937 random(reader + 1);
    for (std::size_t i = 0; i < kInterests; ++i)
      out += bulk(
          readers::interaction_member(readers::Interaction::kLike, "i" + std::to_string(random() % kFresh)));
    return out;
  }
  // feed_swap.lua returns a first page, the first line of candidates; other scripts return success.
  static std::string page(const Command& command) {
    constexpr std::size_t kFirstKey = 3, kKeys = 2, kArgumentsBefore = 13;
    constexpr std::size_t kCandidates = kFirstKey + kKeys + kArgumentsBefore;
    if (command.size() <= kCandidates) return ":3000\r\n";
    const std::string now_ms = std::to_string(kNow.time_since_epoch().count() * 1000);
    std::string text = "0=";
    for (const std::string& field : {std::string("7"), now_ms, std::string("5"), std::string("1"),
                                     std::string("1"), std::string("0"), command[kCandidates]})
      text += kIdSeparator + field;
    return array(4) + bulk("page") + bulk(text) + bulk("0") + array(0);
  }

  const int items_;
  std::vector<std::string> shards_;
};

// Searches on the calling thread.
class InlineRecall final : public feed::Recall {
 public:
  explicit InlineRecall(const Settings& settings) : recall_(settings) {}
  Task<Result<feed::RecallResult>> search(feed::RecallQuery query) override {
    co_return recall_.search(query);
  }

 private:
  feed::BlockingRecall recall_;
};

void measure(const char* name, bool with_interests, const Settings& settings, const Size& size) {
  const redis::Keys keys("");
  FeedRedis redis(size.items);
  redis.with_interests = with_interests;
  const auto clock = [] { return kNow; };
  const auto filter = feed::make_seen_filter(settings, keys);
  feed::RedisFeedStore store(redis, *filter, settings, keys, clock);
  items::RedisItemStore items(redis, settings, keys);
  items::CardCache cards(items, settings.items_cache_bytes);
  cards.heartbeat(items::CardCache::Clock::time_point::max());
  InlineRecall recall(settings);
  feed::SmartFeed feed(store, recall, cards, settings, clock);
  std::vector<double> pages;
  for (int round = 0; round <= size.rounds; ++round) {  // the first round is a warm-up
    const double began = cpu_us();
    for (redis.reader = 0; redis.reader < static_cast<unsigned>(size.readers); ++redis.reader) {
      feed::FeedRequest request;
      request.reader = ReaderId::trusted("u" + std::to_string(redis.reader));
      const auto page = value_or_exit(redis::run_sync(feed.page(request)));
      if (page.items.size() != 20) std::exit(1);
    }
    if (round > 0) pages.push_back((cpu_us() - began) / size.readers);
  }
  std::sort(pages.begin(), pages.end());
  std::printf("%s: %.0f µs per refresh (%.0f–%.0f)\n", name, pages[pages.size() / 2], pages.front(),
              pages.back());
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int at, int default_value) {
    return argc > at ? std::atoi(argv[at]) : default_value;
  };
  Size size;
  Settings settings;
  const std::filesystem::path folder = argc > 1 ? argv[1] : "refresh_cost.index";
  settings.search.index = folder / "index";
  settings.recall.budget = milliseconds{60'000};  // enough for runs under valgrind
  size.items = number(2, size.items);
  size.readers = number(3, size.readers);
  size.rounds = number(4, size.rounds);
  const int kinds = number(5, 3);
  if (!std::filesystem::exists(settings.search.index)) build(settings, size.items);
  raise_malloc_trim_threshold();  // as a worker does
  // In a new thread, since the main thread's malloc arena behaves differently.
  std::thread([&] {
    if ((kinds & 1) != 0) measure("without interests", false, settings, size);
    if ((kinds & 2) != 0) measure("with ten interests", true, settings, size);
  }).join();
}
