// Publishing on a real Redis, up to the recorder's job.
#include <functional>

#include "core/recorder/batch.h"
#include "tests/timeline/follow_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

// The fan-out in the last entry of the stream.
recorder::FanoutJob fanout_in(FollowFixture& site) {
  const auto entries = site.stream();
  REQUIRE(entries.size() > 0);
  const auto entry = recorder::parse_entry(entries[entries.size() - 1][1]);
  REQUIRE(entry);
  REQUIRE(std::holds_alternative<recorder::FanoutJob>(*entry));
  return std::get<recorder::FanoutJob>(*entry);
}

std::int64_t follower_score(FollowFixture& site, const std::string& reader,
                            const std::string& author = "ann") {
  return static_cast<std::int64_t>(site.score(site.keys().followers(author), reader).value_or(-1));
}

// Runs a hook before the second round trip.
class Interrupted final : public redis::Redis {
 public:
  Interrupted(redis::Redis& inner, std::function<void()> between)
      : inner_(inner), between_(std::move(between)) {}
  Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
    if (++trips_ == 2) between_();
    auto replies = co_await inner_.run(pipeline);
    co_return replies;
  }
  bool ready() const override { return true; }

 private:
  redis::Redis& inner_;
  const std::function<void()> between_;
  int trips_ = 0;
};

}  // namespace

TEST_CASE("a reader who becomes the first follower during a publish gets the items", "[publish]") {
  FollowFixture site(each_mode());
  Interrupted between(site.redis, [&] { site.follow("ann", "first"); });
  timeline::RedisFollowStore store(between, site.settings, site.keys(), [] { return "job"; });
  REQUIRE(run_sync(store.publish(AuthorId::trusted("ann"), FollowFixture::items_of({"x"}))));
  CHECK(site.timeline_ids("first").empty());
  CHECK(site.job_status("job") == "queued 0/1 0");
  CHECK(fanout_in(site).up_to_score == follower_score(site, "first"));
}

TEST_CASE("published items go to the outbox and a job to the recorder's stream", "[publish]") {
  FollowFixture site(each_mode());
  for (const char* reader : {"r1", "r2", "r3"}) site.follow("ann", reader);
  const auto job = site.publish("ann", {"x", "a", "m"});
  CHECK(site.ids_in(site.keys().outbox("ann")) == Ids{"x", "a", "m"});
  CHECK(site.job_status(job) == "queued 0/3 0");
  CHECK(site.ttl(site.keys().job(job)) > redis::kJobTtl.count() - 60);
  CHECK(site.entry_values().size() == 4);
  const auto fanout = fanout_in(site);
  CHECK(fanout.author.view() == "ann");
  CHECK(fanout.items == FollowFixture::items_of({"x", "a", "m"}));
  CHECK(fanout.job_id == job);
  CHECK(fanout.up_to_score == follower_score(site, "r3"));
  // Not yet in any timeline or pull outbox.
  for (const auto& key :
       {site.follow_timeline("r1"), site.keys().pull_outbox("ann"), site.keys().pull_authors()})
    CHECK_FALSE(site.exists(key));
}

TEST_CASE("an outbox keeps the newest items, and a repeated item keeps its position", "[publish]") {
  FollowFixture site(each_mode());
  site.settings.fanout.outbox_size = 4;
  site.reopen();
  const std::string outbox = site.keys().outbox("ann");
  site.publish("ann", {"1", "2", "3"});
  const auto before = site.members(outbox);
  for (std::size_t i = 1; i < before.size(); ++i) CHECK(before[i - 1].second < before[i].second);
  CHECK(std::abs(before.front().second / 1'000'000 - site.now().time_since_epoch().count()) < 60);
  site.publish("ann", {"4", "2", "2", "1"});
  CHECK(site.ids_in(outbox) == count(1, 4));
  CHECK(site.members(outbox)[1] == before[1]);
  site.publish("ann", {"5", "6"});
  CHECK(site.ids_in(outbox) == count(3, 6));
  site.publish("ann", count(11, 30));
  CHECK(site.ids_in(outbox) == count(27, 30));
  CHECK(site.ttl(outbox) == -1);
  CHECK(site.ids_in(site.keys().outbox("bob")).empty());
}

TEST_CASE("a job is for the followers at the time of publishing", "[publish]") {
  FollowFixture site(each_mode());
  for (const char* reader : {"r1", "r2"}) site.follow("ann", reader);
  site.publish("ann", {"x"});
  const auto upto = fanout_in(site).up_to_score;
  CHECK(upto == follower_score(site, "r2"));
  site.follow("ann", "late");
  CHECK(follower_score(site, "late") > upto);
  // Also after the newest follower left and comes back.
  site.unfollow("ann", "late");
  site.publish("ann", {"y"});
  const auto then = fanout_in(site).up_to_score;
  CHECK(then > upto);
  site.follow("ann", "late");
  CHECK(follower_score(site, "late") > then);
  CHECK(site.timeline_ids("late") == Ids{"x", "y"});
}

TEST_CASE("without followers publishing ends with the outbox", "[publish]") {
  FollowFixture site(each_mode());
  CHECK(site.job_status(site.publish("ann", {"x"})) == "done 0/0 0");
  CHECK_FALSE(site.exists(site.keys().partition(0).stream()));
  site.follow("ann");
  site.unfollow("ann");
  const auto entries_before = site.entry_values().size();
  CHECK(site.job_status(site.publish("ann", {"y"})) == "done 0/0 0");
  CHECK(site.entry_values().size() == entries_before);
  CHECK(site.ids_in(site.keys().outbox("ann")) == Ids{"x", "y"});
  CHECK_FALSE(site.exists(site.keys().pull_authors()));
}

TEST_CASE("an author with more than max_push_followers followers is pulled, and the job is done at once",
          "[publish]") {
  FollowFixture site(each_mode());
  site.settings.fanout.max_push_followers = 2;
  site.settings.fanout.outbox_size = 3;
  site.reopen();
  for (const char* reader : {"r1", "r2"}) site.follow("ann", reader);
  CHECK(site.job_status(site.publish("ann", {"pushed"})) == "queued 0/2 0");
  CHECK_FALSE(site.exists(site.keys().pull_authors()));
  site.follow("ann", "r3");
  const auto entries_before = site.entry_values().size();
  const auto job = site.publish("ann", {"p1", "p2"});
  CHECK(site.job_status(job) == "done 0/0 0");
  CHECK(site.ttl(site.keys().job(job)) > redis::kJobTtl.count() - 60);
  CHECK(site.entry_values().size() == entries_before);
  const std::string pull = site.keys().pull_outbox("ann");
  CHECK(site.ids_in(pull) == Ids{"p1", "p2"});
  CHECK(site.ids_in(site.keys().outbox("ann")) == Ids{"pushed", "p1", "p2"});
  CHECK(site.newest_pullable("ann") == site.members(pull).back().second);
  site.publish("ann", {"p1"});  // again: it keeps its position and is not pulled again
  CHECK(site.newest_pullable("ann") == site.members(pull).back().second);
  site.publish("ann", {"p3", "p4"});
  CHECK(site.ids_in(pull) == Ids{"p2", "p3", "p4"});
  CHECK(site.newest_pullable("ann") == site.members(pull).back().second);
  for (const char* reader : {"r1", "r2"}) CHECK(site.read(reader) == Ids{"p4", "p3", "p2"});
  CHECK(site.read("r3") == Ids{"p4", "p3", "p2", "pushed"});
  // Back within the limit: items are pushed, and earlier ones are still pulled.
  site.publish("ann", {"p5"});
  site.unfollow("ann", "r2");
  CHECK(site.job_status(site.publish("ann", {"pushed2"})) == "queued 0/2 0");
  CHECK(site.read("r1") == Ids{"p5", "p4", "p3", "p2"});
}

TEST_CASE("a pulled author can publish while the recorder's stream is full", "[publish]") {
  FollowFixture site(each_mode());
  site.follow("ann");
  site.fill_stream();
  site.settings.fanout.max_push_followers = 0;
  site.reopen();
  CHECK(site.job_status(site.publish("ann", {"p1"})) == "done 0/0 0");
  CHECK(site.job_status(site.publish("bob", {"b1"})) == "done 0/0 0");
  CHECK(site.read() == Ids{"p1"});
}

TEST_CASE("following, unfollowing and publishing take three round trips at most", "[publish]") {
  FollowFixture site(each_mode());
  const auto trips = [&](const auto& act) {
    site.recording.round_trips.clear();
    act();
    return site.recording.round_trips.size();
  };
  CHECK(trips([&] { site.follow("ann"); }) == 3);
  CHECK(trips([&] { site.follow("ann"); }) == 1);  // already followed
  CHECK(trips([&] { site.publish("ann", {"x"}); }) == 3);
  CHECK(trips([&] { site.followed(); }) == 1);
  CHECK(trips([&] { site.unfollow("ann"); }) == 3);
  CHECK(trips([&] { site.publish("ann", {"y"}); }) == 3);
  site.follow("ann");
  site.settings.fanout.max_push_followers = 0;
  site.reopen();
  CHECK(trips([&] { site.publish("ann", {"z"}); }) == 3);
}
