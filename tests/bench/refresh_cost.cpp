// What a refresh of the feed costs the worker: refresh_cost [FOLDER [items [readers [rounds
// [kinds]]]]]
//
// The site of `scripts/bench feed` in memory: every layer below the handler over a real index, with
// Redis' replies as bytes, without Redis, sockets, JSON or the way to recall's thread. Titles are
// known; the seen-filter's days are as full as they were made for. Prints µs of CPU a refresh of
// readers without interests (as the benchmark has them), and of such with ten. The index is built
// in FOLDER/index when it is not there. `kinds`: 1 the first, 2 the second, 3 both.
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
#include "tests/bench/replies.h"

using namespace freshet;
using namespace freshet::bench;

namespace {

const UnixSeconds kNow{seconds{1770000000}};
constexpr std::int64_t kSpanS = 90 * 86400;  // the items' ages
constexpr std::size_t kInterests = 10;
constexpr unsigned kFresh = 5'000;  // interests are of the newest so many

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
  const auto index = must(search::SearchIndex::open(settings.search));
  for (int number = items; number-- > 0;) {
    if (!index->put(item(number, items))) std::exit(1);
    if (number % 5000 == 0 && !index->commit()) std::exit(1);
  }
}

class Feeds final : public Answers {
 public:
  explicit Feeds(int items) : items_(items) {
    std::mt19937 random(3);
    for (int day = 0; day < feed::kSeenDays; ++day) {
      std::string& shard = shards_.emplace_back();
      while (shard.size() < feed::kFingerprintBytes * feed::kImpressionsPerShard) shard += static_cast<char>(random());
    }
  }
  bool with_interests = false;
  unsigned reader = 0;

 private:
  std::string answer_to(const Words& words) const override {
    if (words[0] == "SET") return "+OK\r\n";
    if (words[0] == "TIME")
      return array(2) + bulk(std::to_string(kNow.time_since_epoch().count())) + bulk("0");
    if (words[0] == "MGET") {
      std::string out = array(words.size() - 1);
      for (std::size_t day = 0; day + 1 < words.size(); ++day) out += bulk(shards_[day]);
      return out;
    }
    if (words[0] == "ZREVRANGE" && words[1].starts_with("user:interactions:") && with_interests)
      return interests();
    if (words[0] == "EVALSHA") return page(words);
    if (words[0] == "APPEND") return ":3000\r\n";
    if (words[0] != "HMGET") return words[0] == "GET" ? "$-1\r\n" : array(0);
    std::string out = array(words.size() - 2);
    if (!words[1].starts_with("item:")) {
      for (std::size_t i = 2; i < words.size(); ++i) out += "$-1\r\n";
      return out;
    }
    const items::Item of = item(std::atoi(words[1].c_str() + words[1].rfind('i') + 1), items_);
    for (std::size_t i = 2; i < words.size(); ++i) {
      if (words[i] == "published_at")
        out += bulk(std::to_string(of.published_at.time_since_epoch().count()));
      else if (words[i] == "title")
        out += bulk(of.title);
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
  // As feed_swap.lua hands out a first page; other scripts are answered with what means "done".
  static std::string page(const Words& words) {
    constexpr std::size_t kFirstKey = 3, kKeys = 2, kBefore = 12;
    constexpr std::size_t kCandidates = kFirstKey + kKeys + kBefore;
    if (words.size() < kCandidates + 20) return ":3000\r\n";
    std::string text = "0= 7 " + std::to_string(kNow.time_since_epoch().count() * 1000) + " 5 1 1 0";
    for (std::size_t i = kCandidates; i < kCandidates + 20; ++i) text += " " + words[i];
    return array(4) + bulk("page") + bulk(text) + bulk("0") + array(0);
  }

  const int items_;
  std::vector<std::string> shards_;
};

class Inline final : public feed::Recall {
 public:
  explicit Inline(const Settings& settings) : recall_(settings) {}
  Task<Result<feed::RecallResult>> search(feed::RecallQuery query) override { co_return recall_.search(query); }

 private:
  feed::BlockingRecall recall_;
};

void measure(const char* name, bool with_interests, const Settings& settings, const Size& size) {
  const redis::Keys keys("");
  Feeds redis(size.items);
  redis.with_interests = with_interests;
  const auto clock = [] { return kNow; };
  const auto filter = feed::make_seen_filter(settings, keys);
  feed::RedisFeedStore store(redis, *filter, settings, keys, clock);
  items::RedisItemStore items(redis, settings, keys);
  items::CardCache cards(items, settings.items_cache_bytes);
  cards.heartbeat(items::CardCache::Clock::time_point::max());
  Inline recall(settings);
  feed::SmartFeed feed(store, recall, cards, settings, clock);
  std::vector<double> pages;
  for (int round = 0; round <= size.rounds; ++round) {  // the first one is not counted
    const double began = cpu_us();
    for (redis.reader = 0; redis.reader < static_cast<unsigned>(size.readers); ++redis.reader) {
      feed::FeedRequest request;
      request.reader = ReaderId::trusted("u" + std::to_string(redis.reader));
      const auto page = must(redis::run_sync(feed.page(request)));
      if (page.items.size() != 20) std::exit(1);
    }
    if (round > 0) pages.push_back((cpu_us() - began) / size.readers);
  }
  std::sort(pages.begin(), pages.end());
  std::printf("%s: %.0f µs a refresh (%.0f–%.0f)\n", name, pages[pages.size() / 2], pages.front(),
              pages.back());
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int at, int usual) { return argc > at ? std::atoi(argv[at]) : usual; };
  Size size;
  Settings settings;
  const std::filesystem::path folder = argc > 1 ? argv[1] : "refresh_cost.index";
  settings.search.index = folder / "index";
  settings.recall.budget = milliseconds{60'000};  // for valgrind
  size.items = number(2, size.items);
  size.readers = number(3, size.readers);
  size.rounds = number(4, size.rounds);
  const int kinds = number(5, 3);
  if (!std::filesystem::exists(settings.search.index)) build(settings, size.items);
  raise_malloc_trim_threshold();  // as a worker does, and on a thread, where malloc differs from the first
  std::thread([&] {
    if ((kinds & 1) != 0) measure("without interests", false, settings, size);
    if ((kinds & 2) != 0) measure("with ten interests", true, settings, size);
  }).join();
}
