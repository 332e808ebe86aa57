// A reader's data moves to another reader, whatever else happens to the two meanwhile.
#include "core/recorder/merge_worker.h"

#include "core/readers/reader_merge.h"
#include "core/recorder/erasure_worker.h"
#include "tests/recorder/fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

const ReaderId kGuest = ReaderId::trusted("guest"), kAnn = ReaderId::trusted("ann");

struct MergeFixture : Fixture {
  MergeFixture() { std::filesystem::create_directories(settings.spool.path); }

  // Requests the jobs like core/readers/personal_data.cpp.
  void request_merge(const ReaderId& from, const ReaderId& to, const std::string& job) {
    command("HSET", keys().job(job), "state", "queued");
    command("XADD", keys().partition(0).stream(), "*", "op", "merge", "reader", from.view(), "to", to.view(),
            "job", job);
  }
  void request_erasure(const ReaderId& reader, const std::string& job) {
    command("SET", tombstone(reader), redis::string_at(command("TIME"), 0));
    command("HSET", keys().job(job), "state", "queued");
    command("XADD", keys().partition(0).stream(), "*", "op", "erase", "reader", reader.view(), "job", job);
  }
  std::string tombstone(const ReaderId& reader) const { return keys().tombstone(pseudonyms.erasure(reader)); }
  std::string redirect(const ReaderId& reader) const {
    return keys().merged_into(pseudonyms.erasure(reader));
  }
  std::string text(const std::string& key) { return std::string(command("GET", key).text()); }
  std::string state(const std::string& job) {
    return std::string(command("HGET", keys().job(job), "state").text());
  }
  // The readers whose erasure the database lists.
  std::set<std::string> recorded_erasures() const {
    std::set<std::string> out;
    const auto erasures = open_database()->erasures_since(UnixSeconds());
    REQUIRE(erasures);
    for (const auto& each : *erasures) out.insert(each.reader);
    return out;
  }
  bool finishes(const std::string& job) {
    return eventually([&] { return state(job) == "done" || state(job) == "failed"; });
  }
  void like(const ReaderId& reader, const std::string& item) {
    const std::int64_t now = redis::to_int(redis::string_at(command("TIME"), 0));
    command("ZADD", keys().interactions(reader.view()), now, "l:" + item);
  }
  std::vector<std::string> likes(const ReaderId& reader) {
    const auto members = command("ZRANGE", keys().interactions(reader.view()), 0, -1);
    std::vector<std::string> out;
    for (std::size_t i = 0; i < members.size(); ++i) out.emplace_back(redis::string_at(members, i).substr(2));
    return out;
  }
  void merge(const ReaderId& from, const ReaderId& to) {
    const std::string job = "merge-" + from.str() + "-" + to.str();
    request_merge(from, to, job);
    if (!thread.joinable()) start();
    REQUIRE(finishes(job));
    REQUIRE(becomes_idle());
  }
};

using Items = std::vector<std::string>;

}  // namespace

TEST_CASE_METHOD(MergeFixture, "erasing an account voids spooled events of readers who were merged into it",
                 "[recorder]") {
  const ReaderId old = ReaderId::trusted("old");
  like(old, "a");
  merge(old, kAnn);
  REQUIRE(text(redirect(old)) == "ann");
  command("SET", redirect(ReaderId::trusted("else")), "bob");
  request_erasure(kAnn, "erasure");
  REQUIRE(finishes("erasure"));
  REQUIRE(becomes_idle());
  CHECK(text(redirect(old)).empty());
  const std::int64_t now = redis::to_int(redis::string_at(command("TIME"), 0));
  CHECK(now - redis::to_int(text(tombstone(old))) < 60);
  CHECK(*command("TTL", tombstone(old)).integer() > settings.spool.max_age.count());
  CHECK(text(redirect(ReaderId::trusted("else"))) == "bob");
  CHECK(text(tombstone(ReaderId::trusted("else"))).empty());
  // A backup that still has the rows is restored without them.
  const std::set<std::string> recorded = recorded_erasures();
  CHECK(recorded.contains(pseudonyms.erasure(old)));
  CHECK(recorded.contains(pseudonyms.erasure(kAnn)));
}

TEST_CASE_METHOD(MergeFixture, "erasing an account records the erasure of all readers ever merged into it",
                 "[recorder]") {
  const ReaderId first = ReaderId::trusted("first"), second = ReaderId::trusted("second"),
                 other = ReaderId::trusted("other"), bob = ReaderId::trusted("bob"),
                 visitor = anonymous_reader(VisitorId::trusted("visitor"));
  merge(first, second);
  merge(second, kAnn);
  request_merge(visitor, kAnn, "sign-in");
  merge(other, bob);
  REQUIRE(state("sign-in") == "done");
  for (const ReaderId& each : {first, second, visitor, other})
    command("DEL", redirect(each));  // have expired
  request_erasure(kAnn, "erasure");
  REQUIRE(finishes("erasure"));
  REQUIRE(becomes_idle());
  const std::set<std::string> recorded = recorded_erasures();
  for (const ReaderId& each : {first, second, kAnn}) CHECK(recorded.contains(pseudonyms.erasure(each)));
  // Backups hold nothing about an anonymous reader.
  for (const ReaderId& each : {other, bob, visitor}) CHECK_FALSE(recorded.contains(pseudonyms.erasure(each)));
}

TEST_CASE_METHOD(MergeFixture,
                 "what a merged reader contributed to counters is the account's, and erased with it",
                 "[recorder]") {
  const std::string source = keys().contributions(pseudonyms.visitor(kGuest)),
                    target = keys().contributions(pseudonyms.visitor(kAnn));
  command("HSET", source, "a:x", "2 1 9 0 0 0 5");
  merge(kGuest, kAnn);
  CHECK(command("EXISTS", source).integer() == 0);
  CHECK(command("HGET", target, "a:x").text() == "2 1 9 0 0 0 5");
  CHECK(*command("TTL", target).integer() > settings.limits.contribution_ttl.count() - 60);
  request_erasure(kAnn, "erasure");
  REQUIRE(finishes("erasure"));
  REQUIRE(becomes_idle());
  CHECK(command("EXISTS", target).integer() == 0);
}

TEST_CASE_METHOD(MergeFixture, "erasing a merged reader removes their names from the account", "[recorder]") {
  const std::string names = keys().merged_names(kAnn.view());
  command("ZADD", names, 1, kGuest.view(), 2, kGuest.str() + kIdMark + "3", 3, "guest2", 4,
          std::string("guest2") + kIdMark + "3");
  request_erasure(kGuest, "erasure");
  start();
  REQUIRE(finishes("erasure"));
  REQUIRE(becomes_idle());
  const auto left = command("ZRANGE", names, 0, -1);
  REQUIRE(left.size() == 2);
  CHECK(left[0].text() == "guest2");
  CHECK(left[1].text() == std::string("guest2") + kIdMark + "3");
}

TEST_CASE_METHOD(MergeFixture, "a merge moves nothing of or to a reader whose erasure is pending",
                 "[recorder]") {
  const bool erases_source = GENERATE(true, false);
  const ReaderId& erased = erases_source ? kGuest : kAnn;
  like(kGuest, "a");
  request_erasure(erased, "erasure");
  command("SET", tombstone(erased), 1);  // long before the merge was requested
  request_merge(kGuest, kAnn, "merge");
  start();
  REQUIRE(finishes("merge"));
  REQUIRE(finishes("erasure"));
  REQUIRE(becomes_idle());
  CHECK(state("merge") == "done");
  CHECK(likes(kAnn).empty());
  CHECK(likes(kGuest) == (erases_source ? Items() : Items{"a"}));
  CHECK(text(redirect(kGuest)).empty());
}

TEST_CASE_METHOD(MergeFixture, "a merge moves nothing if a reader was erased after it was requested",
                 "[recorder]") {
  const ReaderId& erased = GENERATE(true, false) ? kGuest : kAnn;
  like(kGuest, "a");
  const std::int64_t now = redis::to_int(redis::string_at(command("TIME"), 0));
  command("SET", tombstone(erased), now - 100);
  merge(kGuest, kAnn);
  CHECK(likes(kAnn) == Items{"a"});  // erased before
  like(kGuest, "b");
  command("SET", tombstone(erased), now + 100);
  request_merge(kGuest, kAnn, "again");
  REQUIRE(finishes("again"));
  REQUIRE(becomes_idle());
  CHECK(likes(kGuest) == Items{"b"});
  CHECK(likes(kAnn) == Items{"a"});
}

TEST_CASE_METHOD(MergeFixture, "a merge waits for the erasures in the target's stream that preceded it",
                 "[recorder]") {
  use_partitions(4);
  std::string name = "ann";
  while (keys().partition_of(name) == keys().partition_of(kGuest.view())) name += "x";
  const ReaderId target = ReaderId::trusted(name);
  auto database = database::Database::open(settings.recorder.database, database::Database::Mode::kWrite);
  REQUIRE(database);
  recorder::Streams streams(settings, server.endpoint());
  REQUIRE(recorder::create_groups(streams.redis(), streams.keys()));
  while (!streams.has_claimed_all()) REQUIRE(streams.claim_pending());
  like(kGuest, "a");
  const bool erases = GENERATE(true, false);
  if (erases)
    command("XADD", keys().partition_for(name).stream(), "*", "op", "erase", "reader", name, "job",
            "erasure");
  else
    command("XADD", keys().partition_for(name).stream(), "*", "op", "unfollow", "reader", name, "author",
            "bob");
  const unsigned stream = keys().partition_of(kGuest.view());
  const auto entry = command("XADD", keys().partition(stream).stream(), "*", "op", "merge", "reader",
                             kGuest.view(), "to", name, "job", "merge");
  // Redis was read up to the merge, but not yet in the target's stream.
  recorder::MergeWorker worker(settings, server.endpoint(), pseudonyms, settle_time);
  worker.add({{{stream, std::string(entry.text())}, kGuest, target, "merge"}});
  bool is_erasure_read = false;
  const auto run = [&] {
    const std::atomic<bool> stop{false};
    const auto done = worker.run(
        **database, streams, [&](const ReaderId& reader) { return is_erasure_read && reader == target; },
        stop);
    REQUIRE(done);
    return done->size();
  };
  CHECK(run() == 0);
  CHECK(likes(kGuest) == Items{"a"});
  CHECK(worker.needs_read());
  const auto batch = streams.read(recorder::Streams::ReadMode::kNonBlocking);
  REQUIRE(batch);
  is_erasure_read = !batch->erasures.empty();
  CHECK(is_erasure_read == erases);
  CHECK(run() == (erases ? 1 : 0));
  CHECK(likes(kGuest) == (erases ? Items{"a"} : Items()));
  CHECK(likes(target) == (erases ? Items() : Items{"a"}));
}

TEST_CASE_METHOD(MergeFixture, "nothing is left of a merged reader who had cleared their history",
                 "[recorder]") {
  command("HSET", keys().view_times(kGuest.view()), "t", 1700000000, "r", 1700000001, "t:a", 1700000002);
  command("RPUSH", keys().view_history(readers::ViewKind::kTopic, kGuest.view()), "a");
  command("HSET", keys().view_times(kAnn.view()), "t", 1700000000);
  merge(kGuest, kAnn);
  for (const std::string& key : keys().keys_about(kGuest.view(), settings.timeline.channels)) {
    INFO(key);
    CHECK(command("EXISTS", key).integer() == 0);
  }
  CHECK(command("HGET", keys().view_times(kAnn.view()), "t").text() == "1700000000");
}

TEST_CASE_METHOD(MergeFixture, "a merge does not wait for room in the stream", "[recorder]") {
  settings.recorder.stream_max_len = 1;
  command("ZADD", keys().followed_authors(kGuest.view()), 0, "bob", 0, "eve");
  command("ZADD", keys().followers("bob"), 1, kGuest.view());
  command("ZADD", keys().followers("eve"), 1, kGuest.view());
  merge(kGuest, kAnn);
  CHECK(command("ZCARD", keys().followed_authors(kAnn.view())).integer() == 2);
  CHECK(command("ZCARD", keys().followed_authors(kGuest.view())).integer() == 0);
}

TEST_CASE_METHOD(MergeFixture, "a merge keeps every follow, even beyond the limit, with its time",
                 "[recorder]") {
  settings.timeline.max_follows = 2;
  const auto follow = [&](const ReaderId& reader, const char* author, std::int64_t at) {
    command("ZADD", keys().followed_authors(reader.view()), 0, author);
    command("ZADD", keys().followers(author), 1, reader.view());
    command("XADD", keys().partition(0).stream(), "*", "op", "follow", "reader", reader.view(), "author",
            author, "at", at);
  };
  follow(kAnn, "ann-1", 100), follow(kAnn, "both", 300);
  follow(kGuest, "both", 200), follow(kGuest, "guest-1", 400);
  merge(kGuest, kAnn);
  CHECK(command("ZCARD", keys().followed_authors(kAnn.view())).integer() == 3);
  CHECK(command("ZCARD", keys().followed_authors(kGuest.view())).integer() == 0);
  CHECK_FALSE(command("ZSCORE", keys().followers("guest-1"), kAnn.view()).is_nil());
  CHECK(command("ZSCORE", keys().followers("guest-1"), kGuest.view()).is_nil());
  std::set<std::string> rows;
  REQUIRE(open_database()->readers().for_each_follow([&](const readers::Follow& each) {
    rows.insert(each.reader.str() + " " + each.author.str() + " " + std::to_string(unix_s(each.at)));
    return Result<void>();
  }));
  CHECK(rows == std::set<std::string>{"ann ann-1 100", "ann both 300", "ann guest-1 400"});
}

TEST_CASE_METHOD(MergeFixture, "a merge that Redis refuses is tried again and delays no other job",
                 "[recorder]") {
  const ReaderId other = ReaderId::trusted("other"), last = ReaderId::trusted("last");
  like(kGuest, "a");
  like(other, "b");
  command("SET", keys().interactions(kAnn.view()), "not a ZSET");
  request_merge(kGuest, kAnn, "refused");
  request_merge(other, last, "merge");
  request_erasure(ReaderId::trusted("forgotten"), "erasure");
  put(item("x", "Meanwhile"));
  start();
  REQUIRE(finishes("merge"));
  REQUIRE(finishes("erasure"));
  CHECK(likes(last) == Items{"b"});
  CHECK(state("refused") != "done");
  CHECK(shared->report.state.load() == RecorderState::kRunning);
  command("DEL", keys().interactions(kAnn.view()));
  REQUIRE(finishes("refused"));
  REQUIRE(becomes_idle());
  CHECK(likes(kAnn) == Items{"a"});
  CHECK(recorded().size() == 1);
}

TEST_CASE_METHOD(MergeFixture, "a pass of merges ends when the recorder stops, or soon", "[recorder]") {
  auto database = database::Database::open(settings.recorder.database, database::Database::Mode::kWrite);
  REQUIRE(database);
  recorder::Streams stream(settings, server.endpoint());
  REQUIRE(recorder::create_groups(stream.redis(), stream.keys()));
  recorder::MergeWorker worker(settings, server.endpoint(), pseudonyms, settle_time);
  like(kGuest, "a");
  request_merge(kGuest, kAnn, "merge");
  while (!stream.has_claimed_all()) REQUIRE(stream.claim_pending());
  auto batch = stream.read();
  REQUIRE(batch);
  worker.add(batch->merges);
  using Worker = recorder::MergeWorker;
  const auto start_time = Worker::Clock::now();
  const auto nobody = [](const ReaderId&) { return false; };
  const auto run = [&](bool stops, milliseconds later = {}) {
    const std::atomic<bool> stop{stops};
    auto done = worker.run(**database, stream, nobody, stop, start_time + later);
    REQUIRE(done);
    return *done;
  };
  run(true);
  CHECK(likes(kGuest) == Items{"a"});
  CHECK(worker.needs_read());  // the recorder does not sleep
  SECTION("and continues later") {
    run(false);
    CHECK(likes(kAnn) == Items{"a"});
  }
  SECTION("and gives up a job that Redis refuses for too long") {
    command("SET", keys().interactions(kAnn.view()), "not a ZSET");
    CHECK(run(false).empty());
    CHECK(run(false, Worker::kMaxRetryTime - seconds(1)).empty());
    const auto done = run(false, Worker::kMaxRetryTime);
    REQUIRE(done.size() == 1);
    REQUIRE(redis.call(worker.completion_commands(done)));
    CHECK(state("merge") == "failed");
    CHECK(likes(kGuest) == Items{"a"});
    worker.remove_finished(done);
    CHECK(worker.pending_count() == 0);
  }
}

TEST_CASE_METHOD(MergeFixture, "items that the account's timeline cannot take stay in the visitor's",
                 "[recorder]") {
  settings.timeline.channels = {"discover"};
  const std::string source = keys().timeline("discover", kGuest.view());
  command("ZADD", source, 1, "a", 2, "b");
  command("SET", keys().timeline("discover", kAnn.view()), "not a ZSET");
  merge(kGuest, kAnn);
  CHECK(command("ZCARD", source).integer() == 2);
}

TEST_CASE_METHOD(MergeFixture, "once a merge is done, the visitor can be merged again at once",
                 "[recorder]") {
  const std::string guard = keys().merge_guard(pseudonyms.erasure(kGuest));
  command("SET", guard, 1);
  like(kGuest, "a");
  merge(kGuest, kAnn);
  CHECK(likes(kAnn) == Items{"a"});
  CHECK(command("EXISTS", guard).integer() == 0);
}

TEST_CASE_METHOD(MergeFixture, "a merge into an account ends only a redirect that leads back", "[recorder]") {
  const ReaderId visitor = ReaderId::trusted("visitor"), bob = ReaderId::trusted("bob");
  merge(kAnn, bob);
  merge(visitor, kAnn);
  CHECK(text(redirect(visitor)) == "ann");
  CHECK(text(redirect(kAnn)) == "bob");
  merge(bob, visitor);  // visitor → ann → bob
  CHECK(text(redirect(bob)) == "visitor");
  CHECK(text(redirect(kAnn)).empty());
  CHECK(text(redirect(visitor)) == "ann");
}
