#include "core/items/card_cache.h"

#include <catch2/catch.hpp>

#include "core/items/card_json.h"
#include "tests/hot/fakes.h"

using namespace freshet;
using items::CardCache;
using items::parse_invalidation;
using test::run_ready;

namespace {

constexpr std::int64_t kCacheBytes = 1 << 20;

ItemId item(int number) { return ItemId::trusted("i" + std::to_string(number)); }

// Titles are the number of the read: "0", "1", …
struct CountingItemStore final : test::FakeItemStore {
  int reads = 0;
  std::size_t cards_read = 0;  // total
  std::function<void()> on_read = [] {};
  Task<Result<std::vector<items::ItemCard>>> cards(const std::vector<ItemId>& ids) override {
    std::vector<items::ItemCard> out(ids.size());
    for (items::ItemCard& each : out) each.title = std::to_string(reads);
    ++reads;
    cards_read += ids.size();
    on_read();
    co_return out;
  }
};

struct Worker {
  CountingItemStore store;
  CardCache::Clock::time_point clock = CardCache::Clock::now();
  CardCache cards{store, kCacheBytes, [this] { return clock; }};
  std::string title(int number) {
    const auto found = run_ready(cards.get({item(number)}));
    REQUIRE(found);
    return found->front()->title;
  }
  void advance(milliseconds by) { clock += by; }
};

}  // namespace

TEST_CASE("cards are read once, and missing ones in one read", "[cards]") {
  Worker worker;
  worker.cards.heartbeat(worker.clock);
  CHECK(worker.title(1) == "0");
  const auto page = run_ready(worker.cards.get({item(1), item(2), item(3)}));
  REQUIRE(page);
  CHECK((page->at(0)->title == "0" && page->at(1)->title == "1" && page->at(2)->title == "1"));
  CHECK((worker.store.reads == 2 && worker.store.cards_read == 3));
  CHECK((worker.cards.counters().hits == 1 && worker.cards.counters().misses == 3));
  CHECK(worker.cards.missing({item(3), item(4), item(5)}, 2) == std::vector<ItemId>{item(4)});
}

TEST_CASE("cards are rendered as JSON, which counts towards the cache's size", "[cards]") {
  items::ItemCard card;
  std::string out;
  json::Writer writer(out);
  writer.begin_array().begin_object();
  items::write_card(writer, item(1), card);
  writer.end_object();
  card.known = true;
  card.title = "a \"b\"";
  card.tags = {"t", "u"};
  card.update_time = 7;
  card.json = items::to_json(card);
  writer.begin_object();
  items::write_card(writer, item(1), card);
  writer.key("more").integer(1).end_object();
  card.url = "https://example.org/";
  card.author = "ann";
  CHECK(items::to_json(card) ==
        R"("title":"a \"b\"","update_time":7,"url":"https://example.org/","author":"ann","tags":["t","u"])");
  const std::string id = "{\"id\":\"" + item(1).str() + '"';
  CHECK(out == "[" + id + "}," + id + R"(,"title":"a \"b\"","update_time":7,"tags":["t","u"],"more":1})");
  Worker worker;
  worker.cards.heartbeat(worker.clock);
  worker.cards.insert({item(1)}, {card}, worker.cards.revision());
  const auto before = worker.cards.counters().bytes;
  card.json.append(100, ' ').shrink_to_fit();
  worker.cards.insert({item(1)}, {card}, worker.cards.revision());
  CHECK(worker.cards.counters().bytes >= before + 100);
}

TEST_CASE("invalidating an item evicts only its card", "[cards]") {
  Worker worker;
  worker.cards.heartbeat(worker.clock);
  worker.title(1);
  worker.title(2);
  worker.cards.invalidate(item(1));
  CHECK((worker.title(1) == "2" && worker.title(2) == "1"));
  worker.cards.invalidate_all();
  CHECK((worker.title(1) == "3" && worker.title(2) == "4"));
}

TEST_CASE("a card read while its item changed is not stored", "[cards]") {
  Worker worker;
  worker.cards.heartbeat(worker.clock);
  const bool all = GENERATE(false, true);
  worker.store.on_read = [&] { all ? worker.cards.invalidate_all() : worker.cards.invalidate(item(1)); };
  worker.title(1);
  worker.store.on_read = [] {};
  CHECK(worker.title(1) == "1");
  CHECK(worker.title(1) == "1");
}

TEST_CASE("inserted cards are stored unless their items changed since", "[cards]") {
  Worker worker;
  worker.cards.heartbeat(worker.clock);
  items::ItemCard card;
  card.title = "came";
  const auto as_of = worker.cards.revision();
  worker.cards.invalidate(item(1));
  worker.cards.insert({item(1), item(2)}, {card, card}, as_of);
  CHECK((worker.title(1) == "0" && worker.title(2) == "came"));
}

TEST_CASE("without heartbeats a card is fresh for two seconds", "[cards]") {
  Worker worker;
  worker.cards.heartbeat(worker.clock);
  worker.title(1);
  worker.advance(milliseconds(1500));
  worker.title(2);
  worker.advance(milliseconds(500));
  CHECK(worker.title(1) == "0");
  worker.advance(milliseconds(1));
  CHECK(worker.title(1) == "2");  // read again
  CHECK(worker.title(2) == "1");  // read within kMaxStaleness
  worker.advance(milliseconds(2000));
  CHECK(worker.cards.missing({item(1), item(2)}, 2) == std::vector<ItemId>{item(2)});
  worker.advance(milliseconds(86400000));
  worker.cards.heartbeat(worker.clock);  // the heartbeat was only late: every message up to it has arrived
  CHECK(worker.title(1) == "2");
}

TEST_CASE("the cache stays within its size and evicts the least recently used cards", "[cards]") {
  Worker worker;
  worker.cards.heartbeat(worker.clock);
  for (int i = 0; i < 10000; ++i) {
    worker.title(i);
    worker.title(0);
  }
  CHECK(worker.cards.counters().bytes <= kCacheBytes);
  CHECK(worker.cards.counters().bytes > kCacheBytes - 1000);
  CHECK(worker.title(0) == "0");
  CHECK(worker.title(1) != "1");
  CardCache none(worker.store, 0);
  run_ready(none.get({item(1)}));
  CHECK((none.counters().bytes == 0 && none.missing({item(1)}, 1).size() == 1));
}

TEST_CASE("an invalidation names an item, or all; other messages are ignored", "[cards]") {
  const auto spaced = parse_invalidation("card a b");
  REQUIRE(spaced);
  CHECK(spaced->item == ItemId::trusted("a b"));
  const auto one = parse_invalidation("card a");
  REQUIRE(one);
  CHECK((one->item == ItemId::trusted("a") && !one->lists));
  const auto list = parse_invalidation("list a");
  REQUIRE(list);
  CHECK((list->item == ItemId::trusted("a") && list->lists));
  const auto all = parse_invalidation("all");
  REQUIRE(all);
  CHECK((!all->item && all->lists));
  for (const char* garbage : {"", "card", "card ", "list  a", "42", "all of it", "a", "cards a", "\xff"})
    CHECK_FALSE(parse_invalidation(garbage));
}
