// Hidden, deleted, re-dated and re-tagged items.
#include <cmath>
#include <functional>
#include <utility>

#include "core/hot/threshold_top_k.h"
#include "tests/support/error_of.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

struct ItemFixture : Fixture {
  std::int64_t epoch() { return redis::to_int(text(command("GET", keys().epoch()))); }
  std::vector<std::string> current_ids() {
    std::vector<std::string> out;
    const auto buckets = run_sync(hot->buckets());
    REQUIRE(buckets);
    for (const auto& bucket : *buckets) {
      const auto heads = run_sync(hot->bucket_heads({bucket.name}, 0, 100));
      REQUIRE(heads);
      for (const auto& each : *heads) out.push_back(each.item.str());
    }
    return out;
  }
  std::vector<std::string> newest_ids() {
    const auto reply = command("ZREVRANGE", keys().partition(0).newest(), 0, -1);
    std::vector<std::string> out;
    for (std::size_t i = 0; i < reply.size(); ++i) out.emplace_back(redis::string_at(reply, i));
    return out;
  }
  bool listed_anywhere(const std::string& id) {
    for (const auto& list :
         {ids(engagement_query()), ids(accumulate_query()), current_ids(),
          ids(engagement_query(seconds{86400})), ids(accumulate_query(seconds{0}, "news"))}) {
      if (std::find(list.begin(), list.end(), id) != list.end()) return true;
    }
    return false;
  }
  void read_and_view(const std::string& id, const std::string& who) {
    track(track_event(id, who, 1000));
    view(view_event(id, who));
  }
  items::Item news(const std::string& id, UnixSeconds published, bool hidden = false) const {
    auto out = item(id, published);
    out.tags = {TagName::trusted("news")};
    out.hidden = hidden;
    return out;
  }
};

struct RankedItemFixture : ItemFixture {
  RankedItemFixture() { open(); }
};

}  // namespace

TEST_CASE_METHOD(ItemFixture, "an item is returned byte for byte", "[items]") {
  auto one = item("a", now());
  one.text = std::string("body\r\n\0with NUL", 15);
  one.author = "作者";
  one.url = "https://example.org/?a=1&b=2";
  one.tags = {TagName::trusted("swift"), TagName::trusted("软件")};
  one.update_time = now() + seconds{60};
  one.section = "Spørt & more";
  one.language = "zh-Hant";
  one.story = items::StoryId::trusted("story/1");
  one.text_format = items::TextFormat::kMarkdown;
  one.expires_at = now() + seconds{3600};
  one.weight = 0.1;
  put(one);
  const auto got = run_sync(items->get(one.id));
  REQUIRE(got);
  CHECK(*got == one);
  const auto cards = run_sync(items->cards({ItemId::trusted("unknown"), one.id}));
  REQUIRE(cards);
  CHECK_FALSE((*cards)[0].known);
  CHECK((*cards)[1].title == one.title);
  CHECK((*cards)[1].tags == std::vector<std::string>{"swift", "软件"});
}

TEST_CASE_METHOD(ItemFixture, "an item that was never PUT, or was removed, is unknown", "[items]") {
  CHECK(error_of(run_sync(items->get(ItemId::trusted("a")))).reason == "unknown_item");
  put(item("a", now()));
  remove("a");
  CHECK(error_of(run_sync(items->get(ItemId::trusted("a")))).reason == "unknown_item");
  CHECK_FALSE(run_sync(items->cards({ItemId::trusted("a")}))->front().known);
  CHECK(ttl(keys().item("a")) > 0);
  put(item("a", now()));
  CHECK(run_sync(items->get(ItemId::trusted("a"))));
  CHECK(ttl(keys().item("a")) == -1);
}

TEST_CASE_METHOD(RankedItemFixture, "a hidden item leaves every list at once and is still counted",
                 "[items]") {
  auto& f = *this;
  f.put(f.news("a", f.now() - seconds{3600}));
  f.read_and_view("a", "v1");
  f.read_and_view("b", "v1");
  REQUIRE(f.listed_anywhere("a"));
  f.put(f.news("a", f.now() - seconds{3600}, true));
  CHECK_FALSE(f.listed_anywhere("a"));
  CHECK_FALSE(f.score(f.keys().partition(0).published(), "a"));
  CHECK(f.listed_anywhere("b"));
  f.read_and_view("a", "v2");
  CHECK_FALSE(f.listed_anywhere("a"));
  CHECK(f.stats("a").pv == 2);
  CHECK(f.stats("a").views_total == 8);  // a page view and a view each, by the same visitor of the day
}

TEST_CASE_METHOD(RankedItemFixture,
                 "an item that is unhidden comes back with everything counted while it was hidden",
                 "[items]") {
  auto& f = *this;
  const auto date = f.now() - seconds{3600};
  f.put(f.news("a", date));
  f.read_and_view("a", "v1");
  f.put(f.news("a", date, true));
  f.read_and_view("a", "v2");
  f.put(f.news("a", date));
  // The same events without hiding give the same scores.
  f.put(f.news("b", date));
  f.read_and_view("b", "v1");
  f.read_and_view("b", "v2");
  CHECK(f.score(f.keys().partition(0).rank(hot::kEngagementModel), "a").value_or(0) ==
        Approx(f.score(f.keys().partition(0).rank(hot::kEngagementModel), "b").value_or(1)).epsilon(1e-12));
  CHECK(f.score(f.keys().partition(0).rank(hot::kViewsModel), "a").value_or(0) ==
        Approx(f.score(f.keys().partition(0).rank(hot::kViewsModel), "b").value_or(1)).epsilon(1e-3));
  const auto heads = run_sync(f.hot->bucket_heads({{date.time_since_epoch().count() / 3600}}, 0, 10));
  REQUIRE(heads);
  REQUIRE(heads->size() == 2);
  CHECK((*heads)[0].total == (*heads)[1].total);
  CHECK(f.ids(accumulate_query(seconds{0}, "news")).size() == 2);
}

TEST_CASE_METHOD(RankedItemFixture,
                 "a deleted item leaves every list, and a late report does not bring it back", "[items]") {
  auto& f = *this;
  f.put(f.news("a", f.now()));
  f.read_and_view("a", "v1");
  f.remove("a");
  CHECK_FALSE(f.listed_anywhere("a"));
  f.read_and_view("a", "v2");
  CHECK_FALSE(f.listed_anywhere("a"));
  CHECK(f.command("SCARD", f.keys().partition(0).tagged_items("news")).integer().value_or(9) == 0);
}

TEST_CASE_METHOD(RankedItemFixture, "an hour whose last item is deleted, hidden or re-dated leaves the index",
                 "[items]") {
  auto& f = *this;
  const auto hours = [&] {
    return static_cast<int>(
        f.command("ZCARD", f.keys().partition(0).current_bucket_index()).integer().value_or(-1));
  };
  const auto date = f.now() - seconds{40 * 86400};
  for (const char* id : {"a", "b"}) {
    f.put(f.news(id, date));
    f.read_and_view(id, "v");
  }
  REQUIRE(hours() == 1);
  f.remove("a");
  CHECK(hours() == 1);
  f.put(f.news("b", date - seconds{7200}));
  CHECK(hours() == 1);
  CHECK(f.current_ids() == std::vector<std::string>{"b"});
  f.put(f.news("b", date, true));
  CHECK(hours() == 0);
  f.put(f.news("b", date));
  CHECK(hours() == 1);
  f.remove("b");
  CHECK(hours() == 0);
}

TEST_CASE_METHOD(RankedItemFixture, "an unknown item with counters can be removed from every list",
                 "[items]") {
  auto& f = *this;
  f.read_and_view("a", "v1");
  f.remove("a");
  CHECK_FALSE(f.listed_anywhere("a"));
}

TEST_CASE_METHOD(RankedItemFixture,
                 "a changed publish time updates the ranks and moves the item to another bucket", "[items]") {
  auto& f = *this;
  f.read_and_view("a", "v1");
  const auto fresh = *f.score(f.keys().partition(0).rank(hot::kEngagementModel), "a");
  const auto moved = f.now() - seconds{3 * 86400};
  f.put(f.news("a", moved));
  CHECK(*f.score(f.keys().partition(0).rank(hot::kEngagementModel), "a") == Approx(fresh - 3).epsilon(1e-7));
  const auto heads = run_sync(f.hot->bucket_heads({{moved.time_since_epoch().count() / 3600}}, 0, 10));
  REQUIRE(heads);
  REQUIRE(heads->size() == 1);
  CHECK(heads->front().published == moved);
  CHECK(f.current_ids().size() == 1);
  CHECK(f.ids(engagement_query(seconds{86400})).empty());
  CHECK(f.ids(engagement_query(seconds{7 * 86400})).size() == 1);
}

TEST_CASE_METHOD(RankedItemFixture,
                 "the newest items are sorted by date, at most a thousand of the visible ones", "[items]") {
  const auto newest = [&] { return this->newest_ids(); };
  this->put(this->news("old", this->now() - seconds{500}));
  this->put(this->news("young", this->now() - seconds{5}));
  CHECK(newest() == std::vector<std::string>{"young", "old"});
  this->put(this->news("young", this->now() - seconds{5}, true));
  CHECK(newest() == std::vector<std::string>{"old"});
  REQUIRE(run_sync(this->items->remove(ItemId::trusted("old"))));
  CHECK(newest().empty());

  this->put(this->news("later", this->now() + seconds{5000}));
  const auto date = this->now() + seconds{9000};
  this->put(this->news("later", date));
  CHECK(this->score(this->keys().partition(0).newest(), "later") ==
        static_cast<double>(date.time_since_epoch().count()));

  std::vector<items::Item> many;
  for (int i = 0; i < 1005; ++i)
    many.push_back(this->news("n" + std::to_string(i), this->now() - seconds{i + 60}));
  REQUIRE(run_sync(this->items->put_many(many)));
  CHECK(newest().size() == 1001);  // plus the embargoed item
  CHECK(newest().front() == "later");
  CHECK(newest().back() == "n999");
}

TEST_CASE_METHOD(RankedItemFixture, "an item leaves the tags it lost and joins the new ones", "[items]") {
  auto& f = *this;
  f.put(f.news("a", f.now()));
  f.read_and_view("a", "v1");
  CHECK(f.ids(engagement_query(seconds{0}, "news")).size() == 1);
  auto changed = f.item("a", f.now());
  changed.tags = {TagName::trusted("sport"), TagName::trusted("local")};
  f.put(changed);
  CHECK(f.ids(engagement_query(seconds{0}, "news")).empty());
  CHECK(f.ids(engagement_query(seconds{0}, "sport")).size() == 1);
  CHECK(f.ids(accumulate_query(seconds{0}, "local")).size() == 1);
}

TEST_CASE_METHOD(RankedItemFixture, "a tag's list has the items with any spelling of it, which they keep",
                 "[items]") {
  auto& f = *this;
  const auto put_tagged = [&](const std::string& id, const std::string& tag) {
    auto one = f.item(id, f.now());
    one.tags = {TagName::trusted(tag), TagName::trusted("lang:en")};
    f.put(one);
    f.read_and_view(id, "v");
    const auto stored = run_sync(f.items->get(one.id));
    REQUIRE(stored);
    CHECK(stored->tags == one.tags);
    const auto card = run_sync(f.items->cards({one.id}));
    REQUIRE(card);
    CHECK(card->front().tags == std::vector<std::string>{tag, "lang:en"});
  };
  put_tagged("a", "Machine Learning");
  put_tagged("b", "machine learning");
  put_tagged("c", "ＭＡＣＨＩＮＥ learning");
  CHECK(f.ids(engagement_query(seconds{0}, "machine learning")).size() == 3);
  CHECK(f.ids(accumulate_query(seconds{0}, "lang:en")).size() == 3);
  put_tagged("a", "MACHINE LEARNING");  // the same tag
  CHECK(f.ids(engagement_query(seconds{0}, "machine learning")).size() == 3);
  put_tagged("a", "Go");
  CHECK(f.ids(engagement_query(seconds{0}, "machine learning")).size() == 2);
  CHECK(f.ids(engagement_query(seconds{0}, "go")).size() == 1);
}

TEST_CASE_METHOD(ItemFixture, "an author's id is kept with the item and shown on its card", "[items]") {
  auto one = item("a", now());
  one.author = "Ann Lee";
  one.author_id = "user:1";
  put(one);
  const auto stored = run_sync(items->get(one.id));
  REQUIRE(stored);
  CHECK(stored->author_id == "user:1");
  const auto card = run_sync(items->cards({one.id}));
  REQUIRE(card);
  CHECK(card->front().author_id == "user:1");
  CHECK(card->front().json.find(R"("author":"Ann Lee","author_id":"user:1")") != std::string::npos);
}

TEST_CASE_METHOD(RankedItemFixture, "a view ranked after its item was hidden or re-dated changes nothing",
                 "[items]") {
  auto& f = *this;
  const auto date = f.now() - seconds{3600};
  f.put(f.news("a", date));
  f.put(f.news("b", date));
  f.read_and_view("b", "v0");
  f.write_queue.hold = true;
  f.read_and_view("a", "v");
  f.read_and_view("b", "v");
  f.put(f.news("a", date, true));
  f.put(f.news("b", date - seconds{86400}));
  f.write_queue.flush();
  CHECK(*f.score(f.keys().partition(0).rank(hot::kEngagementModel), "b") == Approx(*f.rank_score("b")));
  CHECK(*f.score(f.keys().partition(0).published(), "b") == static_cast<double>(unix_s(date) - 86400));
  CHECK_FALSE(f.score(f.keys().partition(0).current_bucket(date.time_since_epoch().count() / 3600), "b"));
  CHECK_FALSE(f.listed_anywhere("a"));
  CHECK(f.current_ids() == std::vector<std::string>{"b"});
  CHECK(run_sync(f.hot->bucket_heads({{date.time_since_epoch().count() / 3600}}, 0, 10))->empty());
}

TEST_CASE_METHOD(RankedItemFixture, "the epoch changes only when a list may be outdated", "[items]") {
  auto& f = *this;
  f.put(f.news("a", f.now()));
  CHECK(f.epoch() == 0);  // in no list yet
  f.read_and_view("a", "v");
  auto same = *run_sync(f.items->get(ItemId::trusted("a")));
  f.put(same);
  CHECK(f.epoch() == 0);
  same.title = "Another title";
  f.put(same);
  CHECK(f.epoch() == 1);
  same.hidden = true;
  f.put(same);
  CHECK(f.epoch() == 2);
  f.put(same);
  CHECK(f.epoch() == 2);
  same.hidden = false;
  f.put(same);
  CHECK(f.epoch() == 3);
  f.remove("a");
  CHECK(f.epoch() == 4);
}

namespace {

// Calls `between` once, between the first round trip (read the item) and the second (write it).
class InterruptedRedis final : public redis::Redis {
 public:
  InterruptedRedis(redis::Redis& inner, std::function<void()> between)
      : inner_(inner), between_(std::move(between)) {}
  Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
    auto replies = co_await inner_.run(pipeline);
    if (between_) std::exchange(between_, nullptr)();
    co_return replies;
  }
  bool ready() const override { return true; }

 private:
  redis::Redis& inner_;
  std::function<void()> between_;
};

}  // namespace

TEST_CASE_METHOD(ItemFixture, "an item that another writer changed in between is read again and loses no tag",
                 "[items]") {
  auto second = item("a", now() - seconds{86400});
  second.tags = {TagName::trusted("sport")};
  InterruptedRedis slow(redis, [&] { put(news("a", now())); });
  items::RedisItemStore late(slow, settings, keys());
  REQUIRE(run_sync(late.put(second)));
  CHECK(command("SCARD", keys().partition(0).tagged_items("news")).integer().value_or(9) == 0);
  CHECK(command("SCARD", keys().partition(0).tagged_items("sport")).integer().value_or(9) == 1);
  CHECK(run_sync(items->get(ItemId::trusted("a")))->published_at == second.published_at);
  // The last entry is the final item; an attempt that found it changed left one before.
  CHECK(command("XLEN", keys().partition(0).stream()).integer().value_or(0) == 3);
  const auto last = command("XREVRANGE", keys().partition(0).stream(), "+", "-", "COUNT", 1);
  std::map<std::string, std::string> fields;
  for (std::size_t i = 0; i + 1 < last[0][1].size(); i += 2)
    fields[std::string(last[0][1][i].text())] = last[0][1][i + 1].text();
  CHECK(fields["published_at"] == std::to_string(unix_s(second.published_at)));
}

TEST_CASE_METHOD(ItemFixture, "if an item occurs several times in one call the last is stored", "[items]") {
  std::vector<items::Item> many;
  for (int i = 0; i < 20; ++i) {
    many.push_back(item("a", now() - seconds{i}));
    many.back().tags = {TagName::trusted("tag" + std::to_string(i))};
  }
  REQUIRE(run_sync(items->put_many(many)));
  CHECK(run_sync(items->get(ItemId::trusted("a")))->tags == many.back().tags);
  CHECK(command("SCARD", keys().partition(0).tagged_items("tag19")).integer().value_or(9) == 1);
  CHECK(command("SCARD", keys().partition(0).tagged_items("tag18")).integer().value_or(9) == 0);
}

TEST_CASE_METHOD(ItemFixture, "more than a thousand items can be put in one call", "[items]") {
  std::vector<items::Item> many;
  for (int i = 0; i < 1203; ++i) many.push_back(news("n" + std::to_string(i), now()));
  REQUIRE(run_sync(items->put_many(many)));
  CHECK(command("SCARD", keys().partition(0).tagged_items("news")).integer().value_or(0) == 1203);
  CHECK(run_sync(items->get(ItemId::trusted("n1202"))));
}

// --- the recorder's stream

namespace {

using Entry = std::map<std::string, std::string>;

struct StreamFixture : RankedItemFixture {
  std::vector<Entry> entries() {
    const auto reply = this->command("XRANGE", this->keys().partition(0).stream(), "-", "+");
    std::vector<Entry> out;
    for (std::size_t i = 0; i < reply.size(); ++i) {
      const auto entry = reply[i];
      const auto fields = entry[1];
      Entry one;
      for (std::size_t k = 0; k + 1 < fields.size(); k += 2)
        one.emplace(redis::string_at(fields, k), redis::string_at(fields, k + 1));
      out.push_back(std::move(one));
    }
    return out;
  }
};

}  // namespace

TEST_CASE_METHOD(StreamFixture, "every write of an item is in the stream with all fields of the item",
                 "[items][stream]") {
  auto one = news("a", now());
  one.text = std::string("body\r\n\0with NUL", 15);
  one.author = "作者";
  one.url = "https://example.org/";
  one.update_time = now() + seconds{60};
  one.section = "Sport";
  one.text_format = items::TextFormat::kHtml;
  one.weight = 2.5;
  put(one);
  put(news("a", now(), true));
  remove("a");
  const auto all = entries();
  REQUIRE(all.size() == 3);
  const auto date = std::to_string(one.published_at.time_since_epoch().count());
  CHECK(all[0] == Entry{{"op", "put"},
                        {"id", "a"},
                        {"title", one.title},
                        {"text", one.text},
                        {"author", one.author},
                        {"url", one.url},
                        {"tags", "news"},
                        {"hidden", "0"},
                        {"published_at", date},
                        {"update_time", std::to_string(one.update_time->time_since_epoch().count())},
                        {"section", "Sport"},
                        {"text_format", "html"},
                        {"weight", "2.5"}});
  CHECK(all[1].at("hidden") == "1");
  for (const char* absent : {"text", "section", "language", "story", "text_format", "expires_at", "weight"})
    CHECK(all[1].count(absent) == 0);
  CHECK(all[2] == Entry{{"op", "delete"}, {"id", "a"}});
}

TEST_CASE_METHOD(StreamFixture, "when the stream is full a write is rejected and changes nothing",
                 "[items][stream]") {
  auto& f = *this;
  f.put(f.news("a", f.now()));
  f.settings.recorder.stream_max_len = 2;
  f.open();
  f.put(f.news("b", f.now()));
  const auto before = f.all_keys();
  const auto old = *run_sync(f.items->get(ItemId::trusted("a")));
  auto changed = old;
  changed.title = "Another";
  changed.tags = {TagName::trusted("sport")};
  for (const auto& outcome :
       {run_sync(f.items->put(changed)), run_sync(f.items->put_many({changed, f.news("c", f.now())})),
        run_sync(f.items->remove(ItemId::trusted("a")))}) {
    REQUIRE_FALSE(outcome);
    CHECK(error_of(outcome).code == ErrorCode::kUnavailable);
    CHECK(error_of(outcome).reason == "stream_full");
  }
  CHECK(f.all_keys() == before);
  CHECK(run_sync(f.items->get(ItemId::trusted("a")))->title == old.title);
  CHECK(f.entries().size() == 2);
  // The recorder has caught up.
  f.command("XTRIM", f.keys().partition(0).stream(), "MAXLEN", 1);
  f.put(changed);
  CHECK(run_sync(f.items->get(ItemId::trusted("a")))->title == "Another");
}

TEST_CASE_METHOD(StreamFixture, "items restored from the recorder's database are written without the stream",
                 "[items][stream]") {
  auto& f = *this;
  f.settings.recorder.stream_max_len = 1;
  f.command("XADD", f.keys().partition(0).stream(), "*", "op", "delete", "id", "x");
  items::RedisItemStore silent(f.redis, f.settings, f.keys(), items::RedisItemStore::StreamPolicy::kSkip);
  REQUIRE(run_sync(silent.put_many({f.news("a", f.now()), f.news("b", f.now(), true)})));
  REQUIRE(run_sync(silent.remove(ItemId::trusted("b"))));
  CHECK(f.entries().size() == 1);
  CHECK(run_sync(f.items->get(ItemId::trusted("a"))));
}

TEST_CASE_METHOD(RankedItemFixture, "an item is in no list before its date, and in every list from then on",
                 "[items]") {
  auto& f = *this;
  const auto lists = [&](const std::string& id) {
    int in = 0;
    for (const auto& list :
         {f.ids(engagement_query()), f.ids(accumulate_query()), f.ids(engagement_query(seconds{86400})),
          f.ids(accumulate_query(seconds{86400})), f.ids(accumulate_query(seconds{0}, "news"))})
      in += std::find(list.begin(), list.end(), id) != list.end() ? 1 : 0;
    return in;
  };
  f.put(f.news("shown", f.now() - seconds{60}));
  f.read_and_view("shown", "v");
  const auto date = f.now() + seconds{2};
  f.put(f.news("a", date));
  f.read_and_view("a", "v");
  f.put(f.news("a", date));  // again, now with counters
  CHECK(lists("a") == 0);
  CHECK(lists("shown") == 5);
  CHECK(run_sync(f.items->cards({ItemId::trusted("a")}))->front().is_hidden_at(f.now()));
  f.wait_for(date);
  CHECK(lists("a") == 5);
  CHECK_FALSE(run_sync(f.items->cards({ItemId::trusted("a")}))->front().is_hidden_at(f.now()));
}

TEST_CASE_METHOD(ItemFixture,
                 "the epoch changes when an item is dated into the future, and when it is dated back",
                 "[items]") {
  put(item("a", now() - seconds{60}));
  const auto before = epoch();
  put(item("a", now() + seconds{3600}));
  CHECK(epoch() == before + 1);
  put(item("a", now() + seconds{7200}));
  CHECK(epoch() == before + 1);
  put(item("a", now()));
  CHECK(epoch() == before + 2);
  CHECK_FALSE(score(keys().partition(0).hidden(), "a"));
}

TEST_CASE_METHOD(ItemFixture, "embargoed items do not displace the newest", "[items]") {
  for (int i = 0; i < 3; ++i) put(item("now" + std::to_string(i), now()));
  redis::Pipeline many;
  for (int i = 0; i < 1200; ++i)
    many.add("ZADD", keys().partition(0).newest(), (now() + seconds{3600}).time_since_epoch().count(),
             "ahead" + std::to_string(i));
  REQUIRE(redis.call(many));
  put(item("last", now()));
  CHECK(score(keys().partition(0).newest(), "now0"));
  CHECK(newest_ids().size() == 1204);
}
