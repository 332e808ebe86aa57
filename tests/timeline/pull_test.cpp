// Pulling from authors with too many followers to push to.
#include "tests/timeline/fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

struct PullFixture : TimelineFixture {
  using TimelineFixture::TimelineFixture;
  timeline::TimelinePage read(Direction direction = Direction::kFirst, std::int64_t score = 0,
                              int limit = 5) {
    return page(direction, score, limit, "follow");
  }
  Ids timeline_items() { return ids_in(timeline("reader", "follow")); }
  std::int64_t mark(const std::string& author) {
    return static_cast<std::int64_t>(score(keys().followed_authors("reader"), author).value_or(-1));
  }
  std::int64_t newest_pullable(const std::string& author) {
    return static_cast<std::int64_t>(score(keys().pull_authors(), author).value_or(-1));
  }
};

}  // namespace

TEST_CASE("items of pulled authors join the head when the follow channel is read, in order", "[waterfall]") {
  PullFixture site(each_mode());
  for (const char* author : {"ann", "bob", "carl"}) site.follow(author);
  site.publish("ann", {"a1"});
  site.push({"own"}, {"reader"}, "follow");
  const auto own = site.members(site.timeline("reader", "follow")).front().second;
  site.publish("bob", {"b1"});
  site.publish("ann", {"a2"});
  // Outboxes are scored by publish time; set the scores to make the order unambiguous.
  for (const auto& [author, item, score] :
       {std::tuple("ann", "a1", 1000), {"bob", "b1", 2000}, {"ann", "a2", 3000}})
    site.command("ZADD", site.keys().pull_outbox(author), "XX", score, item);
  site.command("ZADD", site.keys().followed_authors("reader"), 0, "ann", 0, "bob");
  const auto page = site.read(Direction::kNewer, own);
  CHECK(ids_of(page) == Ids{"a2", "b1", "a1"});
  CHECK(page.oldest_score > own);
  CHECK_FALSE(page.trimmed);
  for (const char* author : {"ann", "bob"}) {
    CHECK(site.mark(author) == site.newest_pullable(author));
    CHECK(site.mark(author) > 0);
  }
  CHECK(site.mark("carl") == 0);
  CHECK(site.ttl(site.timeline("reader", "follow")) > 0);
}

TEST_CASE("without writes a page shows what is there, and published items wait", "[waterfall]") {
  PullFixture site(each_mode());
  site.follow("ann");
  site.push({"own"}, {"reader"}, "follow");
  site.publish("ann", {"a1"});
  const auto key = site.timeline("reader", "follow");
  const auto before = site.members(key);
  const timeline::PageQuery query{"follow", ReaderId::trusted("reader"), Direction::kFirst, 0, 5, false};
  const auto page = run_sync(site.store().read(query));
  REQUIRE(page);
  CHECK(ids_of(*page) == Ids{"own"});
  CHECK(site.members(key) == before);
  CHECK_FALSE(site.exists(site.keys().active_readers("follow")));
  CHECK(ids_of(site.read()) == Ids{"a1", "own"});
  CHECK(site.exists(site.keys().active_readers("follow")));
}

TEST_CASE("a pulled item that left the timeline is not pulled again", "[waterfall]") {
  PullFixture site(each_mode());
  site.follow("ann");
  site.publish("ann", {"a1", "a2"});
  CHECK(ids_of(site.read()) == Ids{"a2", "a1"});
  const auto key = site.timeline("reader", "follow");
  site.command("ZREM", key, "a1");
  CHECK(ids_of(site.read()) == Ids{"a2"});
  const auto before = site.members(key);
  site.publish("ann", {"a3"});
  CHECK(ids_of(site.read()) == Ids{"a3", "a2"});
  CHECK(site.members(key).front() == before.front());
  // Already pushed by another author: it keeps its position.
  site.push({"b1"}, {"reader"}, "follow");
  site.publish("ann", {"b1", "a4"});
  CHECK(ids_of(site.read()) == Ids{"a4", "b1", "a3", "a2"});
  CHECK(site.newest_pullable("ann") == site.mark("ann"));
}

TEST_CASE("only the follow channel pulls, and only from followed authors", "[waterfall]") {
  PullFixture site(each_mode());
  site.follow("ann", "somebody");
  site.follow("bob");
  site.publish("ann", {"a1"});
  site.publish("bob", {"b1"});
  CHECK(site.first().items.empty());
  CHECK(ids_of(site.read()) == Ids{"b1"});
  site.publish("bob", {"b2"});
  site.command("ZREM", site.keys().followed_authors("reader"), "bob");
  CHECK(ids_of(site.read()) == Ids{"b1"});
  CHECK(site.mark("bob") == -1);
  CHECK(site.mark("ann") == -1);
}

TEST_CASE("the newest items of all authors are pulled, no more than a timeline holds", "[waterfall]") {
  PullFixture site(each_mode());
  site.settings.timeline.max_items = 10;
  site.reopen();
  for (int author = 0; author < 9; ++author) {
    const std::string name = "author" + std::to_string(author);
    site.follow(name);
    redis::Pipeline fill;
    for (int i = 0; i < 30; ++i)  // item 9·i + author at a score that interleaves the authors
      fill.add("ZADD", site.keys().pull_outbox(name), 1000 + 9 * i + author, std::to_string(9 * i + author));
    fill.add("ZADD", site.keys().pull_outbox(name), -2000, redis::kHighestMark);
    fill.add("ZADD", site.keys().pull_authors(), 2000, name);
    REQUIRE(site.redis.call(fill));
  }
  CHECK(ids_of(site.read(Direction::kFirst, 0, 20)) == count(269, 260));
  CHECK(site.timeline_items() == count(260, 269));
  CHECK_FALSE(site.score(site.timeline("reader", "follow"),
                         std::string(redis::kTrimmedMark)));  // no other items came and went
  for (int author = 0; author < 9; ++author) CHECK(site.mark("author" + std::to_string(author)) == 2000);
  const auto before = site.members(site.timeline("reader", "follow"));
  site.read();
  CHECK(site.members(site.timeline("reader", "follow")) == before);
}

TEST_CASE("a cursor into an expired timeline is reported as trimmed, even if pulling created a new one",
          "[waterfall]") {
  PullFixture site(each_mode());
  site.follow("ann");
  site.publish("ann", {"a1"});
  const auto cursor = site.read().newest_score - 1000;  // a timeline lives at least a minute
  site.command("DEL", site.timeline("reader", "follow"));
  site.publish("ann", {"a2"});
  const auto page = site.read(Direction::kNewer, cursor);
  CHECK(ids_of(page) == Ids{"a2"});
  CHECK(page.trimmed);
}
