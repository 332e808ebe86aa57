// A merge that is ended after any of its steps and started again leaves what an uninterrupted one
// leaves.
#include <limits>
#include <set>

#include "core/readers/reader_merge.h"
#include "core/recorder/merge_worker.h"
#include "core/recorder/write_batch.h"
#include "core/timeline/follow_store.h"
#include "tests/recorder/fixture.h"
#include "tests/recorder/sqlite_shell.h"
#include "tests/support/fake_redis.h"

using namespace freshet;
using namespace freshet::test;

namespace {

const ReaderId kGuest = ReaderId::trusted("guest"), kAnn = ReaderId::trusted("ann");
const std::string kMergeId = "merge";
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

// Passes a number of commands on to a server. Then it closes every connection that sends another,
// and the server's, which ends an open transaction.
class CommandRelay {
 public:
  CommandRelay(const RedisServer& server, const std::string& path)
      : server_(server),
        path_(path),
        fake_(path, [this](const FakeRedis::Command& command, int) { return relay(command); }) {}
  void allow(std::int64_t commands) { allowed_ = commands; }
  bool is_cut() const { return allowed_ < 0; }
  redis::Endpoint endpoint() const {
    redis::Endpoint out;
    out.unix_path = path_;
    return out;
  }

 private:
  std::optional<std::string> relay(const FakeRedis::Command& command) {
    if (--allowed_ < 0) {
      upstream_.reset();
      return std::nullopt;
    }
    if (!upstream_) upstream_.emplace(server_.socket());
    std::string request = "*" + std::to_string(command.size()) + "\r\n", reply;
    for (const std::string& each : command)
      request += "$" + std::to_string(each.size()) + "\r\n" + each + "\r\n";
    if (!upstream_->send(request)) return std::nullopt;
    while (reply_end(reply, 0) == std::string::npos) {
      if (!upstream_->receive(reply)) return std::nullopt;
    }
    return reply;
  }
  // Returns where the reply that begins at `at` ends; npos: it is incomplete.
  static std::size_t reply_end(const std::string& bytes, std::size_t at) {
    const std::size_t line_end = bytes.find("\r\n", at);
    if (line_end == std::string::npos) return line_end;
    const char type = bytes[at];
    std::size_t end = line_end + 2;
    if (type != '$' && type != '*') return end;
    const std::int64_t count = redis::to_int(std::string_view(bytes).substr(at + 1, line_end - at - 1));
    if (type == '$') end += count < 0 ? 0 : static_cast<std::size_t>(count) + 2;
    for (std::int64_t i = 0; type == '*' && i < count && end != std::string::npos; ++i)
      end = reply_end(bytes, end);
    return end == std::string::npos || end > bytes.size() ? std::string::npos : end;
  }

  const RedisServer& server_;
  const std::string path_;
  std::optional<UnixClient> upstream_;
  std::atomic<std::int64_t> allowed_{kUnlimited};
  FakeRedis fake_;
};

struct MergeCrashFixture : Fixture {
  MergeCrashFixture() {
    std::filesystem::create_directories(settings.spool.path);
    settings.timeline.channels = {"discover", "follow"};
    settings.interactions.max_kept = 3;
    settings.history.size = 3;
    settings.feedback.max_items = 3;
  }

  // Stores data of both readers, and requests the merge.
  void prepare(const ReaderId& from) {
    server.flush_all();
    for (const char* const suffix : {"", "-wal", "-shm"})
      std::filesystem::remove(settings.recorder.database + suffix);
    REQUIRE(recorder::create_groups(redis, keys()));
    const auto database = open_to_write();
    const auto token = database->stored_fencing_token();
    REQUIRE(token);
    lease.emplace(keys());
    REQUIRE(lease->acquire(redis, database->database_id(), *token));

    const auto put = [&](const ReaderId& reader, const char* item, std::int64_t at) {
      const std::string id = item;
      command("RPUSH", keys().view_history(readers::ViewKind::kTopic, reader.view()), id);
      command("RPUSH", keys().view_history(readers::ViewKind::kReply, reader.view()), id);
      command("HSET", keys().view_times(reader.view()), "t:" + id, at, "r:" + id, at);
      command("ZADD", keys().interactions(reader.view()), at, "l:" + id);
      command("ZADD", keys().not_interested(reader.view()), at, "not-" + id);
      command("HSET", keys().not_interested_reasons(reader.view()), "not-" + id, "because " + id);
    };
    put(from, "c", now - 10), put(from, "b", now - 30), put(from, "a", now - 50);
    put(kAnn, "e", now - 20), put(kAnn, "a", now - 40);
    for (const ReaderId& reader : {from, kAnn}) command("EXPIRE", keys().interactions(reader.view()), 86400);
    command("SET", keys().archived_interactions(from.view()), "0123456789abcdefghij");
    command("SET", keys().archived_interactions(kAnn.view()), "abcdefghijABCDEFGHIJ");
    command("ZADD", keys().merged_names(from.view()), 1, "earlier");
    command("ZADD", keys().merged_names(kAnn.view()), 2, "other", 3, "another");
    const std::string unacknowledged =
        "0=" + std::string("\x1f") + "7\x1f" + "1\x1f" + "1\x1f" + "1\x1f" + "0\x1f" + "0\x1f";
    command("HSET", keys().feed_state(from.view()), "noted", 1, "3", unacknowledged + "p3", "0",
            "1" + unacknowledged.substr(1) + "p0", "late", unacknowledged + "p1\n" + unacknowledged + "p2\n");
    command("RPUSH", keys().feed_cache(from.view()), "a");
    command("ZADD", keys().reader_event_ids(from.view()), now, "event");
    command("HSET", keys().contributions(pseudonyms.visitor(from)), "network", "n", "batches", "ab", "a:x",
            "2 1 9 0 0 0 5", "a:y", "4 1 9 2 1 0.5 6", "p:z", "1 1 0 0 0 0 7");
    command("HSET", keys().contributions(pseudonyms.visitor(kAnn)), "a:x", "3 1 9 0 0 0 4");
    command("SET", keys().merged_into(pseudonyms.erasure(kAnn)),
            from.view());  // a redirect that would lead back
    if (is_anonymous_reader(from)) {
      REQUIRE(record(server.endpoint()));
    } else {
      put_rows(*database, from);
      put_follows(from);
    }
    command("HSET", keys().job(kMergeId), "state", "queued");
    command("XADD", keys().partition(0).stream(), "*", "op", "merge", "reader", from.view(), "to",
            kAnn.view(), "job", kMergeId);
  }
  void put_rows(database::Database& database, const ReaderId& from) const {
    REQUIRE(database.begin());
    for (const ReaderId& reader : {from, kAnn}) {
      const std::int64_t at = now - (reader == kAnn ? 40 : 20);
      const UnixSeconds then{seconds{at}};
      readers::ReaderEvent event;
      event.reader = reader, event.item = ItemId::trusted(reader == kAnn ? "e" : "a"), event.at = then;
      REQUIRE(database.readers().put_interaction(event));
      for (const char* const item : {"not-a", "recorded"})
        REQUIRE(database.readers().put_dismissal({reader, ItemId::trusted(item), {}, {}, {}}, then));
    }
    REQUIRE(database.commit());
  }
  void put_follows(const ReaderId& from) {
    int jobs = 0;
    timeline::RedisFollowStore follows(redis, settings, keys(),
                                       [&] { return "publication" + std::to_string(++jobs); });
    for (const char* const author : {"bob", "eve"})
      REQUIRE(
          run_sync(follows.publish(AuthorId::trusted(author), {ItemId::trusted(std::string(author) + "1")})));
    REQUIRE(run_sync(follows.follow(from, AuthorId::trusted("bob"))));
    REQUIRE(run_sync(follows.follow(from, AuthorId::trusted("eve"))));
    REQUIRE(run_sync(follows.follow(kAnn, AuthorId::trusted("eve"))));
    for (const std::string& channel : settings.timeline.channels) {
      redis::Pipeline push;
      timeline::append_timeline_pushes(push, keys(), settings.timeline,
                                       {keys().timeline(channel, from.view())}, {"pushed1", "pushed2"});
      REQUIRE(redis.call_all(push));
      command("ZADD", keys().active_readers(channel), now, from.view());
    }
    REQUIRE(record(server.endpoint()));
  }

  std::unique_ptr<database::Database> open_to_write() const {
    auto database = database::Database::open(settings.recorder.database, database::Database::Mode::kWrite);
    REQUIRE(database);
    return std::move(*database);
  }

  // Starts like a recorder and processes the stream until nothing is left of it. Returns false if
  // the merge was ended before.
  bool record(const redis::Endpoint& merge_endpoint, const CommandRelay* relay = nullptr) {
    const auto database = open_to_write();
    REQUIRE(database->set_fencing_token(lease->token()));
    recorder::Streams streams(settings, server.endpoint());
    recorder::MergeWorker worker(settings, merge_endpoint, pseudonyms, settle_time);
    const std::atomic<bool> stop{false};
    for (;;) {
      auto batch = streams.has_claimed_all() ? streams.read(recorder::Streams::ReadMode::kNonBlocking)
                                             : streams.claim_pending();
      REQUIRE(batch);
      worker.add(std::exchange(batch->merges, {}));
      if (!batch->empty()) {
        REQUIRE(recorder::write_batch(*database, *batch, keys()));
        REQUIRE(streams.acknowledge(*lease, *batch));
      }
      if (!streams.has_claimed_all()) continue;
      const auto done = worker.run(
          *database, streams, [](const ReaderId&) { return false; }, stop);
      if (!done || (relay != nullptr && relay->is_cut())) return false;
      if (!done->empty()) {
        recorder::EntryBatch merged;
        for (const recorder::MergeJob& each : *done) merged.entries.push_back(each.entry);
        REQUIRE(streams.acknowledge(*lease, merged, worker.completion_commands(*done)));
        worker.remove_finished(*done);
      }
      if (worker.pending_count() == 0 && streams.is_drained()) return true;
    }
  }

  // Everything in Redis and the database except the stream, times of writes and counts of jobs.
  using Stored = std::map<std::string, std::vector<std::string>>;
  Stored stored() {
    Stored out;
    const auto all_keys = command("KEYS", "*");
    for (std::size_t i = 0; i < all_keys.size(); ++i) {
      const std::string key(redis::string_at(all_keys, i));
      if (key.starts_with("job:") || key.starts_with("recorder:")) continue;
      out[key] = value_of(key);
    }
    out["job"] = {std::string(command("HGET", keys().job(kMergeId), "state").text())};
    const auto database = open_database();
    std::vector<std::string>& rows = out["rows"];
    REQUIRE(database->readers().for_each_interaction([&](const readers::ReaderEvent& each) {
      rows.push_back("interaction " + each.reader.str() + " " + each.item.str());
      return Result<void>();
    }));
    REQUIRE(database->readers().for_each_dismissal([&](const readers::DismissalRecord& each) {
      rows.push_back("dismissal " + each.dismissal.reader.str() + " " + each.dismissal.item.str() + " " +
                     std::to_string(unix_s(each.at)) + " " + each.dismissal.reason);
      return Result<void>();
    }));
    REQUIRE(database->readers().for_each_follow([&](const readers::Follow& each) {
      rows.push_back("follow " + each.reader.str() + " " + each.author.str());
      return Result<void>();
    }));
    std::sort(rows.begin(), rows.end());
    return out;
  }
  std::vector<std::string> value_of(const std::string& key) {
    const std::string type(command("TYPE", key).text());
    std::vector<std::string> out;
    if (type == "string") {
      const std::string text(command("GET", key).text());
      if (!key.starts_with("user:earlier:")) return {text};
      std::set<std::string> fingerprints;  // of which some may be there twice
      for (std::size_t at = 0; at < text.size(); at += 10) fingerprints.insert(text.substr(at, 10));
      return {fingerprints.begin(), fingerprints.end()};
    }
    if (key.starts_with("feed:state:")) return {std::string(command("HGET", key, "late").text())};
    const bool is_zset = type == "zset";
    const bool has_times = key.starts_with("user:interactions:") || key.starts_with("user:not_interested:");
    const auto values = type == "hash"   ? command("HGETALL", key)
                        : type == "list" ? command("LRANGE", key, 0, -1)
                        : has_times      ? command("ZRANGE", key, 0, -1, "WITHSCORES")
                        : is_zset        ? command("ZRANGE", key, 0, -1)
                                         : command("SMEMBERS", key);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::string_view each = redis::string_at(values, i);
      if (!is_zset || !each.starts_with(kIdMark)) out.emplace_back(each);
    }
    if (type == "hash" || key.starts_with("user:visitors:")) std::sort(out.begin(), out.end());
    return out;
  }

  const std::int64_t now = redis::to_int(redis::string_at(command("TIME"), 0));
  std::optional<recorder::Lease> lease;
};

}  // namespace

TEST_CASE_METHOD(MergeCrashFixture, "a merge that was ended after any step is completed by its restart",
                 "[recorder]") {
  const ReaderId from = GENERATE(false, true) ? anonymous_reader(VisitorId::trusted("visitor")) : kGuest;
  CommandRelay relay(server, (folder.path() / "relay.sock").string());
  const auto check_restart = [&](const Stored& expected, const std::string& step) {
    INFO("ended " << step);
    REQUIRE(record(server.endpoint()));
    const Stored found = stored();
    for (const auto& [key, value] : expected) {
      INFO(key);
      CHECK((found.contains(key) ? found.at(key) : std::vector<std::string>()) == value);
    }
    for (const auto& [key, value] : found) {
      INFO("not left by an uninterrupted merge: " << key);
      CHECK(expected.contains(key));
    }
  };

  prepare(from);
  REQUIRE(record(relay.endpoint(), &relay));
  const Stored expected = stored();
  CHECK(expected.at("job") == std::vector<std::string>{"done"});
  CHECK(expected.at(keys().interactions(kAnn.view())).size() == 2 * 3);
  CHECK(expected.at(keys().merged_into(pseudonyms.erasure(from))) == std::vector<std::string>{"ann"});
  CHECK_FALSE(expected.contains(keys().merged_into(pseudonyms.erasure(kAnn))));
  CHECK_FALSE(expected.contains(keys().contributions(pseudonyms.visitor(from))));
  const std::string contributions = keys().contributions(pseudonyms.visitor(kAnn));
  const auto contribution = [&](const char* field) {
    const auto& values = expected.at(contributions);
    CHECK(std::ranges::find(values, field) != values.end());
    return std::string(command("HGET", contributions, field).text());
  };
  CHECK(contribution("a:x") == "5 2 18 0 0 0 4");
  CHECK(contribution("a:y") == "4 1 9 2 1 0.5 6");
  CHECK(contribution("network") == "n");
  const std::string pages = expected.at(keys().feed_state(kAnn.view())).at(0);
  for (const char* const item : {"p1", "p2", "p3"}) CHECK(pages.find(item) != std::string::npos);
  CHECK(pages.find("p0") == std::string::npos);  // it is acknowledged
  for (const auto& [key, values] : expected) {
    INFO(key);
    CHECK(key.find("{" + std::string(from.view())) == std::string::npos);
    if (!key.starts_with("user:visitors:"))
      CHECK(std::ranges::none_of(
          values, [&](const std::string& each) { return each.find(from.view()) != std::string::npos; }));
  }

  bool is_complete = false;
  std::int64_t steps = 0;
  for (; !is_complete; ++steps) {
    prepare(from);
    relay.allow(steps);
    is_complete = record(relay.endpoint(), &relay);
    relay.allow(kUnlimited);
    check_restart(expected, "before command " + std::to_string(steps));
  }
  CHECK(steps > 30);

  for (const char* const statement :
       {"INSERT ON interactions", "INSERT ON dismissals", "UPDATE ON dismissals", "INSERT ON follows",
        "DELETE ON interactions", "DELETE ON dismissals", "DELETE ON follows", "DELETE ON readers"}) {
    // An anonymous reader has no rows.
    if (is_anonymous_reader(from) && std::string_view(statement) != "INSERT ON dismissals") continue;
    prepare(from);
    SqliteShell sqlite(settings.recorder.database);
    sqlite.run(std::string("CREATE TRIGGER ended BEFORE ") + statement +
               " BEGIN SELECT RAISE(ABORT, 'ended'); END");
    CHECK_FALSE(record(server.endpoint()));
    sqlite.run("DROP TRIGGER ended");
    check_restart(expected, std::string("before ") + statement);
  }
}
