// An export contains every key about a reader that its name leads to, without a scan.
#include "core/readers/personal_data.h"

#include <set>

#include "core/async/event_loop.h"
#include "tests/cost/cost.h"
#include "tests/readers/fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

const std::string kChannel = "discover";

struct ExportFixture : ReaderFixture {
  ExportFixture() { settings.recorder.enabled = false; }

  readers::Export collect() {
    readers::PersonalData data(counting, pool, settings, keys(), pseudonyms, [] { return "job"; });
    auto out = run_sync(data.collect(kReader, 0));
    REQUIRE(out);
    return *out;
  }
  // Creates a key of this type that holds one value, or one that has the reader as a member.
  void create(const redis::KeyPattern& row, const std::string& key) {
    if (row.subject == redis::Subject::kMembers)
      command("ZADD", key, 7, kReader.view());
    else if (row.type == "string")
      command("SET", key, "x");
    else if (row.type == "list")
      command("RPUSH", key, "x");
    else if (row.type == "hash")
      command("HSET", key, "x", 1);
    else
      command("ZADD", key, 1, "x");
  }
  static std::string replaced(std::string text, std::string_view part, const std::string& by) {
    const std::size_t at = text.find(part);
    return at == text.npos ? text : text.replace(at, part.size(), by);
  }

  EventLoop loop;
  BlockingPool pool{loop, 1, 1, "busy"};
  CountingRedis counting{redis};
  readers::ReaderPseudonyms pseudonyms{[](const ReaderId& each) { return "v-" + each.str(); }, {}};
};

}  // namespace

TEST_CASE("an export has every key about a reader except those that name an article first",
          "[readers][privacy]") {
  ExportFixture site;
  std::set<std::string> expected;
  for (const redis::KeyPattern& row : redis::kKeyPatterns) {
    if (row.subject == redis::Subject::kNone || row.subject == redis::Subject::kValue) continue;
    const std::string name = row.subject == redis::Subject::kMembers ? "x" : kReader.str();
    const std::string key = ExportFixture::replaced(
        ExportFixture::replaced(std::string(row.pattern), "{*}", "{" + name + "}"), "*", kChannel);
    INFO(key);
    if (row.type == "set" || redis::names_article_first(row)) {
      if (row.type == "string") site.command("SET", key, "x");
    } else {
      site.create(row, key);
      expected.insert(key);
    }
  }
  site.command("HSET", "hot:added:{v-" + kReader.str() + "}", "x", 1);
  expected.insert("hot:added:{v-" + kReader.str() + "}");
  site.command("HSET", "user:views:at:{another}", "x", 1);

  std::set<std::string> exported;
  for (const readers::ExportedKey& each : site.collect().keys) {
    exported.insert(each.name);
    CHECK_FALSE(each.description.empty());
    CHECK_FALSE(each.values.empty());
  }
  CHECK(exported == expected);
}

TEST_CASE("an export costs three round trips and no scan, however many keys Redis has",
          "[readers][privacy]") {
  ExportFixture site;
  for (int i = 0; i < 3000; ++i) site.command("SET", "hot:session:{a}:" + std::to_string(i), "1 1");
  site.command("ZADD", site.keys().followed_authors(kReader.view()), 1, "ann", 2, "bob");
  site.command("CONFIG", "RESETSTAT");
  const readers::Export exported = site.collect();
  CHECK(exported.keys.size() == 1);
  CHECK(exported.keys.front().values == std::vector<std::string>{"bob", "2", "ann", "1"});
  CHECK(site.counting.round_trips == 3);
  const std::string stats(site.command("INFO", "commandstats").text());
  CHECK(stats.find("cmdstat_zrange") != stats.npos);
  CHECK(stats.find("scan") == stats.npos);
}

TEST_CASE("an erased visitor's keys that a worker writes a moment later are deleted, too",
          "[readers][privacy]") {
  ExportFixture site;
  const ReaderId visitor = anonymous_reader(VisitorId::trusted("cX")),
                 later = anonymous_reader(VisitorId::trusted("cY"));
  readers::PersonalData data(site.counting, site.pool, site.settings, site.keys(), site.pseudonyms,
                             [] { return "job"; });
  std::vector<std::pair<milliseconds, std::function<void()>>> timers;
  data.erase_again(site.write_queue, [&](milliseconds delay, std::function<void()> call) {
    timers.emplace_back(delay, std::move(call));
  });
  const auto fire = [&] {
    REQUIRE(timers.size() == 1);
    CHECK(timers.front().first == readers::kSettleTime);
    std::exchange(timers, {}).front().second();
  };
  const auto write = [&](const ReaderId& reader) {
    site.command("HSET", site.keys().view_times(reader.view()), "t:a", 1);
    site.command("HSET", site.keys().contributions("v-" + reader.str()), "x", 1);
  };
  write(visitor);
  REQUIRE(run_sync(data.erase_anonymous(visitor, true)));
  CHECK(site.command("DBSIZE").integer() == 1);  // the tombstone
  write(visitor);
  fire();
  REQUIRE(run_sync(data.erase_anonymous(later, true)));
  write(later);
  fire();
  CHECK(site.command("EXISTS", site.keys().view_times(visitor.view())).integer() == 0);
  CHECK(site.command("EXISTS", site.keys().contributions("v-" + visitor.str())).integer() == 0);
  CHECK(site.command("EXISTS", site.keys().view_times(later.view())).integer() == 1);  // not settled
  SECTION("when it is time") { fire(); }
  SECTION("when the worker ends") {
    data.flush();
    std::exchange(timers, {}).front().second();  // nothing is left
  }
  CHECK(site.command("EXISTS", site.keys().view_times(later.view())).integer() == 0);
  CHECK(timers.empty());
}

TEST_CASE("erasing a visitor who may not be stored leaves nothing unless something was stored",
          "[readers][privacy]") {
  ExportFixture site;
  site.pseudonyms.erasure = [](const ReaderId& each) { return "e-" + each.str().substr(1); };
  const ReaderId visitor = anonymous_reader(VisitorId::trusted("cX"));
  readers::PersonalData data(site.counting, site.pool, site.settings, site.keys(), site.pseudonyms,
                             [] { return "job"; });
  REQUIRE(run_sync(data.erase_anonymous(visitor, false)));
  CHECK(site.counting.round_trips == 1);
  CHECK(site.command("DBSIZE").integer() == 0);
  const bool as_reader = GENERATE(true, false);
  const std::string key =
      as_reader ? site.keys().view_times(visitor.view()) : site.keys().contributions("v-" + visitor.str());
  site.command("HSET", key, "x", 1);
  REQUIRE(run_sync(data.erase_anonymous(visitor, false)));
  CHECK(site.command("EXISTS", key).integer() == 0);
  CHECK(site.command("EXISTS", site.keys().tombstone("e-cX")).integer() == 1);
  CHECK(site.command("GET", site.keys().seen_epoch("e-cX")).text() == "1");
}

TEST_CASE("an erased visitor's name leaves the account that they were merged into", "[readers][privacy]") {
  ExportFixture site;
  site.pseudonyms.erasure = [](const ReaderId& each) { return "e-" + each.str().substr(1); };
  const ReaderId visitor = anonymous_reader(VisitorId::trusted("cX"));
  readers::PersonalData data(site.counting, site.pool, site.settings, site.keys(), site.pseudonyms,
                             [] { return "job"; });
  site.command("SET", site.keys().merged_into("e-cX"), kReader.view());
  site.command("SET", site.keys().seen_epoch("e-cX"), 2);
  const std::string names = site.keys().merged_names(kReader.view()), epoch = visitor.str() + kIdMark + "2";
  site.command("ZADD", names, 1, visitor.view(), 2, epoch, 3, visitor.str() + "Y");
  site.counting.round_trips = 0;
  REQUIRE(run_sync(data.erase_anonymous(visitor, true)));
  CHECK(site.counting.round_trips == 2);
  const auto left = site.command("ZRANGE", names, 0, -1);
  REQUIRE(left.size() == 1);
  CHECK(left[0].text() == visitor.str() + "Y");
}

TEST_CASE("a visitor is merged into the account if something about them changed recently, once at a time",
          "[readers]") {
  ExportFixture site;
  site.pseudonyms.erasure = [](const ReaderId& each) { return "e-" + each.str().substr(1); };
  const ReaderId visitor = anonymous_reader(VisitorId::trusted("cX"));
  readers::PersonalData data(site.counting, site.pool, site.settings, site.keys(), site.pseudonyms,
                             [] { return "job"; });
  const auto look = [&] {
    site.counting.round_trips = 0;
    const auto found = run_sync(data.merge_on_login(visitor, kReader));
    REQUIRE(found);
    return *found;
  };
  using readers::LoginMerge;
  const std::string stream = site.keys().partition(0).stream();
  CHECK(look() == LoginMerge::kNothing);
  CHECK(site.counting.round_trips == 1);
  const std::int64_t now = unix_s(site.now()), day = 86400;
  const std::string times = site.keys().view_times(visitor.view()),
                    feed = site.keys().feed_state(visitor.view());
  // A day ago, by each kind of key.
  site.command("ZADD", site.keys().interactions(visitor.view()), now - day - 10, "v:a");
  site.command("ZADD", site.keys().not_interested(visitor.view()), now - day - 10, "a");
  site.command("HSET", times, "t:a", 1);
  site.command("EXPIRE", times, 6 * day - 10);
  site.command("HSET", feed, "0", "x");
  site.command("EXPIRE", feed, 6 * day - 10);
  CHECK(look() == LoginMerge::kNothing);
  CHECK(site.counting.round_trips == 1);
  switch (GENERATE(0, 1, 2, 3, 4)) {
    case 0:
      site.command("ZADD", site.keys().interactions(visitor.view()), now - day + 10, "v:b");
      break;
    case 1:
      site.command("ZADD", site.keys().not_interested(visitor.view()), now - day + 10, "b");
      break;
    case 2:
      site.command("EXPIRE", times, 6 * day + 10);
      break;
    case 3:
      site.command("EXPIRE", feed, 6 * day + 10);
      break;
    default:
      site.command("EXPIRE", feed, 1000);  // its last page was acknowledged
  }
  CHECK(site.command("XLEN", stream).integer() == 0);
  for (int i = 0; i < 2; ++i) {
    CHECK(look() == LoginMerge::kRunning);
    CHECK(site.counting.round_trips == (i == 0 ? 4 : 2));
    CHECK(site.command("XLEN", stream).integer() == 1);
  }
  for (const std::string& key : site.keys().keys_about(visitor.view(), {})) site.command("DEL", key);
  CHECK(look() == LoginMerge::kNothing);
  site.command("SET", site.keys().merged_into("e-cX"), kReader.view());
  CHECK(look() == LoginMerge::kMoved);
}
