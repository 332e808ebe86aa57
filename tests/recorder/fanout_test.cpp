// What authors publish reaches every follower once, whatever is killed meanwhile.
#include "core/recorder/fanout.h"

#include <cstdio>
#include <random>
#include <set>

#include "core/store/follow_store.h"
#include "tests/recorder/fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

using Names = std::vector<std::string>;

struct Publishing : Fixture {
  std::unique_ptr<store::RedisFollowStore> follows;
  int jobs = 0;

  explicit Publishing(bool tags = false, RedisServer& on = shared_server()) : Fixture(on) {
    settings.redis.hash_tags = tags;
    settings.redis.key_prefix = tags ? "p:" : "";
    renew();
  }
  // Again after `settings` were changed.
  void renew() {
    open();
    follows = std::make_unique<store::RedisFollowStore>(redis, settings, keys(),
                                                        [this] { return "job" + std::to_string(++jobs); });
  }

  void follow(const std::string& reader, const std::string& author = "ann") {
    const auto ok = wait(follows->follow(ReaderId::trusted(reader), AuthorId::trusted(author)));
    INFO((ok ? "" : ok.error().detail));
    REQUIRE(ok);
  }
  void unfollow(const std::string& reader, const std::string& author = "ann") {
    REQUIRE(wait(follows->unfollow(ReaderId::trusted(reader), AuthorId::trusted(author))));
  }
  // r0 … follow the author, without a word to the recorder.
  void followers(int count, const std::string& author = "ann") {
    for (int from = 0; from < count; from += 500) {
      Names some;
      redis::Pipeline command;
      for (int i = from; i < std::min(count, from + 500); ++i) some.push_back("r" + std::to_string(i));
      store::append_push(command, keys().readers_of(author), std::nullopt, std::nullopt,
                         {some.begin(), some.end()});
      for (const auto& each : some) command.add("ZADD", keys().authors_of(each), 0, author);
      REQUIRE(redis.call(command));
    }
  }
  // The job's id.
  std::string publish(const Names& what, const std::string& author = "ann") {
    std::vector<ItemId> ids;
    for (const auto& each : what) ids.push_back(ItemId::trusted(each));
    const auto job = wait(follows->publish(AuthorId::trusted(author), ids));
    REQUIRE(job);
    return *job;
  }
  std::string timeline_key(const std::string& reader) const { return keys().timeline("follow", reader); }
  // Oldest first.
  Names timeline(const std::string& reader) {
    const auto reply = command("ZRANGEBYSCORE", timeline_key(reader), "(0", "+inf");
    Names out;
    for (std::size_t i = 0; i < reply.size(); ++i) out.emplace_back(store::text_at(reply, i));
    return out;
  }
  std::string field(const std::string& job, const std::string& name) {
    return std::string(command("HGET", keys().job(job), name).string().value_or(""));
  }
  // "state done/total failed"
  std::string told(const std::string& job) {
    return field(job, "state") + " " + field(job, "done") + "/" + field(job, "total") + " " +
           field(job, "failed");
  }
  bool over(const std::string& job) {
    return comes([&] { return field(job, "state") == "done" || field(job, "state") == "failed"; });
  }
  // Which of r0 … have the item in their timeline.
  std::set<int> having(const std::string& item, int count) {
    std::set<int> out;
    redis::Pipeline asking;
    for (int i = 0; i < count; ++i) asking.add("ZSCORE", timeline_key("r" + std::to_string(i)), item);
    const auto replies = redis.call(asking);
    REQUIRE(replies);
    for (int i = 0; i < count; ++i) {
      if ((*replies)[static_cast<std::size_t>(i)].number()) out.insert(i);
    }
    return out;
  }
  void take_out(const std::string& item, const std::set<int>& of) {
    redis::Pipeline removing;
    for (const int i : of) removing.add("ZREM", timeline_key("r" + std::to_string(i)), item);
    if (!removing.empty()) REQUIRE(redis.call(removing));
  }
  double score(const std::string& reader, const std::string& item) {
    return command("ZSCORE", timeline_key(reader), item).number().value_or(-1);
  }
};

}  // namespace

TEST_CASE("what an author publishes reaches everybody who follows, once, as its job tells", "[recorder]") {
  Publishing f(GENERATE(false, true));
  f.followers(345);
  const auto job = f.publish({"a", "b"});
  CHECK(f.told(job) == "queued 0/345 0");
  CHECK(f.backlog() == 1);
  f.run();
  REQUIRE(f.over(job));
  REQUIRE(f.settles());
  CHECK(f.told(job) == "done 345/345 0");
  for (int i = 0; i < 345; ++i) CHECK(f.timeline("r" + std::to_string(i)) == Names{"a", "b"});
  CHECK(*f.command("TTL", f.keys().job(job)).integer() > 86400 - 60);
  const auto ttl = *f.command("TTL", f.timeline_key("r7")).integer();
  CHECK(ttl > f.settings.waterfall.ttl.count() - 60);
  CHECK(ttl <= f.settings.waterfall.ttl.count());
  CHECK(f.pending() == 0);
  // Nobody is there twice, and another push does not renew a timeline.
  f.command("EXPIRE", f.timeline_key("r7"), 1000);
  const double place = f.score("r7", "a");
  const auto again = f.publish({"a", "c"});
  REQUIRE(f.over(again));
  CHECK(f.timeline("r7") == Names{"a", "b", "c"});
  CHECK(f.score("r7", "a") == place);
  CHECK(*f.command("TTL", f.timeline_key("r7")).integer() <= 1000);
}

TEST_CASE("a timeline stays within its bound whatever is pushed", "[recorder]") {
  Publishing f(GENERATE(false, true));
  f.settings.waterfall.max_items = 3;
  f.renew();
  f.followers(2);
  f.run();
  REQUIRE(f.over(f.publish({"a", "b", "c", "d", "e"})));
  CHECK(f.timeline("r0") == Names{"c", "d", "e"});
  CHECK(*f.command("ZSCORE", f.timeline_key("r0"), "::").number() < 0);
}

TEST_CASE("a timeline of another type is one that failed, and the others get what is published",
          "[recorder]") {
  Publishing f(GENERATE(false, true));
  f.followers(250);
  f.command("SET", f.timeline_key("r3"), "no timeline");
  f.command("SET", f.timeline_key("r249"), "no timeline");
  const auto job = f.publish({"a"});
  f.run();
  REQUIRE(f.over(job));
  CHECK(f.told(job) == "done 248/250 2");
  CHECK(f.having("a", 250).size() == 248);
  CHECK(f.command("GET", f.timeline_key("r3")).string() == "no timeline");
}

TEST_CASE("a job that can never be done says that it failed, and those behind it go on", "[recorder]") {
  Publishing f(GENERATE(false, true));
  f.command("SET", f.keys().readers_of("eve"), "no list");
  f.command("XADD", f.keys().stream(), "*", "op", "fanout", "author", "eve", "items", "a", "upto", "9", "job",
            "never");
  f.followers(5);
  const auto job = f.publish({"a"});
  f.run();
  REQUIRE(f.over(job));
  REQUIRE(f.settles());
  CHECK(f.field("never", "state") == "failed");
  CHECK(f.told(job) == "done 5/5 0");
}

TEST_CASE("entries of jobs that make no sense are left out", "[recorder]") {
  Publishing f;
  const auto bad = [&](auto... fields) {
    f.command("XADD", f.keys().stream(), "*", "op", "fanout", fields...);
  };
  bad("author", "a:b", "items", "x", "upto", "1", "job", "j");
  bad("author", "a", "items", "", "upto", "1", "job", "j");
  bad("author", "a", "items", "x :", "upto", "1", "job", "j");
  bad("author", "a", "items", "x", "upto", "-1", "job", "j");
  bad("author", "a", "items", "x", "upto", "many", "job", "j");
  bad("author", "a", "items", "x", "upto", "1");
  f.command("XADD", f.keys().stream(), "*", "op", "follow", "reader", "r", "author", "a");
  f.command("XADD", f.keys().stream(), "*", "op", "unfollow", "reader", "r", "author", "");
  f.run();
  REQUIRE(f.settles());
  CHECK(comes([&] { return f.shared->report.malformed.load() == 8; }));
}

TEST_CASE("who leaves before it is their turn gets nothing, who comes has it by back-fill", "[recorder]") {
  Publishing f(GENERATE(false, true));
  f.followers(150);
  const auto job = f.publish({"a"});
  for (int i = 0; i < 150; i += 2) f.unfollow("r" + std::to_string(i));
  f.follow("new");
  f.follow("r0");  // again
  CHECK(f.timeline("new") == Names{"a"});
  f.command("ZREM", f.timeline_key("r0"), "a");  // read, and taken out
  f.run();
  REQUIRE(f.over(job));
  CHECK(f.told(job) == "done 75/75 0");
  std::set<int> odd;
  for (int i = 1; i < 150; i += 2) odd.insert(i);
  CHECK(f.having("a", 150) == odd);
  CHECK(f.timeline("new") == Names{"a"});
}

TEST_CASE("readers who come and go while jobs run have everything of whom they follow, and nothing of others",
          "[recorder]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  Publishing f(GENERATE(false, true));
  std::mt19937 random(seed);
  const auto below = [&](int end) { return std::uniform_int_distribution<int>(0, end - 1)(random); };
  constexpr int kReaders = 400, kItems = 20;  // as many as a back-fill has
  f.followers(kReaders);
  std::vector<bool> follows(kReaders, true);
  f.run();
  for (int item = 0; item < kItems; ++item) {
    f.publish({"i" + std::to_string(item)});
    for (int i = 0; i < 60; ++i) {
      const int who = below(kReaders);
      const std::string reader = "r" + std::to_string(who);
      follows[static_cast<std::size_t>(who)] ? f.unfollow(reader) : f.follow(reader);
      follows[static_cast<std::size_t>(who)] = !follows[static_cast<std::size_t>(who)];
    }
  }
  REQUIRE(f.settles());
  for (int item = 0; item < kItems; ++item) {
    const auto have = f.having("i" + std::to_string(item), kReaders);
    for (int who = 0; who < kReaders; ++who) {
      INFO("item " << item << ", reader " << who);
      CHECK(have.contains(who) == follows[static_cast<std::size_t>(who)]);
    }
  }
}

TEST_CASE("jobs are done in the order in which authors published", "[recorder]") {
  Publishing f(GENERATE(false, true));
  f.followers(500);
  f.followers(500, "bob");
  const auto first = f.publish({"a"}), second = f.publish({"b"}, "bob"), third = f.publish({"c", "a2"});
  f.run();
  REQUIRE(f.over(third));
  CHECK(f.told(first) == "done 500/500 0");
  CHECK(f.told(second) == "done 500/500 0");
  for (int i = 0; i < 500; ++i) CHECK(f.timeline("r" + std::to_string(i)) == Names{"a", "b", "c", "a2"});
}

TEST_CASE("between the steps of a job the recorder goes on with what else stands in the stream",
          "[recorder]") {
  Publishing f(GENERATE(false, true));
  f.settings.recorder.batch = 1;
  f.followers(1000);
  f.command("CONFIG", "SET", "slowlog-max-len", 100000);
  f.command("CONFIG", "SET", "slowlog-log-slower-than", 0);
  f.command("SLOWLOG", "RESET");
  const auto job = f.publish({"a"});
  f.did("somebody", "x", 1);
  const auto entries = f.command("XRANGE", f.keys().stream(), "-", "+");
  const std::string entry(store::text_at(entries[1], 0));
  f.run();
  REQUIRE(f.over(job));
  f.command("CONFIG", "SET", "slowlog-log-slower-than", -1);
  const auto log = f.command("SLOWLOG", "GET", -1);
  std::vector<std::size_t> steps, acknowledged, blocked;  // the newest is the first
  for (std::size_t i = 0; i < log.size(); ++i) {
    const auto words = log[i][3];
    const auto has = [&](std::string_view word) {
      for (std::size_t k = 0; k < words.size(); ++k) {
        if (store::text_at(words, k) == word) return true;
      }
      return false;
    };
    if (has(f.keys().readers_of("ann")) && has("ZRANGEBYSCORE")) steps.push_back(i);
    if (has(store::scripts::kStreamAck.sha1) && has(entry)) acknowledged.push_back(i);
    if (has("XREADGROUP") && has("BLOCK")) blocked.push_back(i);
  }
  REQUIRE(steps.size() == 11);
  REQUIRE(acknowledged.size() == 1);
  CHECK(acknowledged.front() < steps.back());
  CHECK(acknowledged.front() > steps.front());
  for (const auto each : blocked) CHECK((each < steps.front() || each > steps.back()));
}

TEST_CASE("an erasure is done when no job keeps in the stream what the reader did", "[recorder]") {
  Publishing f;
  f.followers(3000);
  const auto job = f.publish({"a"});
  f.did("to-be-forgotten", "x", 1);
  f.command("HSET", f.keys().job("e"), "state", "queued");
  f.command("XADD", f.keys().stream(), "*", "op", "erase", "reader", "to-be-forgotten", "job", "e");
  f.run();
  std::string before;
  REQUIRE(comes([&] {
    const bool erased = f.field("e", "state") == "done";
    if (erased) before = f.field(job, "state");
    return erased;
  }));
  CHECK(before == "done");
  CHECK(f.command("XRANGE", f.keys().stream(), "-", "+").size() == 0);
}

TEST_CASE("a job whose hash has expired begins again, which changes nothing but the count", "[recorder]") {
  Publishing f(GENERATE(false, true));
  f.followers(2000);
  const auto job = f.publish({"a"});
  int begun = 0;
  for (int i = 0; i < 200 && begun < 3 && f.field(job, "state") != "done"; ++i) {
    f.run_process();
    comes([&] { return f.field(job, "state") == "running" || f.field(job, "state") == "done"; });
    f.kill_process();
    begun += f.field(job, "state") == "running";
    if (f.field(job, "state") == "running") f.command("DEL", f.keys().job(job));
  }
  CHECK(begun > 0);
  f.run();
  REQUIRE(f.over(job));
  CHECK(f.told(job) == "done 2000/2000 0");
  CHECK(f.having("a", 2000).size() == 2000);
}

TEST_CASE("a step leaves out who left, or followed anew, since it looked who follows", "[recorder]") {
  Publishing f;
  f.followers(4);
  const auto job = f.publish({"a"});
  redis::Pipeline step;
  step.script(store::scripts::kFanoutChunk, 6, 17);
  step.arg(f.keys().job(job)).arg(f.keys().readers_of("ann"));
  const Names looked_up{"r0", "r1", "r2", "r3"};
  for (const auto& each : looked_up) step.arg(f.timeline_key(each));
  const auto upto = f.command("ZSCORE", f.keys().readers_of("ann"), "r3");
  step.arg(0).arg(*upto.string()).arg(1).arg(*upto.string()).arg(500).arg(1000).arg(1000).arg(1).arg("a");
  for (const auto& each : looked_up)
    step.arg(each).arg(*f.command("ZSCORE", f.keys().readers_of("ann"), each).string());
  f.unfollow("r1");
  f.unfollow("r2");
  f.follow("r2");
  CHECK(f.timeline("r2") == Names{"a"});
  f.command("ZREM", f.timeline_key("r2"), "a");  // read, and taken out
  const auto done = f.redis.call(step);
  REQUIRE(done);
  REQUIRE(store::text_at(done->front(), 0) == "done");
  CHECK(f.having("a", 4) == std::set<int>{0, 3});
  CHECK(f.told(job) == "done 2/2 0");
}

TEST_CASE("of two recorders at one job, of which one knows it not, neither serves whom the other served",
          "[recorder]") {
  Publishing f;
  f.followers(350);
  const auto job = f.publish({"a"});
  const auto entries = f.command("XRANGE", f.keys().stream(), "-", "+");
  const auto batch = recorder::read_batch(entries);
  REQUIRE(batch.fanouts.size() == 1);
  recorder::Pusher one(f.settings, f.server.endpoint()), two(f.settings, f.server.endpoint());
  for (auto* each : {&one, &two}) each->add(batch.fanouts);
  std::set<int> served;
  int steps = 0;
  for (bool over = false; !over; ++steps) {
    REQUIRE(steps < 20);
    auto& next = steps % 3 == 0 ? one : two;  // each is behind the other now and then
    const auto stepped = next.step();
    REQUIRE(stepped);
    over = *stepped;
    const auto have = f.having("a", 350);
    for (const int each : have) CHECK(served.insert(each).second);
    f.take_out("a", have);
  }
  CHECK(steps > 4);  // some were in vain
  CHECK(served.size() == 350);
  CHECK(f.told(job) == "done 350/350 0");
  for (auto* each : {&one, &two}) CHECK(each->step().value());  // both see it
  CHECK(f.having("a", 350).empty());
}

TEST_CASE("a recorder that is killed at random moments leaves nobody out and serves nobody twice",
          "[recorder]") {
  const bool tags = GENERATE(false, true);
  constexpr int kReaders = 3000, kJobs = 25;
  const auto seed = std::random_device{}();
  CAPTURE(seed, tags);
  std::mt19937 random(seed);
  Publishing f(tags);
  f.followers(kReaders);
  int kills = 0, within = 0;
  for (int number = 0; number < kJobs; ++number) {
    const std::string item = "i" + std::to_string(number);
    const auto job = f.publish({item});
    std::set<int> served;  // and took it out of their timeline
    while (f.field(job, "state") != "done") {
      f.run_process();
      std::this_thread::sleep_for(
          std::chrono::microseconds(std::uniform_int_distribution<int>(0, 60000)(random)));
      f.kill_process();
      ++kills;
      within += f.field(job, "state") == "running";
      const auto have = f.having(item, kReaders);
      if (tags) continue;  // there it may come back
      for (const int each : have) CHECK(served.insert(each).second);
      f.take_out(item, have);
    }
    CHECK(f.told(job) == "done " + std::to_string(kReaders) + "/" + std::to_string(kReaders) + " 0");
    if (tags) served = f.having(item, kReaders);
    CHECK(served.size() == kReaders);
  }
  std::printf("%s: %d kills (seed %u), %d within a job\n", tags ? "with hash tags" : "without", kills, seed,
              within);
  CHECK(within > 0);  // else they came at the wrong moments
  f.run();
  REQUIRE(f.settles());
  f.check_all();
}

TEST_CASE("a Redis that is killed under a job, with all it acknowledged, leaves nobody out", "[recorder]") {
  RedisServer own({"--appendonly", "yes", "--appendfsync", "always"});
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  Publishing f(false, own);
  constexpr int kReaders = 2000;
  f.followers(kReaders);
  f.run();
  int within = 0;
  for (int number = 0; number < 6; ++number) {
    const std::string item = "i" + std::to_string(number);
    const auto job = f.publish({item});
    std::set<int> served;
    std::string cursor;
    // Only what a script left is there: the items, with the cursor behind them.
    const auto take = [&] {
      const auto have = f.having(item, kReaders);
      for (const int each : have) CHECK(served.insert(each).second);
      f.take_out(item, have);
    };
    for (int kill = 0; kill < 3; ++kill) {
      REQUIRE(comes([&] { return f.field(job, "cursor") != cursor; }));  // it got on again
      std::this_thread::sleep_for(
          std::chrono::microseconds(std::uniform_int_distribution<int>(0, 8000)(random)));
      f.restart_redis();
      cursor = f.field(job, "cursor");
      within += f.field(job, "state") == "running";
      take();
      if (f.field(job, "state") == "done") break;
    }
    REQUIRE(f.over(job));
    take();
    CHECK(served.size() == kReaders);
    CHECK(f.told(job) == "done " + std::to_string(kReaders) + "/" + std::to_string(kReaders) + " 0");
  }
  std::printf("seed %u: %d kills of Redis within a job\n", seed, within);
  CHECK(within > 0);
  REQUIRE(f.settles());
}

TEST_CASE("ten thousand followers are pushed to by one job", "[recorder]") {
  Publishing f(GENERATE(false, true));
  f.followers(10000);
  f.run();
  REQUIRE(f.settles());
  const auto began = std::chrono::steady_clock::now();
  const auto job = f.publish({"a"});
  REQUIRE(f.over(job));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::printf("10,000 followers%s: %.2f s\n", f.settings.redis.hash_tags ? ", with hash tags" : "",
              took.count());
  CHECK(f.told(job) == "done 10000/10000 0");
  CHECK(f.having("a", 10000).size() == 10000);
}

TEST_CASE("beyond fanout.max_push nothing is pushed: the item stands where readers pull it", "[recorder]") {
  Publishing f(GENERATE(false, true));
  f.settings.fanout.max_push = 9;
  f.renew();
  f.followers(10);
  const auto job = f.publish({"a"});
  CHECK(f.told(job) == "done 0/0 0");
  CHECK(f.backlog() <= 0);
  CHECK(f.having("a", 10).empty());
  const auto highest = f.command("ZSCORE", f.keys().pull_outbox("ann"), "a").number().value_or(-1);
  CHECK(highest > 0);
  CHECK(f.command("ZSCORE", f.keys().pulled(), "ann").number() == highest);
  CHECK(f.command("ZSCORE", f.keys().outbox("ann"), "a").number().has_value());
}

TEST_CASE("follows are recorded in their order, and once", "[recorder]") {
  Publishing f(GENERATE(false, true));
  f.run();
  f.follow("r", "ann");
  f.follow("r", "bob");
  f.follow("r", "bob");
  f.follow("s", "ann");
  f.unfollow("r", "ann");
  f.follow("s", "bob");
  f.unfollow("s", "bob");
  f.follow("s", "bob");
  f.unfollow("nobody", "ann");
  REQUIRE(f.settles());
  const auto database = store::Database::open(f.settings.recorder.database, store::Database::Mode::kRead);
  REQUIRE(database);
  Names rows;
  REQUIRE((*database)->readers().for_each_follow([&](const feed::Follow& each) {
    rows.push_back(each.reader.str() + " " + each.author.str());
    CHECK(wall_now() - each.at < seconds{60});
    return Result<void>();
  }));
  std::sort(rows.begin(), rows.end());
  CHECK(rows == Names{"r bob", "s ann", "s bob"});
  CHECK(f.shared->report.malformed.load() == 0);
}
