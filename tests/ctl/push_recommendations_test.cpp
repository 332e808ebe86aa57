// freshetctl push-recommendations against a real Redis: who gets what, in which order, without
// repetitions.
#include "scripts/ctl/commands/push_recommendations.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>

#include "core/feed/feed_store.h"
#include "core/readers/reader_store.h"
#include "core/timeline/timeline_store.h"
#include "fcgi/http/identity.h"
#include "scripts/ctl/commands/reader_selection.h"
#include "tests/support/error_of.h"
#include "tests/support/store_fixture.h"
#include "tests/support/unix_socket.h"

using namespace freshet;
using namespace freshet::ctl;
using namespace freshet::test;

namespace {

using Ids = std::vector<std::string>;
constexpr seconds kDay{86400};
const std::string kSalt(32, 's');

ItemId id(const std::string& text) { return ItemId::trusted(text); }
ReaderId reader(const std::string& text) { return ReaderId::trusted(text); }

// A site with a configuration of its own. i0 has the most viewers, then i1, and so on.
struct Site : Fixture {
  TemporaryDirectory folder;
  Target target;
  PushRecommendationsOptions options;

  explicit Site(int count = 12) {
    open();
    for (int i = 0; i < count; ++i) {
      put(item("i" + std::to_string(i), now() - seconds{3600}));
      for (int viewer = i; viewer < count; ++viewer)
        view(view_event("i" + std::to_string(i), "f" + std::to_string(viewer)));
    }
    target.config = (folder.path() / "freshet.toml").string();
    target.redis = server().url();
    configure("");
    options.channel = "discover";
    options.readers = {"ann"};
  }
  void configure(const std::string& more) const {
    std::ofstream(target.config) << "recommend.model = \"" << folder.path().string() << "/none\"\n" << more;
  }
  PushSummary push() {
    auto out = push_once(options, target);
    INFO((out ? "" : out.error().detail));
    REQUIRE(out);
    return *out;
  }
  PushSummary push_active() {
    options.readers.clear();
    return push();
  }
  void visited(const std::string& who, UnixSeconds at) {
    command("ZADD", keys().active_readers("discover"), at.time_since_epoch().count(), who);
  }
  // Newest first, as on a page.
  Ids timeline(const std::string& who = "ann") {
    const auto reply = command("ZREVRANGEBYSCORE", keys().timeline("discover", who), "+inf", "(0");
    Ids out;
    for (std::size_t i = 0; i < reply.size(); ++i) out.emplace_back(redis::string_at(reply, i));
    return out;
  }
  Ids item_ids(int from, int to) const {
    Ids out;
    for (int i = from; i < to; ++i) out.push_back("i" + std::to_string(i));
    return out;
  }
  // True for each item that the feed's store has as seen at the time.
  std::vector<bool> seen_by_feed(const Ids& ids, UnixSeconds at, feed::SeenEpochs::Pseudonym epoch_name = {},
                                 const std::string& who = "ann") {
    const auto filter = feed::make_seen_filter(settings, keys());
    REQUIRE(run_sync(filter->probe(redis)));
    feed::RedisFeedStore feed(
        redis, *filter, settings, keys(), [at] { return at; }, epoch_name);
    feed::FeedRequest request;
    request.reader = reader(who);
    const auto opening = run_sync(feed.load_state(request, false));
    REQUIRE(opening);
    std::vector<ItemId> wanted;
    for (const auto& each : ids) wanted.push_back(id(each));
    const auto out = run_sync(feed.check_seen(request.reader, opening->seen_view, wanted));
    REQUIRE(out);
    return *out;
  }
  std::map<std::string, std::string> dump_all_keys() {
    std::map<std::string, std::string> out;
    for (const auto& key : all_keys()) out[key] = text(command("DUMP", key));
    return out;
  }
};

}  // namespace

TEST_CASE("the best items are pushed on top and no item twice", "[fill]") {
  Site site(12);
  site.options.limit = 5;
  CHECK(site.push().pushed == 5);
  CHECK(site.timeline() == site.item_ids(0, 5));
  std::int64_t pushed = 5;
  for (int run = 0; run < 2; ++run) pushed += site.push().pushed;
  CHECK(pushed == 12);
  auto all = site.timeline();
  CHECK(all.size() == 12);
  CHECK(Ids(all.end() - 5, all.end()) == site.item_ids(0, 5));  // earlier items keep their positions
  std::sort(all.begin(), all.end());
  CHECK(std::unique(all.begin(), all.end()) == all.end());
  const auto after = site.push();
  CHECK(after.pushed == 0);
  CHECK(after.duplicates == 0);
  CHECK(after.nothing_new == 1);
  CHECK(site.timeline().size() == 12);
}

TEST_CASE_METHOD(Site, "each reader gets at most fill.items unless a limit is given", "[fill]") {
  configure("fill.items = 3\n");
  CHECK(push().pushed == 3);
  options.limit = 1;
  CHECK(push().pushed == 1);
  CHECK(timeline() == Ids{"i3", "i0", "i1", "i2"});
}

TEST_CASE("items that the feed delivered are not pushed, whether or not the seen filter has recorded them",
          "[fill]") {
  Site site(12);
  const bool recorded = GENERATE(false, true);
  const auto filter = feed::make_seen_filter(site.settings, site.keys());
  REQUIRE(run_sync(filter->probe(site.redis)));
  feed::RedisFeedStore feed(site.redis, *filter, site.settings, site.keys());
  feed::FeedRequest request;
  request.reader = reader("ann");
  request.limit = 2;
  const auto delivered =
      run_sync(feed.swap_buffer(request, {0, 0, 0, {id("i1"), id("i3"), id("i5")}, false, {}}));
  REQUIRE(delivered);
  REQUIRE(delivered->page.items.size() == 2);
  if (recorded) {
    const feed::Impressions shown{
        {{delivered->page.delivery_seq, delivered->page.items}}, delivered->page.items, wall_now()};
    REQUIRE(run_sync(feed.record(request.reader, shown)));
    site.command("DEL", site.keys().feed_state("ann"));  // a minute later
  }
  site.options.limit = 4;
  site.push();
  CHECK(site.timeline() == Ids{"i0", "i2", "i4", "i5"});  // i5 is buffered and was not delivered yet
}

TEST_CASE("pushed items count as seen by the feed for seven days", "[fill]") {
  Site site(12);
  site.options.limit = 3;
  site.push();
  const std::vector<bool> known{true, true, true, false};
  CHECK(site.seen_by_feed({"i0", "i1", "i2", "i3"}, wall_now()) == known);
  CHECK(site.seen_by_feed({"i0", "i1", "i2", "i3"}, wall_now() + 7 * kDay - seconds{1}) == known);
  CHECK(site.seen_by_feed({"i0", "i1", "i2"}, wall_now() + 9 * kDay) == std::vector<bool>(3));
}

TEST_CASE_METHOD(Site, "an erased reader gets recommendations under the new pseudonym, as in the feed",
                 "[fill]") {
  std::ofstream(folder.path() / "salt") << kSalt << "\n";
  configure("identity.salt_file = \"" + (folder.path() / "salt").string() + "\"\n");
  auto identity = http::Identity::create(http::IdentityMode::kHeader, kSalt);
  REQUIRE(identity);
  const auto name = [&](const ReaderId& who) { return identity->erasure_pseudonym(who); };
  options.limit = 2;
  push();
  command("SET", keys().seen_epoch(name(reader("ann"))), 1);
  command("DEL", keys().timeline("discover", "ann"));
  CHECK(seen_by_feed({"i0", "i1"}, wall_now(), name) == std::vector<bool>{false, false});
  push();  // entries under the old pseudonym do not block items
  CHECK(timeline() == Ids{"i0", "i1"});
  CHECK(seen_by_feed({"i0", "i1"}, wall_now(), name) == std::vector<bool>{true, true});
}

TEST_CASE_METHOD(
    Site,
    "items that the reader viewed, interacted with or dismissed, and hidden or deleted items, are not pushed",
    "[fill]") {
  readers::RedisReaderStore readers(redis, write_queue, settings, keys(), [] { return std::string("e"); });
  REQUIRE(run_sync(readers.record_view({reader("ann"), id("i0"), readers::ViewKind::kTopic})));
  REQUIRE(run_sync(readers.dismiss({reader("ann"), id("i2"), "", {}})));
  REQUIRE(run_sync(readers.record_interactions(
      {{reader("ann"), id("i4"), readers::Interaction::kLike, UnixSeconds::max(), {}}})));
  auto hidden = item("i6", now() - seconds{3600});
  hidden.hidden = true;
  put(hidden);
  remove("i8");
  options.limit = 100;
  CHECK(push().pushed == 7);
  auto pushed = timeline();
  std::sort(pushed.begin(), pushed.end());
  CHECK(pushed == Ids{"i1", "i10", "i11", "i3", "i5", "i7", "i9"});
}

TEST_CASE("items pushed but not recorded before a crash are recorded, keep their positions and do not count",
          "[fill]") {
  Site site(12);
  items::CardCache cards(*site.items, 0);
  timeline::RedisTimelineStore timelines(site.redis, site.redis, site.write_queue, cards, site.settings,
                                         site.keys());
  REQUIRE(run_sync(timelines.push({"discover", {id("i2"), id("i1"), id("i0")}, {reader("ann")}})));
  const auto before = site.score(site.keys().timeline("discover", "ann"), "i0");
  site.options.limit = 3;
  const auto summary = site.push();
  CHECK(summary.duplicates == 3);
  CHECK(summary.pushed == 3);
  CHECK(site.timeline() == Ids{"i3", "i4", "i5", "i0", "i1", "i2"});
  CHECK(site.score(site.keys().timeline("discover", "ann"), "i0") == before);
  CHECK(site.seen_by_feed({"i0", "i1", "i2", "i5"}, wall_now()) == std::vector<bool>(4, true));
}

TEST_CASE("readers are active for days after a visit and are skipped while they have unread items",
          "[fill]") {
  Site site(12);
  const auto now = wall_now();
  site.visited("ann", now);
  site.visited("bob", now - 6 * kDay);
  site.visited("old", now - 8 * kDay);
  site.options.limit = 2;
  const auto first = site.push_active();
  CHECK(first.readers == 2);
  CHECK(first.served == 2);
  CHECK(first.pushed == 4);
  CHECK(site.timeline("old").empty());
  const auto again = site.push_active();
  CHECK(again.skipped == 2);
  CHECK(again.pushed == 0);
  site.visited("bob", now + seconds{60});
  const auto third = site.push_active();
  CHECK(third.served == 1);
  CHECK(third.skipped == 1);
  CHECK(site.timeline("bob") == Ids{"i2", "i3", "i0", "i1"});
  CHECK(site.timeline("ann") == Ids{"i0", "i1"});
  site.options.readers = {"ann"};
  CHECK(site.push().pushed == 2);  // named readers are always served
}

TEST_CASE("an item pushed within the second of the last visit or later is unread", "[fill]") {
  const UnixSeconds at{seconds{1'750'000'000}};
  CHECK_FALSE(has_unread(0, at));
  CHECK_FALSE(has_unread(1'750'000'000'000'000, at));
  CHECK(has_unread(1'750'000'000'000'001, at));
}

TEST_CASE_METHOD(Site, "every active reader is served, whatever their number", "[fill]") {
  for (int i = 0; i < 700; ++i) visited("u" + std::to_string(i), wall_now());
  options.limit = 1;
  const auto summary = push_active();
  CHECK(summary.served + summary.skipped == summary.readers);  // ZSCAN may return a reader twice
  CHECK(summary.pushed == 700);
  for (int i = 0; i < 700; ++i) REQUIRE(timeline("u" + std::to_string(i)) == Ids{"i0"});
}

TEST_CASE_METHOD(Site, "a dry run prints and changes nothing", "[fill]") {
  push();
  visited("bob", wall_now());
  const auto before = dump_all_keys();
  options.dry_run = true;
  options.limit = 4;
  const auto summary = push_active();
  CHECK(summary.served == 1);
  CHECK(summary.pushed == 4);
  CHECK(dump_all_keys() == before);
  CHECK(timeline("bob").empty());
}

TEST_CASE_METHOD(Site, "SIGTERM ends a run between two readers and the next run serves the rest", "[fill]") {
  sigset_t term, old;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  REQUIRE(pthread_sigmask(SIG_BLOCK, &term, &old) == 0);
  REQUIRE(raise(SIGTERM) == 0);
  const auto stopped = push();
  CHECK(pthread_sigmask(SIG_SETMASK, &old, nullptr) == 0);
  CHECK(stopped.interrupted);
  CHECK(stopped.served == 0);
  CHECK(timeline().empty());
  CHECK(push().served == 1);
}

TEST_CASE_METHOD(
    Site,
    "readers of a file and named readers are served, and a bad id is rejected before anything is pushed",
    "[fill]") {
  options.readers_file = (folder.path() / "readers").string();
  std::ofstream(options.readers_file) << "bob\r\n\ncarl\n";
  CHECK(push().served == 3);
  std::ofstream(options.readers_file) << "dora\n\tbad\n";
  options.readers.clear();
  const auto refused = push_once(options, target);
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).detail == options.readers_file + ": line 2 is not a valid id");
  CHECK(timeline("dora").empty());
  options.readers_file += "-none";
  CHECK(error_of(push_once(options, target)).reason == "no_file");
}

TEST_CASE_METHOD(Site, "an unknown channel and the follow channel are refused", "[fill]") {
  options.channel = "elsewhere";
  CHECK(error_of(push_once(options, target)).detail ==
        "unknown channel elsewhere; waterfall.channels has follow, discover");
  options.channel = "follow";
  CHECK(error_of(push_once(options, target)).reason == "follow_channel");
  CHECK_FALSE(exists(keys().timeline("follow", "ann")));
}

TEST_CASE_METHOD(Site, "an unreachable Redis is reported with its address", "[fill]") {
  target.redis = "unix://" + (folder.path() / "absent.sock").string();
  const auto result = push_once(options, target);
  REQUIRE_FALSE(result);
  CHECK(error_of(result).code == ErrorCode::kUnavailable);
  CHECK(error_of(result).detail.starts_with("Redis at " + (folder.path() / "absent.sock").string() + ": "));
}
