#include "scripts/ctl/doctor/doctor.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <thread>

#include "core/database/database.h"
#include "core/recorder/lease.h"
#include "core/redis/scripts.h"
#include "core/search/index_folder.h"
#include "core/training/train.h"
#include "scripts/ctl/backup/backup_folder.h"
#include "tests/recorder/sqlite_shell.h"
#include "tests/support/error_of.h"
#include "tests/support/fcgi_bytes.h"
#include "tests/support/redis_server.h"

using namespace freshet;
using namespace freshet::ctl;
using namespace freshet::test;

namespace fs = std::filesystem;

namespace {

// The last finding of a check; fails the test if there is none.
const Diagnosis& last_finding(const Diagnoses& out, std::string_view check) {
  INFO(out.text());
  const Diagnosis* last = nullptr;
  for (const Diagnosis& each : out.all()) {
    if (each.check == check) last = &each;
  }
  REQUIRE(last);
  CHECK(last->fix.empty() == (last->severity == Severity::kOk || last->severity == Severity::kSkipped));
  return *last;
}

Diagnoses evaluate_facts(const RedisFacts& facts, const Settings& settings = {}) {
  Diagnoses out;
  evaluate_redis(facts, settings, out);
  return out;
}

// Facts without any problem.
RedisFacts good_facts() {
  RedisFacts facts;
  facts.server = "Redis 7.0.15";
  facts.info = {{"role", "master"}, {"maxmemory", "10000"}, {"used_memory", "1000"}};
  facts.directives = {{"appendonly", "yes"},
                      {"appendfsync", "everysec"},
                      {"maxmemory-policy", "noeviction"},
                      {"maxmemory", "10000"}};
  facts.ping = milliseconds(1);
  facts.clock_offset = facts.oldest_entry_age = milliseconds(0);
  facts.stream_length = 0;
  facts.has_consumer_group = true;
  facts.recorder = recorder::LeaseOwner{"web1, pid 7", "d", true};
  return facts;
}

Diagnoses evaluate_server(const RedisServer& server, const Settings& settings = {}) {
  redis::BlockingRedis redis(server.endpoint(), milliseconds(5000), {});
  const auto facts = collect_redis_facts(redis, settings);
  REQUIRE(facts);
  return evaluate_facts(*facts, settings);
}

void send(const RedisServer& server, const redis::Pipeline& command) {
  const auto replies = redis::BlockingRedis(server.endpoint(), milliseconds(5000), {}).call(command);
  REQUIRE(replies);
  for (const auto& each : *replies) REQUIRE_FALSE(each.is_error());
}

// Folders and files as after an installation, owned by the user who runs the test.
struct Installation {
  fs::path root;
  Settings settings;
  Account service = account_by_uid(geteuid());
  Installation() {
    std::string pattern = (fs::temp_directory_path() / "freshet-doctor-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()));
    root = pattern;
    for (const char* name : {"spool", "record", "record/index"}) fs::create_directory(root / name);
    settings.spool.path = root / "spool";
    settings.recorder.database = root / "record/freshet.db";
    settings.search.index = root / "record/index";
    settings.recommend.model = root / "record/freshet.model";
    settings.identity.salt_file = root / "salt";
    settings.pool.listen = root / "freshetd.sock";
    write("salt", "0123456789abcdef0123456789abcdef", 0600);
  }
  ~Installation() {
    fs::permissions(root / "spool", fs::perms::owner_all);
    fs::remove_all(root);
  }
  void write(const char* name, const std::string& text, mode_t mode) const {
    std::ofstream(root / name) << text;
    REQUIRE(chmod((root / name).c_str(), mode) == 0);
  }
  Diagnoses files() const {
    Diagnoses out;
    check_files(settings, service, wall_now(), out);
    return out;
  }
  Diagnoses socket(const std::optional<Account>& peer = std::nullopt) const {
    Diagnoses out;
    check_socket(settings, peer, out);
    return out;
  }
};

struct Listener {
  int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Listener(const fs::path& path, int backlog, mode_t mode) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.string().copy(address.sun_path, sizeof(address.sun_path) - 1);
    REQUIRE(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    REQUIRE(chmod(path.c_str(), mode) == 0);
    REQUIRE(listen(fd, backlog) == 0);
  }
  ~Listener() { close(fd); }
};

constexpr const char* kNginx =
    "user www-data;\nworker_rlimit_nofile 16384;\nevents {\n  worker_connections 4096;\n}\nhttp {\n"
    "upstream freshet { server unix:/run/freshet/freshetd.sock max_fails=0; keepalive 128;\n"
    "keepalive_time 5s;\nkeepalive_timeout 5s; }\nkeepalive_timeout 75s;\nserver {\n"
    "include /etc/nginx/freshet/freshet-params.conf;\n"
    "fastcgi_param FRESHET_ZONE internal;\nclient_max_body_size 16k;\nlimit_conn freshet_internal 192;\n"
    "location /x {\nclient_max_body_size 8m;\n} } }\n"
    "# configuration file /etc/nginx/freshet/freshet-params.conf:\n"
    "fastcgi_param FRESHET_SITE $scheme://$freshet_host if_not_empty;\n"
    "# configuration file /etc/nginx/sites-enabled/site:\nserver {\nlocation /api/ {\n"
    "limit_conn freshet_bodies 16;\nlimit_conn freshet_body_networks 64;\nfastcgi_param FRESHET_SITE "
    "$scheme://$freshet_host;\n"
    "fastcgi_param FRESHET_ZONE public;\n} }\n";

std::string substitute(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

Diagnoses evaluate_config(const std::string& dump) {
  Diagnoses out;
  evaluate_nginx(dump, Settings(), out);
  return out;
}

}  // namespace

TEST_CASE("slots, replicas, directives and versions of a cluster are checked", "[doctor]") {
  ClusterFacts good;
  for (const char* name : {"192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1"})
    good.masters.push_back({name, "Redis 7.0.15", "1000", true, false, 5});
  good.masters[2].partitions = 6;
  const auto cluster_findings = [](const ClusterFacts& facts) {
    Diagnoses out;
    evaluate_cluster(facts, out);
    return out;
  };
  CHECK(last_finding(cluster_findings(good), "redis.cluster").severity == Severity::kOk);
  CHECK(cluster_findings(good).all().size() == 1);
  const auto expect_finding = [&](const ClusterFacts& facts, Severity severity, const char* what) {
    const Diagnoses out = cluster_findings(facts);
    const auto& all = out.all();
    CHECK(std::any_of(all.begin(), all.end(), [&](const Diagnosis& each) {
      return each.severity == severity && each.message.find(what) != std::string::npos && !each.fix.empty();
    }));
  };
  ClusterFacts facts = good;
  facts.uncovered_slots = 7;
  expect_finding(facts, Severity::kError, "7 of 16,384 slots have no master");
  facts = good;
  facts.unreachable_masters.push_back("192.0.2.4:1");
  expect_finding(facts, Severity::kError, "192.0.2.4:1 does not answer");
  facts = good;
  facts.masters.pop_back();
  expect_finding(facts, Severity::kWarning, "fewer than three masters");
  facts = good;
  facts.masters[1].has_replica = false;
  expect_finding(facts, Severity::kWarning, "192.0.2.2:1 has no replica");
  facts = good;
  facts.masters[0].full_coverage = true;
  expect_finding(facts, Severity::kWarning, "cluster-require-full-coverage is on at 192.0.2.1:1");
  facts = good;
  facts.masters[2].maxmemory = "0";
  expect_finding(facts, Severity::kWarning, "maxmemory is not set at 192.0.2.3:1");
  facts = good;
  facts.masters[2].server = "Redis 7.2.0";
  expect_finding(facts, Severity::kWarning, "different servers: Redis 7.0.15, Redis 7.2.0");
  facts = good;
  facts.masters[0].partitions = 8;
  facts.masters[1].partitions = 2;
  expect_finding(facts, Severity::kWarning, "192.0.2.1:1 has 8 of the 16 partitions");
}

TEST_CASE("a correctly configured Redis has no findings", "[doctor]") {
  const Diagnoses out = evaluate_facts(good_facts());
  INFO(out.text());
  CHECK(out.count(Severity::kOk) == static_cast<std::int64_t>(out.all().size()));
  CHECK(out.all().size() == 10);
}

TEST_CASE("a Redis that failed to write its file is an error", "[doctor]") {
  for (const char* const outcome : {"aof_last_write_status", "aof_last_bgrewrite_status"}) {
    auto facts = good_facts();
    facts.info[outcome] = "ok";
    CHECK(last_finding(evaluate_facts(facts), "redis.persistence").severity == Severity::kOk);
    facts.info[outcome] = "err";
    CHECK(last_finding(evaluate_facts(facts), "redis.persistence").message.find(outcome) !=
          std::string::npos);
  }
}

TEST_CASE("items missing in Redis are an error, with or without a recorded data loss", "[doctor]") {
  const auto items_finding = [](const ItemFacts& facts) {
    Diagnoses out;
    evaluate_items(facts, out);
    return out.all().front();
  };
  CHECK(items_finding({10, 0, 0}).severity == Severity::kOk);
  CHECK(items_finding({10, 0, 0, "web2, pid 9"}).message ==
        "Redis belongs to another database, used by web2, pid 9");
  CHECK(items_finding({0, 0, 0}).severity == Severity::kOk);
  const std::string rebuild = "run `freshetctl rebuild-redis";
  for (const auto& [facts, fix] :
       {std::pair(ItemFacts{10, 10, 0}, rebuild + "`"), std::pair(ItemFacts{10, 1, 0}, rebuild + " --force`"),
        std::pair(ItemFacts{10, 9, 1700000000}, rebuild + "`; lists"),
        std::pair(ItemFacts{10, 0, 1700000000}, rebuild + "`; lists")}) {
    CHECK(items_finding(facts).severity == Severity::kError);
    CHECK(items_finding(facts).fix.starts_with(fix));
  }
}

TEST_CASE("the server is named, and one that lacks commands is an error", "[doctor]") {
  auto facts = good_facts();
  CHECK(last_finding(evaluate_facts(facts), "redis.version").message == "Redis 7.0.15");
  facts.unsupported = "Redis 5.0.14 lacks commands";
  const auto finding = last_finding(evaluate_facts(facts), "redis.version");
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.message == facts.unsupported);
}

TEST_CASE("a slow Redis and a wrong clock are warnings or errors depending on their extent", "[doctor]") {
  auto facts = good_facts();
  facts.ping = milliseconds(6);
  facts.clock_offset = milliseconds(-1500);
  CHECK(last_finding(evaluate_facts(facts), "redis.latency").severity == Severity::kWarning);
  CHECK(last_finding(evaluate_facts(facts), "redis.clock").severity == Severity::kWarning);
  facts.ping = milliseconds(26);
  facts.clock_offset = milliseconds(6000);
  CHECK(last_finding(evaluate_facts(facts), "redis.latency").severity == Severity::kError);
  CHECK(last_finding(evaluate_facts(facts), "redis.clock").severity == Severity::kError);
}

TEST_CASE("an inactive recorder and one that lags are found", "[doctor]") {
  auto facts = good_facts();
  facts.recorder->is_active = false;
  facts.oldest_entry_age = milliseconds(120'000);
  CHECK(last_finding(evaluate_facts(facts), "recorder.alive").message ==
        "no recorder is running; the last was web1, pid 7");
  CHECK(last_finding(evaluate_facts(facts), "recorder.alive").severity == Severity::kError);
  CHECK(last_finding(evaluate_facts(facts), "recorder.stream").severity == Severity::kWarning);
}

TEST_CASE("a full stream of one partition is an error even if the others are empty", "[doctor]") {
  Settings settings;
  settings.redis.url = "redis+cluster://127.0.0.1:1";
  settings.recorder.stream_max_len = 1600;
  RedisFacts facts = good_facts();
  facts.stream_length = facts.longest_stream = 100;
  const Diagnoses full = evaluate_facts(facts, settings);
  CHECK(last_finding(full, "recorder.stream").severity == Severity::kError);
  CHECK(last_finding(full, "recorder.stream")
            .message.starts_with("100 of 1,600 entries pending, 100 of 100 in one partition's stream"));
  facts.longest_stream = 40;
  CHECK(last_finding(evaluate_facts(facts, settings), "recorder.stream").severity == Severity::kOk);
}

TEST_CASE("eviction is an error only with a memory limit", "[doctor]") {
  auto facts = good_facts();
  facts.directives["maxmemory-policy"] = "allkeys-lru";
  CHECK(last_finding(evaluate_facts(facts), "redis.eviction").severity == Severity::kError);
  facts.info["maxmemory"] = "0";
  CHECK(last_finding(evaluate_facts(facts), "redis.eviction").severity == Severity::kWarning);
}

TEST_CASE("a Redis that fills up or has no limit is reported before writes are queued", "[doctor]") {
  auto facts = good_facts();
  const auto severity_for = [&](const char* most) {
    facts.info["maxmemory"] = most;
    return last_finding(evaluate_facts(facts), "redis.memory").severity;
  };
  CHECK(severity_for("1251") == Severity::kOk);
  CHECK(severity_for("1250") == Severity::kWarning);
  CHECK(severity_for("1112") == Severity::kWarning);
  CHECK(severity_for("1111") == Severity::kError);
  CHECK(severity_for("0") == Severity::kWarning);
}

TEST_CASE("facts that Redis withholds give no verdict", "[doctor]") {
  const Diagnoses out = evaluate_facts(RedisFacts());
  for (const char* check :
       {"redis.version", "redis.persistence", "redis.eviction", "recorder.stream", "recorder.alive"})
    CHECK(last_finding(out, check).severity == Severity::kSkipped);
  CHECK(out.count(Severity::kError) == 0);
}

TEST_CASE("wrong settings of a real Redis are found", "[doctor][redis]") {
  const RedisServer plain({"--maxmemory-policy", "volatile-ttl", "--maxmemory", "100mb"});
  const Diagnoses out = evaluate_server(plain);
  CHECK(last_finding(out, "redis.version").severity == Severity::kOk);
  CHECK(last_finding(out, "redis.persistence").severity == Severity::kError);
  CHECK(last_finding(out, "redis.eviction").severity == Severity::kError);
  CHECK(last_finding(out, "redis.clock").severity == Severity::kOk);
  CHECK(last_finding(out, "recorder.alive").severity == Severity::kError);  // no recorder ever joined

  const RedisServer kept({"--appendonly", "yes", "--appendfsync", "no"});
  CHECK(last_finding(evaluate_server(kept), "redis.persistence").message.find("appendfsync is no") !=
        std::string::npos);
  send(kept, redis::Pipeline().add("CONFIG", "SET", "appendfsync", "always"));
  CHECK(last_finding(evaluate_server(kept), "redis.persistence").message.find("every write") !=
        std::string::npos);
  send(kept, redis::Pipeline().add("CONFIG", "SET", "appendfsync", "everysec"));
  CHECK(last_finding(evaluate_server(kept), "redis.persistence").severity == Severity::kOk);
  send(kept, redis::Pipeline().add("REPLICAOF", "127.0.0.1", "1"));
  CHECK(last_finding(evaluate_server(kept), "redis.role").severity == Severity::kError);
}

TEST_CASE("a master that accepts writes without a replica is a warning with sentinels", "[doctor][redis]") {
  const RedisServer server;
  Settings settings;
  settings.redis.sentinels = {"192.0.2.1:26379"};
  CHECK(last_finding(evaluate_server(server, settings), "redis.failover").severity == Severity::kWarning);
  settings.redis.sentinels = {"192.0.2.1:26379", "192.0.2.2:26379", "192.0.2.3:26379"};
  CHECK(last_finding(evaluate_server(server, settings), "redis.failover")
            .message.find("min-replicas-to-write is 0") != std::string::npos);
  send(server, redis::Pipeline().add("CONFIG", "SET", "min-replicas-to-write", "1"));
  CHECK(last_finding(evaluate_server(server, settings), "redis.failover").severity == Severity::kOk);
}

TEST_CASE("the stream of a real Redis is measured against its limit", "[doctor][redis]") {
  const RedisServer server;
  Settings settings;
  settings.recorder.stream_max_len = 4;
  const auto add = [&](const char* id) {
    send(server, redis::Pipeline().add("XADD", "recorder:stream", id, "op", "x"));
  };
  send(server, redis::Pipeline().add("XGROUP", "CREATE", "recorder:stream", "recorder", "0", "MKSTREAM"));
  CHECK(last_finding(evaluate_server(server, settings), "recorder.alive").message ==
        "no recorder is running");
  redis::BlockingRedis redis(server.endpoint(), milliseconds(5000), redis::kAllScripts);
  recorder::Lease lease(redis::Keys(""), seconds(600));
  REQUIRE(lease.acquire(redis, "d", 0));
  const Diagnoses out = evaluate_server(server, settings);
  CHECK(last_finding(out, "recorder.alive").severity == Severity::kOk);
  CHECK(last_finding(out, "recorder.stream").severity == Severity::kOk);
  lease.release(redis);
  CHECK(last_finding(evaluate_server(server, settings), "recorder.alive")
            .message.starts_with("no recorder is running; the last was "));
  add("1-1");  // from 1970
  CHECK(last_finding(evaluate_server(server, settings), "recorder.stream").message.find("the oldest for") !=
        std::string::npos);
  add("*");
  add("*");
  const Diagnoses half = evaluate_server(server, settings);
  CHECK(last_finding(half, "recorder.stream").severity == Severity::kWarning);
  CHECK(last_finding(half, "recorder.stream").message == "3 of 4 entries pending");
  add("*");
  CHECK(last_finding(evaluate_server(server, settings), "recorder.stream").severity == Severity::kError);
}

TEST_CASE("a Redis user without the necessary rights gets no verdict and no error", "[doctor][redis]") {
  const RedisServer server({"--appendonly", "yes"});
  send(server,
       redis::Pipeline().add("ACL", "SETUSER", "narrow", "on", ">secret", "~*", "+@all", "-config", "-info"));
  auto endpoint = server.endpoint();
  endpoint.username = "narrow";
  endpoint.password = "secret";
  redis::BlockingRedis redis(endpoint, milliseconds(5000), {});
  const auto facts = collect_redis_facts(redis, Settings());
  REQUIRE(facts);
  const Diagnoses out = evaluate_facts(*facts);
  CHECK(last_finding(out, "redis.persistence").severity == Severity::kSkipped);
  CHECK(last_finding(out, "redis.eviction").severity == Severity::kSkipped);
  CHECK(last_finding(out, "redis.version").severity == Severity::kSkipped);
}

TEST_CASE("correct files and folders have no error", "[doctor]") {
  const Installation installation;
  const auto opened =
      database::Database::open(installation.settings.recorder.database, database::Database::Mode::kWrite);
  REQUIRE(opened);
  const Diagnoses out = installation.files();
  INFO(out.text());
  CHECK(last_finding(out, "files.secret").severity == Severity::kOk);
  CHECK(last_finding(out, "files.database").severity == Severity::kOk);
  CHECK(last_finding(out, "files.index").severity == Severity::kWarning);  // no index yet
  CHECK(last_finding(out, "files.model").severity == Severity::kOk);
  CHECK(last_finding(out, "files.folder").severity == Severity::kOk);
  // Without a model, a warning is due once there is something to train with.
  REQUIRE((*opened)->begin());
  for (const char* const item : {"1", "2"}) {
    CHECK(last_finding(installation.files(), "files.model").severity == Severity::kOk);
    REQUIRE((*opened)->readers().put_interaction(
        {ReaderId::trusted("r"), ItemId::trusted(item), readers::Interaction::kLike, wall_now(), {}}));
  }
  REQUIRE((*opened)->commit());
  CHECK(last_finding(installation.files(), "files.model").severity == Severity::kWarning);
}

TEST_CASE("readable, empty and missing secrets are found", "[doctor]") {
  Installation installation;
  installation.write("salt", "0123456789abcdef0123456789abcdef", 0644);
  CHECK(last_finding(installation.files(), "files.secret").message.find("accessible to all users") !=
        std::string::npos);
  installation.write("salt", "", 0600);
  CHECK(last_finding(installation.files(), "files.secret").message.find("is empty") != std::string::npos);
  installation.settings.identity.salt_file.clear();
  CHECK(last_finding(installation.files(), "files.secret").severity == Severity::kWarning);
  installation.write("password", "secret", 0604);
  installation.settings.redis.password_file = installation.root / "password";
  CHECK(last_finding(installation.files(), "files.secret").severity == Severity::kError);
}

TEST_CASE("missing folders and folders with wrong permissions are found", "[doctor]") {
  Installation installation;
  installation.settings.recorder.enabled = false;
  const fs::path spool = installation.settings.spool.path;
  REQUIRE(chmod(spool.c_str(), 0555) == 0);
  CHECK(last_finding(installation.files(), "files.folder").message.find("not writable for") !=
        std::string::npos);
  REQUIRE(chmod(spool.c_str(), 0777) == 0);
  CHECK(last_finding(installation.files(), "files.folder").message.find("for all users") !=
        std::string::npos);
  CHECK(last_finding(installation.files(), "files.database").severity == Severity::kSkipped);
  installation.settings.spool.path = installation.root / "nowhere";
  CHECK(last_finding(installation.files(), "files.folder").severity == Severity::kOk);  // a worker creates it
  installation.settings.spool.path = installation.root / "nowhere/spool";
  CHECK(last_finding(installation.files(), "files.folder").message.find("is not a folder") !=
        std::string::npos);
}

TEST_CASE("a parent folder that the account cannot enter is found", "[doctor]") {
  const Installation installation;
  const Account other{"other", 4'000'000, 4'000'000, {}};
  REQUIRE(chmod(installation.settings.spool.path.c_str(), 0777) == 0);
  REQUIRE(chmod(installation.root.c_str(), 0700) == 0);
  CHECK_FALSE(has_access(other, installation.settings.spool.path, W_OK));
  REQUIRE(chmod(installation.root.c_str(), 0711) == 0);
  CHECK(has_access(other, installation.settings.spool.path, W_OK));
}

TEST_CASE("a newer or damaged database is an error, an older one a warning", "[doctor]") {
  const Installation installation;
  const std::string path = installation.settings.recorder.database;
  CHECK(last_finding(installation.files(), "files.database").message.find("does not exist yet") !=
        std::string::npos);
  std::ofstream(path) << "this is not a database, and long enough to be read as one: "
                      << std::string(4096, 'x');
  CHECK(last_finding(installation.files(), "files.database").severity == Severity::kError);
  fs::remove(path);
  REQUIRE(database::Database::open(path, database::Database::Mode::kWrite));
  REQUIRE(chmod(path.c_str(), 0444) == 0);
  CHECK(last_finding(installation.files(), "files.database").message.find("not writable") !=
        std::string::npos);
  REQUIRE(chmod(path.c_str(), 0600) == 0);
  for (const auto& [version, severity] :
       {std::pair("99", Severity::kError), std::pair("1", Severity::kWarning)}) {
    SqliteShell(path).run(std::string("PRAGMA user_version = ") + version);
    CHECK(last_finding(installation.files(), "files.database").severity == severity);
  }
}

TEST_CASE("a damaged index and a damaged model are errors", "[doctor]") {
  const Installation installation;
  const search::IndexFolder index(installation.settings.search.index);
  index.publish({{UnixSeconds{seconds{0}}, UnixSeconds{seconds{604'800}}, 1}});
  CHECK(last_finding(installation.files(), "files.index").severity == Severity::kError);
  std::ofstream(installation.settings.recommend.model) << "no model";
  CHECK(last_finding(installation.files(), "files.model").severity == Severity::kError);
}

TEST_CASE("the ranking of recommendations is named, and why it knows no reader", "[doctor]") {
  const Installation installation;
  training::TrainingData data;
  data.now = wall_now();
  for (const char* id : {"a", "b"}) data.items.push_back({id, {}, {}, {}, {}, data.now, false});
  data.events = {{0, 0, readers::Interaction::kView, data.now},
                 {0, 1, readers::Interaction::kView, data.now}};
  auto trained = training::train_with_parameters(data, {}, {});
  REQUIRE(trained);
  const auto message = [&] {
    REQUIRE(training::write_model(*trained, installation.settings.recommend.model));
    return last_finding(installation.files(), "files.ranking").message;
  };
  CHECK(message() == "recommendations: untested");
  trained->ranking = {model::RankingMethod::kTrend, seconds{900}, 0, false};
  CHECK_THAT(message(), Catch::Contains("by trend alone (views halved every 15 min)"));
}

TEST_CASE("a password in a world-readable configuration is an error", "[doctor]") {
  Installation installation;
  installation.write("freshet.toml", "", 0644);
  const auto config_findings = [&] {
    Diagnoses out;
    check_config(installation.settings, installation.root / "freshet.toml", out);
    return out;
  };
  const auto has_secret_finding = [&] {
    const Diagnoses out = config_findings();
    return std::ranges::any_of(out.all(), [](const auto& each) { return each.check == "files.secret"; });
  };
  CHECK_FALSE(has_secret_finding());
  installation.settings.redis.url = "redis://freshet:secret@192.0.2.1:6379";
  CHECK(last_finding(config_findings(), "files.secret").severity == Severity::kError);
  CHECK(last_finding(config_findings(), "files.secret").message.find(":secret@") == std::string::npos);
  installation.write("freshet.toml", "", 0640);
  CHECK_FALSE(has_secret_finding());
}

TEST_CASE("the newest complete backup and its age are found", "[doctor]") {
  const Installation installation;
  const std::string folder = installation.root / "backups";
  const auto now = wall_now();
  const auto finding = [&](const std::string& at) {
    Diagnoses out;
    check_backups(at, now, out);
    return last_finding(out, "files.backup");
  };
  const auto make = [&](const char* name, seconds age) {
    auto made = BackupWriter::create(fs::path(folder) / name);
    REQUIRE(made);
    for (const std::string_view each : {kDatabaseName, kRedisName})
      std::ofstream(made->file_path(each)) << "x";
    Manifest manifest;
    manifest.version = "1.0.0";
    manifest.began = manifest.ended = now - age;
    manifest.items = 1234;
    REQUIRE(made->finish(std::move(manifest)));
  };
  CHECK(finding("").severity == Severity::kSkipped);
  CHECK(finding(folder).message.find("No such file") != std::string::npos);
  fs::create_directory(folder);
  CHECK(finding(folder).message.find("no complete backup") != std::string::npos);
  make("older", seconds(5 * 86400));
  CHECK(finding(folder).severity == Severity::kWarning);
  CHECK(finding(folder).message.find("older, is 5 days old") != std::string::npos);
  make("newer", seconds(3 * 86400));
  CHECK(finding(folder).severity == Severity::kOk);
  CHECK(finding(folder).message.find("newer, made 72 h ago") != std::string::npos);
  // Damaged, truncated and partial backups do not count.
  make("cut", seconds(60));
  fs::rename(fs::path(folder) / "cut", fs::path(folder) / "now.partial");
  make("cut", seconds(60));
  fs::resize_file(fs::path(folder) / "cut" / kRedisName, 0);
  make("lost", seconds(60));
  fs::remove(fs::path(folder) / "lost" / kManifestName);
  CHECK(finding(folder).message.find("newer, made 72 h ago") != std::string::npos);
}

TEST_CASE("a disk that fills up is a warning, a full one an error", "[doctor]") {
  const auto severity = [](std::uint64_t free, std::uint64_t total) {
    Diagnoses out;
    evaluate_disk_space("spool.path", "/var/lib/freshet/spool", free, total, out);
    return last_finding(out, "files.space").severity;
  };
  CHECK(severity(50UL << 20, 100UL << 30) == Severity::kError);
  CHECK(severity(500UL << 20, 2UL << 30) == Severity::kWarning);
  CHECK(severity(4UL << 30, 100UL << 30) == Severity::kWarning);  // below 5 %
  CHECK(severity(40UL << 30, 100UL << 30) == Severity::kOk);
}

TEST_CASE("a socket without a listener, open to all, or closed to nginx is found", "[doctor]") {
  Installation installation;
  CHECK(last_finding(installation.socket(), "socket").message.find("no listener") != std::string::npos);
  REQUIRE(chmod(installation.root.c_str(), 0755) == 0);
  {
    const Listener all(installation.settings.pool.listen, 16, 0666);
    CHECK(last_finding(installation.socket(), "socket").message.find("any local user") != std::string::npos);
  }
  // a stale socket file
  CHECK(last_finding(installation.socket(), "socket").message.find("no listener") != std::string::npos);
  fs::remove(installation.settings.pool.listen);
  const Listener own(installation.settings.pool.listen, 16, 0600);
  const Account nginx{"nginx", 4'000'000, 4'000'000, {}};
  CHECK(last_finding(installation.socket(nginx), "socket").message.find("nginx runs as") !=
        std::string::npos);
  CHECK(last_finding(installation.socket(), "socket").message.find("queues at most 16") != std::string::npos);
  installation.settings.pool.listen_backlog = 16;
  CHECK(last_finding(installation.socket(installation.service), "socket").severity == Severity::kOk);
}

TEST_CASE("a status socket that is unset, dead or silent is found", "[doctor]") {
  Installation installation;
  const auto finding = [&] {
    Diagnoses out;
    check_status_socket(installation.settings, out);
    return last_finding(out, "status.socket");
  };
  installation.settings.pool.status_listen.clear();
  CHECK(finding().severity == Severity::kWarning);
  installation.settings.pool.status_listen = installation.root / "status.sock";
  CHECK(finding().message.find("no listener") != std::string::npos);
  {
    const Listener silent(installation.settings.pool.status_listen, 16, 0600);
    std::thread closes([&] { close(accept(silent.fd, nullptr, nullptr)); });
    CHECK(finding().message.find("does not answer") != std::string::npos);
    closes.join();
    std::thread answers([&] {
      const int fd = accept(silent.fd, nullptr, nullptr);
      std::array<char, 512> question{};
      CHECK(recv(fd, question.data(), question.size(), 0) > 0);
      const std::string reply =
          record(kStdout, "Status: 200 OK\r\nContent-Type: application/json\r\n\r\n{}") +
          record(kStdout, "") + record(kEnd, std::string(8, '\0'));
      CHECK(send(fd, reply.data(), reply.size(), 0) > 0);
      close(fd);
    });
    CHECK(finding().severity == Severity::kOk);
    answers.join();
  }
  CHECK(finding().severity == Severity::kError);  // a stale socket file
  installation.settings.pool.status_listen = "127.0.0.1:1";
  CHECK(finding().message.find("no listener") != std::string::npos);
}

TEST_CASE("limits and upstream are read from nginx's configuration", "[doctor]") {
  const Diagnoses good = evaluate_config(kNginx);
  INFO(good.text());
  CHECK(good.count(Severity::kOk) == 6);
  CHECK(good.all().size() == 6);
  CHECK(nginx_user(kNginx) == "www-data");
  CHECK_FALSE(nginx_user(substitute(kNginx, "user www-data;", "")));
  CHECK(last_finding(
            evaluate_config(substitute(substitute(kNginx, "FRESHET_ZONE", "OTHER"), "FRESHET_ZONE", "OTHER")),
            "nginx.upstream")
            .severity == Severity::kError);
  CHECK(last_finding(evaluate_config(substitute(kNginx, "freshetd.sock", "old.sock")), "nginx.upstream")
            .severity == Severity::kError);
  CHECK(last_finding(evaluate_config(substitute(kNginx, "worker_rlimit_nofile 16384;", "")),
                     "nginx.connections")
            .severity == Severity::kWarning);
  CHECK(last_finding(evaluate_config(substitute(kNginx, "size 8m", "size 1m")), "nginx.body_size").severity ==
        Severity::kWarning);
}

TEST_CASE("an nginx block that does not set FRESHET_SITE is found regardless of its context", "[doctor]") {
  const auto site_finding = [](const std::string& from, const std::string& to) {
    return last_finding(evaluate_config(substitute(kNginx, from, to)), "nginx.site");
  };
  const std::string own = "fastcgi_param FRESHET_SITE $scheme://$freshet_host;\n";
  CHECK(site_finding(own, "").message.find("FRESHET_ZONE public") != std::string::npos);
  CHECK(site_finding(own, "").severity == Severity::kError);
  CHECK(site_finding(own, "#" + own).severity == Severity::kError);
  CHECK(site_finding(own, "location /inner {\n" + own + "}\n").severity == Severity::kError);
  CHECK(site_finding("include /etc/nginx/freshet/freshet-params.conf;\n", "")
            .message.find("FRESHET_ZONE internal") != std::string::npos);
  CHECK(site_finding("FRESHET_SITE $scheme://$freshet_host if_not_empty", "OTHER x").severity ==
        Severity::kError);
  CHECK(site_finding(own, "include /etc/nginx/freshet/freshet-params.conf;\n").severity == Severity::kOk);
}

TEST_CASE("a FRESHET_SITE that is empty over HTTP/3 is a warning", "[doctor]") {
  for (const char* const line : {"$scheme://$freshet_host if_not_empty", "$scheme://$freshet_host;"}) {
    std::string old = line;
    old.replace(old.find("$freshet_host"), 13, "$http_host");
    const Diagnosis found = last_finding(evaluate_config(substitute(kNginx, line, old)), "nginx.site");
    CHECK(found.severity == Severity::kWarning);
    CHECK(found.message.find("HTTP/3") != std::string::npos);
  }
}

TEST_CASE("an access log with nearly all requests from one network is a warning", "[doctor]") {
  const auto finding = [](const std::string& log) {
    Diagnoses out;
    evaluate_networks(log, out);
    return last_finding(out, "nginx.networks");
  };
  const auto lines = [](int count, const std::string& line) {
    std::string out;
    for (int i = 0; i < count; ++i) out += line + "\n";
    return out;
  };
  const std::string json = R"({"time":"t","requests":1,"address":"10.0.0.0","method":"GET"})";
  const std::string combined = R"(10.0.0.7 - - [26/Nov/2026:08:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "-")";
  for (const std::string& line : {json, combined}) {
    const Diagnosis found = finding(lines(960, line) + lines(40, "192.0.2.1 - - [x]"));
    CHECK(found.severity == Severity::kWarning);
    CHECK(found.message.find("96 % of the last 1000 requests come from one network, 10.0.0.0/24") == 0);
    CHECK(finding(lines(940, line) + lines(60, "192.0.2.1 - - [x]")).severity == Severity::kOk);
    CHECK(finding(lines(999, line)).severity == Severity::kOk);
  }
  const std::string one_network =
      lines(500, "2001:db8:1:2::3 - - [x]") + lines(500, "2001:db8:1:ffff::4 - - [x]");
  CHECK(finding(one_network).severity == Severity::kWarning);
  CHECK(finding(one_network).message.find("2001:db8:1::/48") != std::string::npos);
  CHECK(finding(one_network + lines(100, "2001:db8:2::3 - - [x]")).severity == Severity::kOk);
  CHECK(finding(lines(2000, "another format")).message.find("only 0 requests") != std::string::npos);
}

TEST_CASE("a public server that does not log why a request failed is a warning", "[doctor]") {
  const auto severity = [](const std::string& logs) {
    return last_finding(
               evaluate_config(kNginx + ("# configuration file /etc/nginx/sites-enabled/blog:\nserver {\n" +
                                         logs + "include /etc/nginx/freshet/freshet-locations.conf;\n}\n")),
               "nginx.failures")
        .severity;
  };
  const std::string own = "access_log /var/log/nginx/blog.log combined;\n";
  CHECK(severity("") == Severity::kOk);  // inherited from freshet-http.conf
  CHECK(severity(own) == Severity::kWarning);
  CHECK(severity(own + "access_log /x freshet_failure if=$freshet_failure;\n") == Severity::kOk);
}

TEST_CASE("the public server's access log is found in nginx's configuration", "[doctor]") {
  const Installation installation;
  const std::string log = installation.root / "access.log";
  std::string text;
  for (int i = 0; i < 40'000; ++i) text += "10.0.0.7 - - [x]\n";
  installation.write("access.log", text, 0644);
  const auto severity = [](const std::string& dump) {
    Diagnoses out;
    check_networks(dump, out);
    return last_finding(out, "nginx.networks").severity;
  };
  const std::string site = "# configuration file /etc/nginx/sites-enabled/site:\nserver {\n  listen 80;\n";
  const std::string routes = "  include /etc/nginx/freshet/freshet-locations.conf;\n}\n";
  const std::string logged = "access_log " + log + " combined;\n", other = "access_log /nonexistent;\n";
  CHECK(severity("http {\n" + other + "}\n" + site + logged + routes) == Severity::kWarning);
  CHECK(severity("http {\n" + logged + "}\n" + site + routes) == Severity::kWarning);
  CHECK(severity("http {\n" + logged + "}\n" + site + other + routes) == Severity::kOk);
  CHECK(severity("http {\n}\n" + site + routes) == Severity::kOk);
}

TEST_CASE("connections that nginx keeps longer than a worker drains are a warning", "[doctor]") {
  const auto keepalive_severity = [](const std::string& to) {
    return last_finding(evaluate_config(substitute(kNginx, "keepalive_time 5s;\nkeepalive_timeout 5s;", to)),
                        "nginx.keepalive")
        .severity;
  };
  CHECK(keepalive_severity("keepalive_time 5s;\nkeepalive_timeout 24s;") == Severity::kOk);
  CHECK(keepalive_severity("keepalive_time 5s;\nkeepalive_timeout 25s;") == Severity::kWarning);
  CHECK(keepalive_severity("keepalive_time 1m;\nkeepalive_timeout 5;") == Severity::kWarning);
  CHECK(keepalive_severity("keepalive_timeout 5s;") ==
        Severity::kWarning);  // keepalive_time defaults to an hour
  CHECK(keepalive_severity("keepalive_time 1h30m;") == Severity::kSkipped);
}

TEST_CASE("more requests than the queue holds and missing limits for slow clients are a warning",
          "[doctor]") {
  CHECK(last_finding(evaluate_config(substitute(kNginx, "internal 192", "internal 4096")), "nginx.queue")
            .severity == Severity::kOk);
  CHECK(last_finding(evaluate_config(substitute(kNginx, "internal 192", "internal 4097")), "nginx.queue")
            .severity == Severity::kWarning);
  CHECK(last_finding(evaluate_config(substitute(kNginx, "limit_conn freshet_bodies",
                                                "limit_conn freshet_public 768;\nlimit_conn freshet_bodies")),
                     "nginx.queue")
            .message.find("shared by all clients") != std::string::npos);
  for (const char* const line : {"limit_conn freshet_bodies 16;", "limit_conn freshet_body_networks 64;",
                                 "limit_conn freshet_internal 192;"})
    CHECK(last_finding(evaluate_config(substitute(kNginx, line, "")), "nginx.queue")
              .message.find("is not set") != std::string::npos);
}

TEST_CASE("a missing nginx and one with a broken configuration give no dump", "[doctor]") {
  CHECK(error_of(nginx_dump("/nonexistent/nginx", "")).reason == "no_nginx");
  CHECK(error_of(nginx_dump("false", "")).reason == "nginx_refused");
  CHECK(nginx_dump("echo", "").value() == "-T -q\n");
  const std::string here = std::filesystem::current_path();
  CHECK(nginx_dump("echo", "some/where").value() ==
        "-T -q -p " + here + "/some/where -c " + here + "/some/where/etc/nginx/nginx.conf\n");
}
