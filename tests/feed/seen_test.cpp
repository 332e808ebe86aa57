#include "core/feed/seen_filter.h"

#include <array>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <random>
#include <set>

#include "core/feed/seen_layout.h"
#include "core/redis/cluster/slot.h"
#include "tests/support/error_of.h"
#include "tests/support/fake_redis.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;
using redis::Pipeline;
using std::chrono::days;

namespace {

constexpr std::int64_t kDay = 86400;

struct SeenFixture : Fixture {
  std::unique_ptr<feed::SeenFilter> filter;
  UnixSeconds today = std::chrono::floor<days>(now());  // 00:00:00 UTC

  SeenFixture() { restart(); }
  // As a worker that starts with `settings`.
  void restart() {
    filter = feed::make_seen_filter(settings, keys());
    REQUIRE(run_sync(filter->probe(redis)));
  }
  // On an empty server, without any layout.
  void begin() {
    server().flush_all();
    restart();
  }
  void add(const std::string& reader, const std::vector<std::string>& names, UnixSeconds at,
           bool is_resend = false) {
    REQUIRE(run_sync(filter->add(redis, ReaderId::trusted(reader), ids_of(names), at, is_resend)));
  }
  std::shared_ptr<const feed::SeenView> view(const std::string& reader, UnixSeconds at) {
    Pipeline command;
    command.add("PING");
    const std::size_t expected = filter->append_read(command, ReaderId::trusted(reader), at);
    REQUIRE(command.size() == expected + 1);
    const auto replies = redis.call(command);
    REQUIRE(replies);
    auto out = filter->parse_view(*replies, 1, ReaderId::trusted(reader), at);
    REQUIRE(out);
    return *out;
  }
  std::vector<bool> check(const std::string& reader, const std::vector<std::string>& names, UnixSeconds at) {
    auto out = run_sync(filter->check(redis, ReaderId::trusted(reader), view(reader, at), ids_of(names), at));
    REQUIRE(out);
    return *out;
  }
  bool knows(const std::string& reader, const std::string& item, UnixSeconds at) {
    return check(reader, {item}, at).front();
  }
  std::size_t count_known(const std::string& reader, const std::vector<std::string>& names, UnixSeconds at) {
    const auto seen = check(reader, names, at);
    return static_cast<std::size_t>(std::count(seen.begin(), seen.end(), true));
  }
  // Keys of filters, without the shard counts.
  std::vector<std::string> shards() {
    std::vector<std::string> out;
    for (std::string& key : all_keys()) {
      if (key.find("bf:global:") != key.npos && !key.ends_with("shards")) out.push_back(std::move(key));
    }
    return out;
  }
  std::int64_t expires_at(const std::string& key) {
    return command("EXPIRETIME", key).integer().value_or(-9);
  }

  static std::vector<ItemId> ids_of(const std::vector<std::string>& names) {
    std::vector<ItemId> out;
    for (const std::string& each : names) out.push_back(ItemId::trusted(each));
    return out;
  }
  static std::vector<std::string> numbered(const std::string& name, std::size_t count) {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < count; ++i) out.push_back(name + std::to_string(i));
    return out;
  }
};

}  // namespace

TEST_CASE("shown items are known and few others are", "[seen]") {
  SeenFixture one;
  one.begin();
  const auto shown = SeenFixture::numbered("shown-", 250);
  one.add("alice", shown, one.today);
  CHECK(one.count_known("alice", shown, one.today) == 250);
  // 0.06 are expected
  CHECK(one.count_known("alice", SeenFixture::numbered("other-", 1000), one.today) <= 2);
  CHECK(one.count_known("bob", shown, one.today) <= 1);
  CHECK(one.check("alice", {}, one.today).empty());
}

TEST_CASE("an impression is known until the end of the seventh day after its own, and not longer", "[seen]") {
  SeenFixture one;
  const auto second = GENERATE(std::int64_t{0}, std::int64_t{kDay / 2}, std::int64_t{kDay - 1});
  one.add("alice", {"story"}, one.today + seconds{second});
  for (std::int64_t day = 0; day <= 7; ++day) {
    CHECK(one.knows("alice", "story", one.today + seconds{std::max(second, day * kDay)}));
    CHECK(one.knows("alice", "story", one.today + seconds{day * kDay + kDay - 1}));
  }
  CHECK_FALSE(one.knows("alice", "story", one.today + seconds{8 * kDay}));
}

TEST_CASE("a day's keys get their expiry when they are created, and keep it", "[seen]") {
  SeenFixture one;
  one.begin();
  for (const int back : {0, 3, 7}) {
    one.begin();
    const UnixSeconds day = one.today - days(back);
    one.add("alice", {"a"}, day + seconds{kDay - 1});
    REQUIRE(one.shards().size() == 1);
    const std::string key = one.shards().front();
    CHECK(key.find(utc_day(day)) != key.npos);
    CHECK(one.expires_at(key) == (day + days(8)).time_since_epoch().count());
    one.add("alice", {"b"}, day);
    CHECK(one.expires_at(key) == (day + days(8)).time_since_epoch().count());
  }
  for (const std::string& key : one.all_keys()) CHECK(one.ttl(key) > 0);
}

TEST_CASE("adding to an expired day does nothing", "[seen]") {
  SeenFixture one;
  one.add("alice", {"old"}, one.today - days(7) - seconds{1});
  CHECK(one.shards().empty());
  one.add("alice", {"old"}, one.today - days(7));
  CHECK(one.shards().size() == 1);
}

TEST_CASE("items added again stay known", "[seen]") {
  SeenFixture one;
  const auto items = SeenFixture::numbered("item-", 150);
  for (const bool again : {false, false, true}) one.add("alice", items, one.today, again);
  CHECK(one.count_known("alice", items, one.today) == 150);
  CHECK(one.shards().size() == 1);
}

TEST_CASE("the first write to a shard sets its expiry, later ones are plain APPENDs", "[seen]") {
  SeenFixture one;
  one.begin();
  const auto calls = [&one](const std::function<void()>& work) {
    one.command("CONFIG", "RESETSTAT");
    work();
    const std::string stats = one.text(one.command("INFO", "commandstats"));
    return std::array{stats.find("cmdstat_append") != stats.npos,
                      stats.find("cmdstat_evalsha") != stats.npos};
  };
  CHECK(calls([&] { one.add("alice", {"a"}, one.today); }) == std::array{true, true});
  CHECK(calls([&] { one.add("alice", {"b"}, one.today); }) == std::array{true, false});
  CHECK(calls([&] { one.add("alice", {"b"}, one.today, true); }) == std::array{true, true});
  CHECK(one.ttl(one.shards().front()) > 0);
}

TEST_CASE("a shard that was lost gets its expiry again", "[seen]") {
  SeenFixture one;
  one.begin();
  one.add("alice", {"a"}, one.today);
  const std::string key = one.shards().front();
  one.command("DEL", key);
  one.add("alice", {"b"}, one.today);
  CHECK(one.expires_at(key) == (one.today + days(8)).time_since_epoch().count());
  CHECK(one.knows("alice", "b", one.today));
}

TEST_CASE("yesterday's shard is compacted and keeps its expiry", "[seen]") {
  SeenFixture one;
  one.begin();
  const UnixSeconds yesterday = one.today - days(1);
  for (int page = 0; page < 40; ++page)
    one.add("alice", SeenFixture::numbered("p" + std::to_string(page) + "-", 20), yesterday);
  const std::string key = one.shards().front();
  const auto memory = [&] { return one.command("MEMORY", "USAGE", key).integer().value_or(0); };
  const std::int64_t before = memory(), end = one.expires_at(key);
  one.add("alice", {"today"}, one.today);
  CHECK(memory() < before - 200);
  CHECK(one.expires_at(key) == end);
  CHECK(one.count_known("alice", SeenFixture::numbered("p39-", 20), one.today) == 20);
}

TEST_CASE(
    "a reader of 3,000 items a day for eight days has no false negatives and at most 0.2 % false "
    "positives",
    "[seen]") {
  SeenFixture one;
  one.settings.seen.impressions_per_day = 1000;
  one.begin();
  for (int back = 0; back < 8; ++back) {
    const UnixSeconds day = one.today - days(back);
    one.add("heavy", SeenFixture::numbered("shown-" + std::to_string(back) + "-", 3000), day);
    for (int other = 0; other < 32; ++other)
      one.add("reader-" + std::to_string(other),
              SeenFixture::numbered("item-" + std::to_string(back) + "-", 64), day);
  }
  for (int back = 0; back < 8; ++back)
    CHECK(one.count_known("heavy", SeenFixture::numbered("shown-" + std::to_string(back) + "-", 3000),
                          one.today) == 3000);
  const std::size_t refused = one.count_known("heavy", SeenFixture::numbered("new-", 50'000), one.today);
  INFO(refused << " of 50,000");
  CHECK(refused <= 100);
  CHECK(refused > 0);
}

TEST_CASE("any valid id is remembered as itself", "[seen]") {
  SeenFixture one;
  const std::vector<std::string> names{std::string(128, 'x'),
                                       "'; DROP TABLE seen; --",
                                       "\xe6\x96\xb0\xe9\x97\xbb",
                                       "a*b?[c]",
                                       "%s%n",
                                       "\\0",
                                       std::string("nul\0byte", 8),
                                       "1",
                                       "-1",
                                       "$(id)",
                                       "\"",
                                       "\xf0\x9f\x98\x80"};
  for (const std::string& reader : names) one.add(reader, {"of-" + reader, reader}, one.today);
  for (const std::string& reader : names) {
    for (const std::string& other : names)
      CHECK(one.count_known(reader, {"of-" + other, other}, one.today) == (reader == other ? 2 : 0));
  }
}

TEST_CASE("different pairs of reader and item with the same letters differ", "[seen]") {
  SeenFixture one;
  one.settings.seen.impressions_per_day = 1000;
  one.begin();
  one.add("a", {"b:c"}, one.today);
  one.add("ab", {"c"}, one.today);
  CHECK(one.knows("a", "b:c", one.today));
  CHECK_FALSE(one.knows("a:b", "c", one.today));
  CHECK_FALSE(one.knows("a", "bc", one.today));
  CHECK_FALSE(one.knows("b", "a:c", one.today));
}

TEST_CASE("a change of settings takes effect the next day, and existing days keep their layout", "[seen]") {
  SeenFixture one;
  one.begin();
  one.add("alice", {"before"}, one.today);
  one.add("alice", {"yesterday"}, one.today - days(1));
  one.settings.seen.impressions_per_day = 10'000'000;
  one.restart();
  one.add("alice", {"after"}, one.today);
  one.add("alice", {"tomorrow"}, one.today + days(1));
  CHECK(one.count_known("alice", {"before", "after", "yesterday"}, one.today) == 3);
  CHECK(one.count_known("alice", {"before", "after", "yesterday", "tomorrow"}, one.today + days(1)) == 4);
  const auto shards = [&](UnixSeconds day) {
    return one.text(one.command("GET", one.keys().seen_shard(utc_day(day), "shards")));
  };
  CHECK(shards(one.today - days(1)) == "1954");
  CHECK(shards(one.today) == "1954");
  CHECK(shards(one.today + days(1)) == "19532");
}

TEST_CASE("a day laid out by another worker is read and written with that layout", "[seen]") {
  SeenFixture one;
  one.begin();
  const UnixSeconds tomorrow = one.today + days(1);
  one.command("SET", one.keys().seen_shard(utc_day(tomorrow), "shards"), 3, "EX", 1000);
  REQUIRE(run_sync(one.filter->load_day(one.redis, tomorrow)));
  one.add("alice", {"a"}, tomorrow);
  CHECK(one.knows("alice", "a", tomorrow));
  REQUIRE(one.shards().size() == 1);
  CHECK(std::set<std::string>{"{0}", "{1}", "{2}"}.contains(
      one.shards().front().substr(one.shards().front().rfind(':') + 1)));
}

TEST_CASE("every key of the filter matches a pattern in keys.h", "[seen]") {
  SeenFixture one;
  one.settings.redis.key_prefix = "site:";
  one.begin();
  one.add("alice", {"a"}, one.today);
  REQUIRE(one.all_keys().size() == 2);
  for (const std::string& key : one.all_keys()) {
    const redis::KeyPattern* pattern = one.keys().pattern_of(key);
    REQUIRE(pattern != nullptr);
    CHECK(pattern->pattern == "bf:global:*:*");
    CHECK(one.text(one.command("TYPE", key)) == pattern->type);
  }
}

TEST_CASE("all keys of one read are in one cluster slot", "[seen]") {
  SeenFixture site;
  site.settings.seen.impressions_per_day = 1 << 20;  // a few thousand shards
  site.begin();
  for (const char* reader : {"a", "b", "c"}) {
    Pipeline command;
    REQUIRE(site.filter->append_read(command, ReaderId::trusted(reader), site.today) == 1);
    std::set<std::uint16_t> slots;
    const std::string text(command.bytes());
    int keys = 0;
    for (std::size_t at = 0; (at = text.find("bf:global:", at)) != std::string::npos; ++keys) {
      const std::size_t end = text.find('\r', at);
      slots.insert(redis::slot_of(std::string_view(text).substr(at, end - at)));
      at = end;
    }
    CHECK(keys == 8);
    CHECK(slots.size() == 1);
  }
}

TEST_CASE("the status reports impressions, bytes and rate of each day", "[seen]") {
  SeenFixture one;
  one.settings.seen.impressions_per_day = 1000;
  one.begin();
  const auto empty = run_sync(one.filter->status(one.redis, one.today));
  REQUIRE(empty);
  CHECK(empty->days.empty());
  CHECK(empty->bytes == 0);
  CHECK(empty->false_positive_rate == 0);
  one.add("alice", SeenFixture::numbered("a", 1000), one.today);
  one.add("alice", SeenFixture::numbered("b", 500), one.today - days(2));
  const auto status = run_sync(one.filter->status(one.redis, one.today + seconds{kDay - 1}));
  REQUIRE(status);
  CHECK(status->filter == "fingerprints");
  REQUIRE(status->days.size() == 2);
  CHECK(status->days[0].day == utc_day(one.today));
  CHECK(status->days[0].impressions == 1000);
  CHECK(status->days[0].fill == Approx(1000 / 1024.0));
  CHECK(status->days[0].bytes == 3000);
  CHECK(status->days[0].false_positive_rate == Approx(1000 / 16777216.0).epsilon(0.01));
  CHECK(status->days[1].fill == Approx(500 / 1024.0));
  CHECK(status->bytes == 4500);
  CHECK(status->false_positive_rate == Approx(1500 / 16777216.0).epsilon(0.01));
}

TEST_CASE("the status of many shards is estimated from a sample", "[seen]") {
  SeenFixture one;
  one.settings.seen.impressions_per_day = 50'000;  // 98 shards
  one.begin();
  for (int reader = 0; reader < 2000; ++reader)
    one.add("reader-" + std::to_string(reader), SeenFixture::numbered("item-", 50), one.today);
  const auto status = run_sync(one.filter->status(one.redis, one.today));
  REQUIRE(status);
  REQUIRE(status->days.size() == 1);
  CHECK(status->days[0].impressions == Approx(100'000).epsilon(0.2));
  CHECK(status->days[0].fill == Approx(2).epsilon(0.2));
}

TEST_CASE("invalid filter data is an error or ignored, never a crash", "[seen]") {
  SeenFixture one;
  one.add("alice", {"a"}, one.today);
  const std::string key = one.shards().front();
  one.command("SET", key, "rubbish");
  CHECK_FALSE(one.knows("alice", "a", one.today));
  one.command("DEL", key);
  one.command("SADD", key, "rubbish");
  CHECK_FALSE(one.knows("alice", "a", one.today));
  const ReaderId alice = ReaderId::trusted("alice");
  const auto added =
      run_sync(one.filter->add(one.redis, alice, SeenFixture::ids_of({"b"}), one.today, false));
  REQUIRE_FALSE(added);  // not acknowledged, so not lost
  CHECK(error_of(added).code == ErrorCode::kInternal);
  CHECK(one.filter->counters().recorded == 1);
  one.command("DEL", key);
  one.add("alice", {"b"}, one.today);
  CHECK(one.knows("alice", "b", one.today));
  CHECK_FALSE(one.filter->parse_view({}, 0, alice, one.today));
  Pipeline command;
  command.add("PING")
      .add("MGET", "a", "b")
      .add("NO-SUCH-COMMAND")
      .add("MGET", "1", "2", "3", "4", "5", "6", "7", "8", "9");
  const auto replies = one.redis.call(command);
  REQUIRE(replies);
  for (std::size_t first = 0; first < 5; ++first)
    CHECK_FALSE(one.filter->parse_view(*replies, first, alice, one.today));
}

TEST_CASE("a shard with foreign bytes is still read and written", "[seen]") {
  SeenFixture one;
  one.add("alice", {"a"}, one.today);
  one.command("APPEND", one.shards().front(), "x");
  one.add("alice", {"b"}, one.today);
  CHECK(one.count_known("alice", {"a", "b"}, one.today) == 2);
  CHECK_FALSE(one.knows("alice", "c", one.today));
}

TEST_CASE("a shard grows no further than its limit, and refused impressions are counted", "[seen]") {
  SeenFixture one;
  one.add("alice", {"a"}, one.today);
  const std::string key = one.shards().front();
  const std::string nearly(static_cast<std::size_t>(feed::kMaxShardBytes) - 1, 'x');
  one.command("SET", key, nearly);
  const auto length = [&] { return one.command("STRLEN", key).integer().value_or(0); };
  one.add("alice", {"b"}, one.today);
  CHECK(length() == feed::kMaxShardBytes + 2);
  for (const bool again : {false, true}) one.add("alice", {"c", "d"}, one.today, again);
  one.restart();  // as a worker that does not know about it
  one.add("alice", {"c"}, one.today);
  CHECK(length() == feed::kMaxShardBytes + 2);
  CHECK(one.filter->counters().recorded == 0);
  CHECK(one.filter->counters().refused == 1);
}

// --- redisbloom

namespace {

// A server that has the module, or pretends to.
struct FakeBloom {
  std::mutex mutex;
  std::vector<FakeRedis::Command> commands;
  std::string probe_reply =
      "*3\r\n*1\r\n$9\r\nbf.insert\r\n*1\r\n$10\r\nbf.mexists\r\n*1\r\n$7\r\nbf.info\r\n";
  std::string path = (server().directory() / "fake.sock").string();
  FakeRedis fake{path, [this](const FakeRedis::Command& command, int) -> std::optional<std::string> {
                   const std::lock_guard lock(mutex);
                   commands.push_back(command);
                   if (command[0] == "COMMAND") return probe_reply;
                   if (command[0] == "BF.MEXISTS")
                     return command[1].ends_with("20260304") ? "*2\r\n:0\r\n:1\r\n" : "*2\r\n:0\r\n:0\r\n";
                   if (command[0] == "EVALSHA") return ":1\r\n";
                   return "+PONG\r\n";
                 }};
  // Returns the commands received since the last call.
  std::vector<FakeRedis::Command> take_commands() {
    const std::lock_guard lock(mutex);
    return std::exchange(commands, {});
  }
  redis::Endpoint endpoint() const {
    redis::Endpoint out;
    out.unix_path = path;
    return out;
  }
};

const UnixSeconds kNoon{seconds{1772798400}};  // 2026-03-06T12:00:00Z

Settings bloom() {
  Settings out;
  out.seen.filter = "redisbloom";
  return out;
}

}  // namespace

TEST_CASE(
    "redisbloom: reads with eight BF.MEXISTS in one pipeline, newest day first, and adds with one script",
    "[seen]") {
  FakeBloom bloom_server;
  redis::BlockingRedis redis(bloom_server.endpoint(), milliseconds(5000), redis::kAllScripts);
  const auto filter = feed::make_seen_filter(bloom(), redis::Keys(""));
  const auto probed = run_sync(filter->probe(redis));
  INFO((probed ? "" : probed.error().detail));
  REQUIRE(probed);
  bloom_server.take_commands();

  const ReaderId alice = ReaderId::trusted("alice");
  Pipeline nothing;
  CHECK(filter->append_read(nothing, alice, kNoon) == 0);
  CHECK(nothing.empty());
  const auto view = filter->parse_view({}, 0, alice, kNoon);
  REQUIRE(view);
  CHECK(*view == nullptr);
  const auto seen = run_sync(filter->check(redis, alice, *view, SeenFixture::ids_of({"i1", "i2"}), kNoon));
  REQUIRE(seen);
  CHECK(*seen == std::vector<bool>{false, true});
  const auto commands = bloom_server.take_commands();
  REQUIRE(commands.size() == 8);
  CHECK(commands[0] == FakeRedis::Command{"BF.MEXISTS", "bf:global:20260306", "5:alice:i1", "5:alice:i2"});
  CHECK(commands[7] == FakeRedis::Command{"BF.MEXISTS", "bf:global:20260227", "5:alice:i1", "5:alice:i2"});

  REQUIRE(run_sync(filter->add(redis, alice, SeenFixture::ids_of({"i1", "i2"}), kNoon, false)));
  const auto added = bloom_server.take_commands();
  REQUIRE(added.size() == 1);
  const auto& script = added[0];
  REQUIRE(script.size() == 9);
  CHECK(script[3] == "bf:global:20260306");
  CHECK(script[4] == "1773446400");  // 2026-03-14T00:00:00Z
  CHECK(script[5] == "1000000");
  CHECK(std::stod(script[6]) == Approx(0.0012555).epsilon(1e-4));
  CHECK(script[7] == "5:alice:i1");
  CHECK(script[8] == "5:alice:i2");
}

TEST_CASE("redisbloom: a server without the module is reported at startup", "[seen]") {
  Fixture one;
  const auto filter = feed::make_seen_filter(bloom(), redis::Keys(""));
  const auto probed = run_sync(filter->probe(one.redis));
  REQUIRE_FALSE(probed);
  CHECK(error_of(probed).reason == "no_redisbloom");
  CHECK(error_of(probed).code == ErrorCode::kUnavailable);
  CHECK(error_of(probed).detail.find("seen.filter = \"fingerprints\"") != std::string::npos);
  const auto plain = feed::make_seen_filter(Settings(), redis::Keys(""));
  CHECK(run_sync(plain->probe(one.redis)));
}

TEST_CASE("redisbloom: with the real module shown items are known for seven days", "[seen]") {
  const char* const module = std::getenv("FRESHET_REDISBLOOM");
  if (module == nullptr || *module == '\0') {
    WARN("SKIPPED: FRESHET_REDISBLOOM names no module file (redisbloom.so)");
    return;
  }
  RedisServer with_module({"--loadmodule", module});
  redis::BlockingRedis redis(with_module.endpoint(), milliseconds(5000), redis::kAllScripts);
  const auto filter = feed::make_seen_filter(bloom(), redis::Keys(""));
  REQUIRE(run_sync(filter->probe(redis)));
  const ReaderId alice = ReaderId::trusted("alice");
  const UnixSeconds today = std::chrono::floor<days>(wall_now());
  const auto shown = SeenFixture::ids_of(SeenFixture::numbered("shown-", 250));
  for (const bool again : {false, true}) REQUIRE(run_sync(filter->add(redis, alice, shown, today, again)));
  REQUIRE(run_sync(filter->add(redis, alice, SeenFixture::ids_of({"old"}), today - days(8), true)));
  for (const UnixSeconds at : {today, today + seconds{8 * kDay - 1}}) {
    const auto seen = run_sync(filter->check(redis, alice, nullptr, shown, at));
    REQUIRE(seen);
    CHECK(*seen == std::vector<bool>(250, true));
  }
  const auto gone = run_sync(filter->check(redis, alice, nullptr, shown, today + seconds{8 * kDay}));
  REQUIRE(gone);
  CHECK(*gone == std::vector<bool>(250, false));
  const auto old =
      run_sync(filter->check(redis, alice, nullptr, SeenFixture::ids_of({"old"}), today - days(1)));
  REQUIRE(old);
  CHECK_FALSE(old->front());
  const auto status = run_sync(filter->status(redis, today));
  REQUIRE(status);
  REQUIRE(status->days.size() == 1);
  CHECK(status->days[0].impressions == 250);
  Pipeline ttl;
  ttl.add("EXPIRETIME", "bf:global:" + utc_day(today));
  const auto expires = redis.call(ttl);
  REQUIRE(expires);
  CHECK(expires->front().integer() == (today + days(8)).time_since_epoch().count());
}
