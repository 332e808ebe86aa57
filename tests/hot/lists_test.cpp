// Cached lists and rank scans.
#include <algorithm>
#include <random>

#include "core/hot/hot_lists.h"
#include "core/hot/preview.h"
#include "core/items/card_cache.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;
using State = hot::CachedList::Freshness;

namespace {

struct ListFixture : Fixture {
  ListFixture() {
    settings.list.rebuild_interval = std::chrono::hours{1};  // no test spans two intervals
    open();
  }
  hot::CachedList cached(const hot::ListQuery& query = {}) {
    auto out = run_sync(hot->cached_list(query));
    REQUIRE(out);
    return *out;
  }
};

}  // namespace

TEST_CASE_METHOD(ListFixture, "one process builds the list, and the others serve what is stored", "[lists]") {
  auto mine = cached();
  CHECK(mine.freshness == State::kMustBuild);
  CHECK(mine.json.empty());
  CHECK(cached().freshness == State::kStale);
  mine.json = "[1]";
  hot->store_list({}, mine);
  CHECK(cached().freshness == State::kFresh);
  CHECK(cached().json == "[1]");
  CHECK(text(command("GET", "hot:list")) == "[1]");
  CHECK(has_new_ttl("hot:list", 60));
}

TEST_CASE_METHOD(ListFixture, "in the next interval one process rebuilds and the others serve the old list",
                 "[lists]") {
  settings.list.rebuild_interval = milliseconds{1};
  open();
  auto first = cached();
  first.json = "[1]";
  hot->store_list({}, first);
  auto second = cached();
  while (second.freshness == State::kFresh) second = cached();  // still the same millisecond
  CHECK(second.freshness == State::kMustBuild);
  CHECK(second.json == "[1]");
  const auto other = cached();
  CHECK(other.freshness == State::kStale);
  CHECK(other.json == "[1]");
}

TEST_CASE_METHOD(ListFixture, "a list built before an item was hidden is never served", "[lists]") {
  put(item("a", now()));
  track(track_event("a", "v", 0));
  auto built = cached();
  built.json = "[\"a\"]";
  hot->store_list({}, built);
  REQUIRE(cached().freshness == State::kFresh);
  auto hidden = item("a", now());
  hidden.hidden = true;
  put(hidden);
  const auto after = cached();
  CHECK(after.freshness == State::kMustBuild);
  CHECK(after.json.empty());
}

TEST_CASE_METHOD(ListFixture, "the stored list says whether it is below the floor", "[lists]") {
  for (const bool below_floor : {true, false, true}) {
    auto built = cached();
    built.json = "[1]";
    built.below_floor = below_floor;
    built.built_ms += 1;
    command("DEL", "hot:list:meta");
    hot->store_list({}, built);
    CHECK(cached().below_floor == below_floor);
    CHECK(cached().freshness == State::kFresh);
  }
}

namespace {

// Runs `interfere` after each command, as another client might.
class InterferingRedis final : public redis::Redis {
 public:
  InterferingRedis(redis::BlockingRedis& inner, std::function<void()> interfere)
      : inner_(inner), interfere_(std::move(interfere)) {}
  Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
    redis::Replies out;
    for (std::size_t i = 0; i < pipeline.size(); ++i) {
      redis::Pipeline one;
      one.raw(pipeline.at(i));
      auto replies = inner_.call(one);
      if (!replies) co_return replies;
      out.push_back(std::move(replies->front()));
      interfere_();
    }
    co_return out;
  }
  bool ready() const override { return true; }

 private:
  redis::BlockingRedis& inner_;
  const std::function<void()> interfere_;
};

}  // namespace

TEST_CASE_METHOD(ListFixture, "a list replaced during a read keeps its own below-floor flag", "[lists]") {
  const bool below_floor = GENERATE(false, true);
  auto built = cached();
  built.json = "[1]";
  built.below_floor = !below_floor;
  hot->store_list({}, built);
  hot::CachedList newer = built;
  newer.json = "[2]";
  newer.below_floor = below_floor;
  newer.built_ms += 1;
  InterferingRedis interfering(redis, [&] { hot->store_list({}, newer); });
  hot::RedisHotStore reader(interfering, deferred->writers, settings, keys(), [] { return std::string(); });
  const auto read = run_sync(reader.cached_list({}));
  REQUIRE(read);
  CHECK(read->json == "[2]");
  CHECK(read->below_floor == below_floor);
}

TEST_CASE_METHOD(ListFixture, "a preview compares lists of the same counters, while articles are read",
                 "[lists]") {
  hot::ListQuery query = engagement_query();
  if (GENERATE(true, false)) {
    query.model = &hot::kViewsModel;
    query.mode = hot::ViewsMode::kCurrent;
  }
  for (const char* const id : {"a", "b", "c"}) {
    put(item(id, now() - seconds{3600}));
    track(track_event(id, "v", 1000));
  }
  int readers = 0;
  InterferingRedis interfering(redis, [&] {
    for (const char* const id : {"c", "b", "b"})
      track(track_event(id, "w" + std::to_string(++readers), 1000));
  });
  hot::RedisHotStore reader(interfering, deferred->writers, settings, keys(), [] { return std::string(); });
  items::CardCache cards(*items, 1 << 20);
  const auto lists = run_sync(hot::preview(reader, cards, {settings, settings}, query, now()));
  const auto later = run_sync(hot::preview(reader, cards, {settings}, query, now()));
  REQUIRE(lists);
  REQUIRE(later);
  CHECK(lists->size() == 2);
  CHECK(lists->front()->first(10) == lists->back()->first(10));
  CHECK(lists->front()->first(10) != later->front()->first(10));
}

TEST_CASE_METHOD(ListFixture, "the newest items of a blog are listed when none of its articles is hot",
                 "[lists]") {
  partitions = GENERATE(1U, 16U);
  open();
  for (int i = 0; i < 3; ++i) {
    auto one = item("post" + std::to_string(i), now() - seconds{(60 + 30 * i) * 86400});
    if (i != 1) one.tags = {TagName::trusted("t")};
    put(one);
    track(track_event("post" + std::to_string(i), "v", 1000));
  }
  put(item("embargoed", now() + seconds{3600}));
  auto hidden = item("hidden", now() - seconds{3600});
  hidden.hidden = true;
  put(hidden);
  REQUIRE(ids(engagement_query()).empty());  // each fell below the floor
  items::CardCache cards(*items, 1 << 20);
  hot::HotLists lists(*hot, cards, settings);
  const auto listed = [&](const std::string& tag = {}) {
    const auto served = run_sync(lists.get(engagement_query({}, tag), hot::HotLists::Clock::now()));
    REQUIRE(served);
    CHECK(served->list->below_floor());
    std::string out;
    const std::string json = served->list->first(100);
    for (std::size_t at = json.find("\"id\":\""); at != json.npos; at = json.find("\"id\":\"", at + 1))
      out += json.substr(at + 6, json.find('"', at + 6) - at - 6) + " ";
    return out;
  };
  // An item that is not among the newest of the site.
  auto old = item("old", now() - seconds{900 * 86400});
  old.tags = {TagName::trusted("t"), TagName::trusted("archive")};
  put(old);
  auto embargoed = item("soon", now() + seconds{3600});
  embargoed.tags = {TagName::trusted("archive")};
  put(embargoed);
  for (const char* const each : {"old", "soon"}) command("ZREM", keys().partition_for(each).newest(), each);
  CHECK(listed() == "post0 post1 post2 ");
  CHECK(listed("t") == "post0 post2 old ");
  CHECK(listed("archive") == "old ");
}

TEST_CASE_METHOD(ListFixture, "a list is not stored if an item was hidden while it was being built",
                 "[lists]") {
  put(item("a", now()));
  auto built = cached();
  auto hidden = item("a", now());
  hidden.hidden = true;
  put(hidden);
  built.json = "[\"a\"]";
  hot->store_list({}, built);
  CHECK_FALSE(exists("hot:list"));
  CHECK(cached().freshness == State::kMustBuild);
}

TEST_CASE_METHOD(ListFixture, "a list is valid until an embargoed item is due, and says for how long",
                 "[lists]") {
  CHECK_FALSE(cached().expires_in);
  command("DEL", keys().list_lock({}));
  const auto date = now() + seconds{2};
  put(item("ahead", date));
  put(item("later", date + seconds{3600}));
  auto built = cached();
  REQUIRE(built.expires_in);
  CHECK(*built.expires_in > milliseconds{0});
  CHECK(*built.expires_in <= milliseconds{2000});
  built.json = "[]";
  hot->store_list({}, built);
  CHECK(cached().freshness == State::kFresh);
  wait_for(date);
  const auto after = cached();
  CHECK(after.freshness == State::kMustBuild);
  CHECK(after.json.empty());
  CHECK(*after.expires_in > milliseconds{3590'000});
  built.json = "[1]";
  hot->store_list({}, built);  // built before the date
  CHECK(cached().json.empty());
}

TEST_CASE_METHOD(ListFixture,
                 "a builder that is too late neither stores its list nor releases another's lock",
                 "[lists]") {
  auto slow = cached();
  command("DEL", keys().list_lock({}));  // its lock expired
  auto quick = cached();
  while (quick.built_ms == slow.built_ms) {
    command("DEL", keys().list_lock({}));
    quick = cached();
  }
  REQUIRE(quick.freshness == State::kMustBuild);
  slow.json = "[\"slow\"]";
  quick.json = "[\"quick\"]";
  hot->store_list({}, slow);
  CHECK(exists(keys().list_lock({})));
  hot->store_list({}, quick);
  hot->store_list({}, slow);
  CHECK(cached().json == "[\"quick\"]");
}

TEST_CASE_METHOD(ListFixture, "the lock of a killed builder expires", "[lists]") {
  cached();
  const auto ttl_ms = command("PTTL", keys().list_lock({})).integer().value_or(0);
  CHECK(ttl_ms > 0);
  CHECK(ttl_ms <= 1000);
}

TEST_CASE_METHOD(ListFixture, "a list that is too slow to build is not built by any process", "[lists]") {
  const auto built = cached();
  REQUIRE(built.freshness == State::kMustBuild);
  hot->mark_list_slow({});
  CHECK(cached().freshness == State::kTooSlow);
  const auto ttl_ms = command("PTTL", keys().list_lock({})).integer().value_or(0);
  CHECK(ttl_ms > 1000);
  CHECK(ttl_ms <= 10'000);
}

TEST_CASE_METHOD(ListFixture, "a tag has items once one was put with it", "[lists]") {
  partitions = GENERATE(1U, 16U);
  open();
  CHECK(run_sync(hot->has_items(TagName::trusted("t"))) == false);
  auto one = item("a", now());
  one.tags = {TagName::trusted("t")};
  put(one);
  CHECK(run_sync(hot->has_items(TagName::trusted("t"))) == true);
  CHECK(run_sync(hot->has_items(TagName::trusted("other"))) == false);
}

TEST_CASE_METHOD(ListFixture, "each query has its own list", "[lists]") {
  std::set<std::string> names;
  std::vector<hot::ListQuery> queries{{}, engagement_query()};
  auto current = accumulate_query();
  current.mode = hot::ViewsMode::kCurrent;
  queries.push_back(current);
  queries.push_back(accumulate_query(seconds{86400}));
  queries.push_back(accumulate_query(seconds{0}, "news"));
  queries.push_back(engagement_query(seconds{86400}, "news"));
  for (const auto& query : queries) {
    CHECK(cached(query).freshness == State::kMustBuild);
    names.insert(keys().list(query));
  }
  CHECK(names.size() == queries.size());
}

TEST_CASE_METHOD(ListFixture, "pages of a rank follow each other without gaps or repetitions", "[lists]") {
  for (int i = 0; i < 57; ++i)
    command("ZADD", keys().partition(0).rank(hot::kViewsModel), i, "a" + std::to_string(i));
  for (const std::int64_t size : {1, 7, 57, 58, 100}) {
    const auto all = scan_rank(accumulate_query(), size);
    REQUIRE(all.size() == 57);
    for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i].score == static_cast<double>(56 - i));
  }
}

TEST_CASE_METHOD(ListFixture,
                 "windows and tags match exactly what brute force matches, in small and large sets",
                 "[lists]") {
  std::mt19937 random(3);
  const auto today = now();
  struct Article {
    std::string id;
    double score;
    std::int64_t age;
    bool tagged;
  };
  for (const int n : {30, 3000}) {  // read from the smaller set, and by a rank scan
    server().flush_all();
    std::vector<Article> articles;
    redis::Pipeline fill;
    for (int i = 0; i < n; ++i) {
      Article a{"a" + std::to_string(i), std::uniform_real_distribution<>(0, 100)(random),
                std::uniform_int_distribution<std::int64_t>(10, 200000)(random), random() % 2 == 0};
      if (i % 4 == 0) a.age = -60 - a.age;  // in the future
      fill.add("ZADD", keys().partition(0).rank(hot::kEngagementModel), a.score, a.id);
      fill.add("ZADD", keys().partition(0).published(), (today - seconds{a.age}).time_since_epoch().count(),
               a.id);
      if (a.tagged) fill.add("SADD", keys().partition(0).tagged_items("t"), a.id);
      articles.push_back(a);
    }
    REQUIRE(redis.call(fill));
    std::sort(articles.begin(), articles.end(),
              [](const auto& a, const auto& b) { return a.score > b.score; });
    for (const std::int64_t window : {0, 86400}) {
      for (const bool tag : {false, true}) {
        std::vector<std::string> expected;
        for (const auto& a : articles) {
          // In the future, or on the edge.
          if (a.age < 0 || (window > 0 && std::abs(a.age - window) < 60)) continue;
          if ((window == 0 || a.age < window) && (!tag || a.tagged)) expected.push_back(a.id);
        }
        std::vector<std::string> actual;
        for (const auto& each : scan_rank(engagement_query(seconds{window}, tag ? "t" : ""), 100)) {
          const auto age = std::find_if(articles.begin(), articles.end(), [&](const auto& a) {
                             return a.id == each.item.str();
                           })->age;
          if (window == 0 || std::abs(age - window) >= 60) actual.push_back(each.item.str());
        }
        CHECK(actual == expected);
      }
    }
  }
}

TEST_CASE_METHOD(ListFixture, "a page reads a bounded number of members, however rare the tag", "[lists]") {
  redis::Pipeline fill;
  for (int i = 0; i < 5000; ++i)
    fill.add("ZADD", keys().partition(0).rank(hot::kEngagementModel), i, "a" + std::to_string(i));
  for (int i = 0; i < 1500; ++i)
    fill.add("SADD", keys().partition(0).tagged_items("t"), "a" + std::to_string(i));
  REQUIRE(redis.call(fill));
  const auto page = run_sync(hot->rank_page(engagement_query(seconds{0}, "t"), {}, 100));
  REQUIRE(page);
  CHECK(page->items.empty());
  CHECK(page->next == hot::RankCursor{2000});
  const auto small = run_sync(hot->rank_page(engagement_query(seconds{0}, "t"), {3400}, 10));
  REQUIRE(small);
  CHECK(small->items.size() == 10);
  CHECK(scan_rank(engagement_query(seconds{0}, "t")).size() == 1500);
}
