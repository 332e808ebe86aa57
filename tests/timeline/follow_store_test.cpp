// Follows on a real Redis, with and without a key prefix.
#include "tests/timeline/follow_fixture.h"

#include "core/recorder/batch.h"
#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;

TEST_CASE("a follow is stored on both sides and written to the recorder's stream", "[follows]") {
  FollowFixture site(each_mode());
  for (const char* author : {"bob", "ann"}) site.follow(author);
  site.follow("ann", "other");
  CHECK(site.followed() == Ids{"ann", "bob"});
  CHECK(site.followed("other") == Ids{"ann"});
  CHECK(site.followed("nobody").empty());
  CHECK(site.readers("ann") == Ids{"reader", "other"});  // in the order in which they followed
  CHECK(site.readers("bob") == Ids{"reader"});
  const auto entries = site.stream();
  REQUIRE(entries.size() == 3);
  const auto entry = recorder::parse_entry(entries[2][1]);
  REQUIRE(entry);
  const auto follow = std::get<readers::Follow>(std::get<recorder::ReaderChange>(*entry));
  CHECK((follow.reader.view() == "other" && follow.author.view() == "ann"));
  CHECK(std::chrono::abs(follow.at - site.now()) < seconds{60});
  CHECK_FALSE(site.exists(site.follow_timeline()));  // nothing was published
  for (const auto& key : {site.keys().followed_authors("reader"), site.keys().followers("ann")})
    CHECK(site.ttl(key) == -1);
}

TEST_CASE("following again changes nothing", "[follows]") {
  FollowFixture site(each_mode());
  site.publish("ann", {"a1", "a2"});
  site.follow("ann");
  site.command("ZREM", site.follow_timeline(), "a1");
  site.publish("ann", {"a3"});
  const auto before = site.dump_all();
  site.follow("ann");
  CHECK(site.dump_all() == before);
  CHECK(site.entry_values().size() == 2);
}

TEST_CASE("a new follower gets the author's newest items on top, in order", "[follows]") {
  FollowFixture site(each_mode());
  site.settings.timeline.backfill = 3;
  site.reopen();
  for (const char* item : {"a1", "a2", "a3", "a4", "a5"}) site.publish("ann", {item});
  site.push({"own", "gone"}, {"reader"}, "follow");
  // The item with the highest score, which is in the future, was removed.
  const std::int64_t ahead = site.members(site.follow_timeline()).back().second + 100'000'000;
  site.command("ZREM", site.follow_timeline(), "gone");
  site.command("ZADD", site.follow_timeline(), -ahead, redis::kHighestMark);
  site.command("EXPIRE", site.follow_timeline(), 1000);
  site.follow("ann");
  const auto items = site.members(site.follow_timeline());
  REQUIRE(site.timeline_ids() == Ids{"own", "a3", "a4", "a5"});
  for (std::size_t i = 1; i < items.size(); ++i)
    CHECK(items[i].second == ahead + static_cast<std::int64_t>(i));
  CHECK(site.ttl(site.follow_timeline()) <= 1000);  // only reading extends its life
  site.follow("ann", "other");
  CHECK(site.timeline_ids("other") == Ids{"a3", "a4", "a5"});
  const auto ttl = site.settings.timeline.ttl.count();
  CHECK(
      (site.ttl(site.follow_timeline("other")) > ttl - 60 && site.ttl(site.follow_timeline("other")) <= ttl));
}

TEST_CASE("without a backfill a new follower gets only new items", "[follows]") {
  FollowFixture site(each_mode());
  site.settings.timeline.backfill = 0;
  site.reopen();
  site.follow("ann", "other");
  site.publish_to_pull("ann", {"a1", "a2"});
  site.follow("ann");
  CHECK(site.followed() == Ids{"ann"});
  CHECK_FALSE(site.exists(site.follow_timeline()));
  CHECK(site.read().empty());  // not by pulling either
  site.publish_to_pull("ann", {"a3"});
  CHECK(site.read() == Ids{"a3"});
}

TEST_CASE("a backfill keeps items that are in the timeline already in their position", "[follows]") {
  FollowFixture site(each_mode());
  site.settings.timeline.max_items = 4;
  site.reopen();
  site.publish("ann", {"a1", "a2", "a3"});
  site.push({"x", "a2", "y"}, {"reader"}, "follow");
  const auto before = site.members(site.follow_timeline());
  site.follow("ann");
  CHECK(site.timeline_ids() == Ids{"a2", "y", "a1", "a3"});  // no more than fit
  CHECK(site.members(site.follow_timeline()).front() == before[1]);
}

TEST_CASE("backfilled items are not pulled again", "[follows]") {
  FollowFixture site(each_mode());
  site.follow("ann", "other");
  site.publish_to_pull("ann", {"a1", "a2"});
  site.publish("ann", {"pushed"});
  site.follow("ann");
  CHECK(site.timeline_ids() == Ids{"a1", "a2", "pushed"});
  CHECK(site.pulled_mark("ann") == site.newest_pullable("ann"));
  CHECK(site.pulled_mark("ann", "other") == 0);
  site.command("ZREM", site.follow_timeline(), "a1");
  CHECK(site.read() == Ids{"pushed", "a2"});
  site.publish_to_pull("ann", {"a3"});
  CHECK(site.read() == Ids{"a3", "pushed", "a2"});
  // From an author who was never pulled, everything is pulled.
  site.follow("bob");
  CHECK(site.pulled_mark("bob") == 0);
  site.publish_to_pull("bob", {"b1"});
  CHECK(site.read().front() == "b1");
}

TEST_CASE("a reader cannot follow more than waterfall.max_follows authors", "[follows]") {
  FollowFixture site(each_mode());
  site.settings.timeline.max_follows = 2;
  site.reopen();
  for (const char* author : {"ann", "bob"}) site.follow(author);
  site.publish("carl", {"c1"});
  const auto before = site.dump_all();
  const auto refused = site.try_follow("carl");
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).code == ErrorCode::kConflict);
  CHECK(error_of(refused).reason == "too_many_follows");
  CHECK(site.try_follow("bob"));
  CHECK(site.dump_all() == before);
  site.unfollow("ann");
  site.follow("carl");
  CHECK(site.followed() == Ids{"bob", "carl"});
}

TEST_CASE("while the recorder's stream is full nothing is followed, unfollowed or published to followers",
          "[follows]") {
  FollowFixture site(each_mode());
  site.follow("ann");
  site.publish("bob", {"b1"});
  site.fill_stream();
  const auto before = site.dump_all();
  std::vector<Error> errors;
  if (const auto done = site.try_follow("bob"); !done) errors.push_back(done.error());
  if (const auto done = site.try_unfollow("ann"); !done) errors.push_back(done.error());
  if (const auto done = site.try_publish("ann", {"a1"}); !done) errors.push_back(done.error());
  REQUIRE(errors.size() == 3);
  for (const Error& each : errors) {
    CHECK(each.code == ErrorCode::kUnavailable);
    CHECK(each.reason == "stream_full");
  }
  CHECK(site.try_follow("ann"));  // already followed
  CHECK(site.dump_all() == before);
}

TEST_CASE("unfollowing removes what the outboxes hold from the timeline, and nothing else", "[follows]") {
  FollowFixture site(each_mode());
  site.settings.fanout.outbox_size = 2;
  site.reopen();
  for (const char* author : {"ann", "bob"}) site.follow(author);
  site.follow("ann", "other");
  site.publish_to_pull("ann", {"p1", "p2"});
  site.publish("ann", {"a1", "a2"});  // the outbox has only these, the pull outbox the others
  site.publish("bob", {"b1"});
  for (const char* reader : {"reader", "other"}) {
    site.read(reader);
    site.push({"own", "a1", "b1", "a2"}, {reader}, "follow");
  }
  site.push({"a1"});  // another channel
  CHECK(site.timeline_ids() == Ids{"p1", "p2", "own", "a1", "b1", "a2"});
  site.unfollow("ann");
  CHECK(site.timeline_ids() == Ids{"own", "b1"});
  CHECK(site.followed() == Ids{"bob"});
  CHECK(site.readers("ann") == Ids{"other"});
  CHECK(site.readers("bob") == Ids{"reader"});
  CHECK(site.timeline_ids("other").size() == 6);
  CHECK(site.ids_in(site.timeline()) == Ids{"a1"});
  CHECK(site.entry_values().back() == Ids{"unfollow", "reader", "ann"});
  const auto entries = site.stream();
  const auto entry = recorder::parse_entry(entries[entries.size() - 1][1]);
  REQUIRE(entry);
  const auto left = std::get<recorder::FollowRemoval>(std::get<recorder::ReaderChange>(*entry));
  CHECK((left.reader.view() == "reader" && left.author.view() == "ann"));
  // Following again starts over: last among the followers, and with a backfill.
  site.follow("ann");
  CHECK(site.readers("ann") == Ids{"other", "reader"});
  CHECK(site.timeline_ids().size() == 4);
  CHECK(site.read() == Ids{"a2", "a1", "b1", "own"});
}

TEST_CASE("a withdrawal leaves the items of a reader who has followed again", "[follows]") {
  FollowFixture site(each_mode());
  site.publish("ann", {"a1", "a2"});
  const auto withdraw = [&] {
    redis::Pipeline pipeline;
    timeline::append_withdrawal(pipeline, site.keys(), site.settings.timeline, "reader", "ann", {"a1", "a2"});
    const auto replies = run_sync(site.recording.run(pipeline));
    REQUIRE(replies);
    return replies->front().integer().value_or(-1);
  };
  site.push({"own", "a1", "a2"}, {"reader"}, "follow");  // by a fan-out; the reader unfollowed just before
  CHECK(withdraw() == 2);
  CHECK(site.timeline_ids() == Ids{"own"});
  site.follow("ann");
  CHECK(withdraw() == 0);
  CHECK(site.timeline_ids() == Ids{"own", "a1", "a2"});
}

TEST_CASE("unfollowing finds all items in an outbox of thousands", "[follows]") {
  FollowFixture site(each_mode());
  site.settings.fanout.outbox_size = 5000;
  site.settings.timeline.max_items = 5000;
  site.reopen();
  site.follow("ann");
  for (int from = 0; from < 2500; from += 100) site.publish("ann", count(from, from + 99));
  site.push(count(-1, 2500), {"reader"}, "follow");
  site.unfollow("ann");
  CHECK(site.timeline_ids() == Ids{"-1", "2500"});
}

TEST_CASE("unfollowing an author who is not followed succeeds and is written to the stream", "[follows]") {
  FollowFixture site(each_mode());
  site.follow("bob");
  const auto before = site.dump_all();
  site.unfollow("ann");
  site.unfollow("bob", "other");
  CHECK(site.entry_values().size() == 3);
  auto after = site.dump_all();
  after[site.keys().partition(0).stream()] = before.at(site.keys().partition(0).stream());
  CHECK(after == before);
}

TEST_CASE("a reader's authors are sorted bytewise", "[follows]") {
  FollowFixture site(each_mode());
  for (const char* author : {"é", "b", "10", "B", "9", "a"}) site.follow(author);
  site.follow("b", "other");
  site.publish_to_pull("b", {"b1"});
  site.read();  // raises one of the marks
  CHECK(site.followed() == Ids{"10", "9", "B", "a", "b", "é"});
}

TEST_CASE("lists and outboxes of a wrong type are an error, and nothing is followed", "[follows]") {
  FollowFixture site(each_mode());
  site.command("SET", site.keys().outbox("ann"), "text");
  CHECK(error_of(site.try_follow("ann")).code == ErrorCode::kInternal);
  CHECK(site.followed().empty());
  CHECK(error_of(site.try_publish("ann", {"a1"})).code == ErrorCode::kInternal);
  site.command("SET", site.keys().followed_authors("odd"), "text");
  CHECK_FALSE(site.try_follow("bob", "odd"));
  CHECK_FALSE(run_sync(site.follows->followed_authors(ReaderId::trusted("odd"))));
  CHECK(site.readers("bob").empty());
}
