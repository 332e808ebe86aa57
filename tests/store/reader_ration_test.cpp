// What readers may ask: each endpoint's bucket, taken by the script that does the work, with and without hash
// tags.
#include "core/store/feed_store.h"
#include "core/store/waterfall_store.h"
#include "tests/store/reader_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

constexpr std::int64_t kHour = 3'600'000'000;  // µs

struct Rationed : Readers {
  explicit Rationed(bool tags) : Readers(tags) {}

  static feed::Asker asker(std::string_view endpoint) {
    return {kReader, {endpoint, "reader", kHour, kHour}};
  }
  static bool limited(const Error& error) {
    return error.code == ErrorCode::kRateLimited && !error.detail.empty();
  }
  // Asks until the two tokens are used up; the third changes nothing.
  template <class Ask>
  void passes_twice(Ask ask) {
    for (int i = 0; i < 2; ++i) {
      const auto passed = ask();
      INFO((passed ? "" : passed.error().detail));
      REQUIRE(passed);
    }
    const auto before = contents();
    const auto refused = ask();
    REQUIRE_FALSE(refused);
    CHECK(limited(refused.error()));
    CHECK(contents() == before);
  }
  // Every key with what it holds.
  std::map<std::string, std::string> contents() {
    std::map<std::string, std::string> out;
    for (const std::string& key : all_keys()) out[key] = text(command("DUMP", key));
    return out;
  }
};

}  // namespace

TEST_CASE("reading, writing and clearing a history cost tokens of one bucket", "[ration]") {
  const bool tags = GENERATE(false, true);
  Rationed world(tags);
  auto view = Readers::view_of("a");
  view.ration = Rationed::asker("history").ration;
  world.passes_twice([&] { return wait(world.store().viewed(view)); });
  const auto asker = Rationed::asker("history");
  CHECK(Rationed::limited(wait(world.store().views(asker, feed::ViewKind::kTopic)).error()));
  CHECK(Rationed::limited(wait(world.store().clear_views(asker, feed::ViewKind::kTopic)).error()));
  CHECK(world.history() == std::vector<std::string>{"a"});
  CHECK(world.exists(world.keys().limit("history", "reader")));
  world.command("DEL", world.keys().limit("history", "reader"));
  world.passes_twice([&] { return wait(world.store().views(asker, feed::ViewKind::kTopic)); });
  world.command("DEL", world.keys().limit("history", "reader"));
  world.passes_twice([&] { return wait(world.store().clear_views(asker, feed::ViewKind::kTopic)); });
}

TEST_CASE("a dismissal and its undoing cost tokens before the recorder is told", "[ration]") {
  const bool tags = GENERATE(false, true);
  Rationed world(tags);
  feed::Dismissal dismissal{kReader, ItemId::trusted("a"), {}, {}};
  dismissal.ration = Rationed::asker("feedback").ration;
  world.passes_twice([&] { return wait(world.store().dismiss(dismissal)); });
  CHECK(world.told().size() == 2);
  const auto asker = Rationed::asker("feedback");
  CHECK(Rationed::limited(wait(world.store().undo_dismissal(asker, ItemId::trusted("a"))).error()));
  CHECK(world.told().size() == 2);
  world.command("DEL", world.keys().limit("feedback", "reader"));
  world.passes_twice([&] { return wait(world.store().undo_dismissal(asker, ItemId::trusted("a"))); });
}

TEST_CASE("a recommendation costs a token of its reader", "[ration]") {
  const bool tags = GENERATE(false, true);
  Rationed world(tags);
  const auto asker = Rationed::asker("recommendations");
  world.passes_twice([&] { return wait(world.store().read(asker)); });
}

TEST_CASE("a page of a feed costs one token, however many steps it takes", "[ration]") {
  const bool tags = GENERATE(false, true);
  Rationed world(tags);
  const auto filter = store::make_seen_filter(world.settings, world.keys());
  REQUIRE(wait(filter->probe(world.redis)));
  store::RedisFeedStore feed(world.redis, world.later, *filter, world.settings, world.keys());
  feed::PageRequest request;
  request.reader = kReader;
  request.limit = 1;
  request.ration = Rationed::asker("feed").ration;
  world.passes_twice([&] { return wait(feed.open(request, false)); });
  CHECK(Rationed::limited(wait(feed.take(request)).error()));
  // What follows an opening, and what fills a page up, was paid for with it.
  feed::Refill fill;
  for (const char* id : {"a", "b", "c", "d"}) fill.candidates.push_back(ItemId::trusted(id));
  const auto swapped = wait(feed.swap(request, fill));
  REQUIRE(swapped);
  CHECK(wait(feed.refill(request, swapped->page)));
  world.command("DEL", world.keys().limit("feed", "reader"));
  world.passes_twice([&] { return wait(feed.take(request)); });
}

TEST_CASE("a page of a timeline costs one token, however many steps it takes", "[ration]") {
  const bool tags = GENERATE(false, true);
  Rationed world(tags);
  store::RedisWaterfallStore timelines(world.redis, world.redis, world.settings, world.keys());
  feed::Push push{"discover", {}, {kReader}};
  // More hidden items than one look shows.
  for (int i = 0; i < 250; ++i) {
    feed::Item item = world.item("i" + std::to_string(i), world.now());
    item.hidden = i > 5;
    world.put(item);
    push.items.push_back(item.id);
  }
  REQUIRE(wait(timelines.push(push)));
  feed::PageQuery query;
  query.channel = "discover";
  query.reader = kReader;
  query.ration = Rationed::asker("waterfall").ration;
  world.passes_twice([&] { return wait(timelines.read(query)); });
}
