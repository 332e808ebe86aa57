// With hash tags following and publishing are several round trips. Whoever dies between two of them got no
// answer, and asks again; and others' requests may come between any two.
#include <random>

#include "core/recorder/batch.h"
#include "tests/support/stepped_redis.h"
#include "tests/timeline/follow_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

// Carries out so many commands and is gone then, with the replies to the last of them.
class DyingRedis final : public redis::Redis {
 public:
  DyingRedis(redis::SyncRedis& inner, std::size_t commands) : inner_(inner), left_(commands) {}
  Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
    redis::Pipeline carried_out;
    const bool answers = left_ > pipeline.size();
    for (std::size_t i = 0; i < pipeline.size() && left_ > 0; ++i, --left_) carried_out.raw(pipeline.at(i));
    if (carried_out.empty()) co_return fail(ErrorCode::kUnavailable, "redis_away");
    auto replies = inner_.call(carried_out);
    if (!answers) co_return fail(ErrorCode::kUnknownOutcome, "redis_lost");
    co_return replies;
  }
  bool ready() const override { return true; }

 private:
  redis::SyncRedis& inner_;
  std::size_t left_;
};

// Does it with a Redis that dies after each number of commands, and once more with one that lives; `check`
// looks at the outcome. Returns how many commands it takes.
std::size_t die_everywhere(const std::function<void(Followers&)>& prepare,
                           const std::function<bool(Followers&, timeline::RedisFollowStore&)>& act,
                           const std::function<void(Followers&)>& check) {
  for (std::size_t commands = 0; commands < 100; ++commands) {
    CAPTURE(commands);
    Followers site(Mode{true, ""});
    prepare(site);
    DyingRedis dying(site.redis, commands);
    timeline::RedisFollowStore dies(dying, site.settings, site.keys(), [] { return std::string("dies"); });
    const bool lived = act(site, dies);
    REQUIRE(act(site, *site.follows));
    check(site);
    if (lived) return commands - 1;  // the last one was not used
  }
  FAIL("it never ends");
  return 0;
}

const ReaderId kReader = ReaderId::trusted("reader");
const AuthorId kAnn = AuthorId::trusted("ann");

// --- requests that go on in turns

Task<void> follow(timeline::RedisFollowStore& store) {
  const auto done = co_await store.follow(kReader, kAnn);
  REQUIRE(done);
}
Task<void> publish(timeline::RedisFollowStore& store, std::vector<ItemId> items) {
  const auto job = co_await store.publish(kAnn, items);
  REQUIRE(job);
}

void follow_while_published(Followers& site, unsigned seed) {
  std::mt19937 random(seed);
  Turns turns(random);
  const redis::Pipeline nothing;
  SteppedRedis stepped(site.redis, turns, nothing, [](const redis::Reply*) {});
  timeline::RedisFollowStore store(stepped, site.settings, site.keys(), [] { return std::string("job"); });
  int running = 2;
  std::exception_ptr failed;
  const auto ended = [&](std::exception_ptr error) {
    --running;
    if (error) failed = error;
  };
  spawn(follow(store), ended);
  spawn(publish(store, Followers::items_of({"x", "y"})), ended);
  while (turns.step()) {
  }
  if (failed) std::rethrow_exception(failed);
  REQUIRE(running == 0);
}

// Up to which follower jobs push what they were given; 0: there is no job.
std::int64_t pushed_up_to(Followers& site) {
  std::int64_t out = 0;
  const auto entries = site.stream();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto entry = recorder::parse_entry(entries[i][1]);
    REQUIRE(entry);
    if (const auto* fanout = std::get_if<recorder::Fanout>(&*entry)) out = std::max(out, fanout->upto);
  }
  return out;
}

constexpr unsigned kOrders = 150;  // many times more than there are

}  // namespace

TEST_CASE("following is mended by following again, wherever it was cut off", "[follows]") {
  const auto commands = die_everywhere(
      [](Followers& site) {
        site.follow("ann", "other");
        site.publish_to_pull("ann", {"a1", "a2"});
        site.push({"own"}, {"reader"}, "follow");
      },
      [](Followers&, timeline::RedisFollowStore& store) {
        return wait(store.follow(kReader, kAnn)).has_value();
      },
      [](Followers& site) {
        CHECK(site.followed() == Ids{"ann"});
        CHECK(site.readers("ann") == Ids{"other", "reader"});
        CHECK(site.shown() == Ids{"own", "a1", "a2"});
        CHECK(site.has_up_to("ann") == site.pulled_up_to("ann"));
        CHECK(site.told().size() >= 2);
        CHECK(site.told()[1][0] == "follow");
        CHECK(site.read() == Ids{"a2", "a1", "own"});
      });
  CHECK(commands == 11);
}

TEST_CASE("unfollowing is mended by unfollowing again, wherever it was cut off", "[follows]") {
  const auto commands = die_everywhere(
      [](Followers& site) {
        site.follow("ann", "other");
        site.follow("ann");
        site.publish_to_pull("ann", {"a1", "a2"});
        site.read();
        site.publish("ann", {"a3"});
        site.push({"own", "a3"}, {"reader"}, "follow");
        REQUIRE(site.shown() == Ids{"a1", "a2", "own", "a3"});
      },
      [](Followers&, timeline::RedisFollowStore& store) {
        return wait(store.unfollow(kReader, kAnn)).has_value();
      },
      [](Followers& site) {
        CHECK(site.followed().empty());
        CHECK(site.readers("ann") == Ids{"other"});
        CHECK(site.shown() == Ids{"own"});
        CHECK(site.told().back() == Ids{"unfollow", "reader", "ann"});
        CHECK(site.read() == Ids{"own"});
      });
  CHECK(commands == 8);
}

TEST_CASE("publishing is mended by publishing again, wherever it was cut off", "[publish]") {
  const bool pulled = GENERATE(false, true);
  CAPTURE(pulled);
  const auto commands = die_everywhere(
      [&](Followers& site) {
        site.settings.fanout.max_push = pulled ? 0 : 100;
        site.renew();
        site.follow("ann");
      },
      [](Followers&, timeline::RedisFollowStore& store) {
        return wait(store.publish(kAnn, Followers::items_of({"x", "y"}))).has_value();
      },
      [&](Followers& site) {
        CHECK(site.in(site.keys().outbox("ann")) == Ids{"x", "y"});
        const std::string job = "job" + std::to_string(site.events);
        CHECK(site.told_of(job) == (pulled ? "done 0/0 0" : "queued 0/1 0"));
        CHECK((site.told().back()[0] == "fanout") == !pulled);
        if (!pulled) {
          CHECK(site.told().back().back() == job);
          CHECK(pushed_up_to(site) >= site.score(site.keys().readers_of("ann"), "reader"));
        }
        CHECK(site.read() == (pulled ? Ids{"y", "x"} : Ids{}));
      });
  CHECK(commands == (pulled ? 8 : 7));
}

TEST_CASE("whatever comes between its steps, who follows while the author publishes has it once",
          "[follows]") {
  const bool first = GENERATE(true, false);  // nobody follows yet
  CAPTURE(first);
  bool filled = false, pushed = false;
  for (unsigned seed = 0; seed < kOrders; ++seed) {
    CAPTURE(seed);
    Followers site(Mode{true, ""});
    if (!first) site.follow("ann", "other");
    follow_while_published(site, seed);
    const bool by_job = site.score(site.keys().readers_of("ann"), "reader").value() <=
                        static_cast<double>(pushed_up_to(site));
    const bool by_filling = site.shown() == Ids{"x", "y"};
    CHECK((by_job || by_filling));
    CHECK((by_filling || site.shown().empty()));
    filled |= by_filling && !by_job;
    pushed |= by_job && !by_filling;
  }
  CHECK((filled && pushed));
}

TEST_CASE("whatever comes between its steps, who follows while the author is pulled has it once",
          "[follows]") {
  bool filled = false, pulled = false;
  for (unsigned seed = 0; seed < kOrders; ++seed) {
    CAPTURE(seed);
    Followers site(Mode{true, ""});
    site.settings.fanout.max_push = 0;
    site.renew();
    site.follow("ann", "other");
    follow_while_published(site, seed);
    (site.shown().empty() ? pulled : filled) = true;
    CHECK(site.read() == Ids{"y", "x"});
    CHECK(site.read("other") == Ids{"y", "x"});
    CHECK(site.has_up_to("ann") == site.pulled_up_to("ann"));
  }
  CHECK((filled && pulled));
}
