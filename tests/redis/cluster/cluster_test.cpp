// ClusterRedis and BlockingRedis against three real masters.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <map>
#include <set>
#include <thread>

#include "core/redis/blocking_redis.h"
#include "core/redis/cluster/cluster_redis.h"
#include "tests/support/error_of.h"
#include "tests/support/loop_thread.h"
#include "tests/support/redis_cluster.h"

using namespace freshet;
using namespace freshet::test;
using namespace freshet::redis;
using namespace std::chrono_literals;

namespace {

// Increments and returns a counter. The second key makes Redis refuse it (TRYAGAIN) while the slot
// is half-migrated.
constexpr std::array kScripts{Script{"count",
                                     "redis.call('INCR', KEYS[2]) return redis.call('INCR', KEYS[1])",
                                     "936b6a3976af9a83d397e6f134cb9eee18c8fb7b"}};

RedisCluster& cluster() {
  static RedisCluster one(3);
  return one;
}

// Increments counters concurrently until stopped.
class Load {
 public:
  Load(LoopThread& thread, Redis& redis, std::vector<std::string> names)
      : thread_(thread), redis_(redis), names_(std::move(names)) {
    thread_.run_on_loop([&] {
      for (std::size_t i = 0; i < kConcurrency; ++i) {
        ++running_;
        spawn(count(i), [this](std::exception_ptr) { --running_; });
      }
    });
  }
  void stop() {
    stopping_ = true;
    RedisCluster::wait_until([&] { return thread_.run_on_loop([&] { return running_ == 0; }); });
  }
  std::map<std::string, std::int64_t> acknowledged;
  std::vector<std::string> errors;
  std::atomic<int> completed{0};

 private:
  static constexpr std::size_t kConcurrency = 8;
  Task<void> count(std::size_t begin) {
    for (std::size_t i = begin; !stopping_; ++i) {
      const std::string& name = names_[i % names_.size()];
      Pipeline pipeline;
      pipeline.script(kScripts[0]).key("a{" + name + "}").key("b{" + name + "}");
      pipeline.add("INCR", "plain{" + names_[(i + 7) % names_.size()] + "}");
      const auto replies = co_await redis_.run(pipeline);
      ++completed;
      if (!replies) {
        errors.push_back(error_of(replies).detail);
        continue;
      }
      if ((*replies)[0].is_error())
        errors.emplace_back((*replies)[0].error());
      else
        ++acknowledged["{" + name + "}"];
      if ((*replies)[1].is_error()) errors.emplace_back((*replies)[1].error());
    }
  }

  LoopThread& thread_;
  Redis& redis_;
  const std::vector<std::string> names_;
  std::atomic<bool> stopping_{false};
  int running_ = 0;
};

struct Client {
  explicit Client(milliseconds timeout = 5s, milliseconds budget = 10s) {
    ConnectionOptions options;
    options.endpoint = cluster().endpoint();  // the servers end with the thread that started them
    options.timeout = timeout;
    options.retry_within = budget;
    thread.run_on_loop([&] {
      redis = std::make_unique<ClusterRedis>(thread.loop(), options, kScripts);
      redis->connect();
    });
    RedisCluster::wait_until([&] { return thread.run_on_loop([&] { return redis->ready(); }); });
  }
  ~Client() {
    thread.run_on_loop([&] { redis.reset(); });
    thread.stop();
  }
  // The first reply's text, or the error's reason.
  std::string run(const Pipeline& pipeline) {
    std::promise<std::string> result;
    thread.run_on_loop([&] {
      spawn(
          [](ClusterRedis& to, const Pipeline& what, std::promise<std::string>& out) -> Task<void> {
            const auto reply = co_await run_one(to, what);
            out.set_value(reply ? std::string(reply->text()) : std::string(reply.error().reason));
          }(*redis, pipeline, result),
          [](std::exception_ptr) {});
    });
    return result.get_future().get();
  }

  LoopThread thread;
  std::unique_ptr<ClusterRedis> redis;
};

std::int64_t counter_value(const std::string& key) {
  for (int node = 0; node < 3; ++node) {
    const Reply reply = cluster().call(node, {"GET", key});
    if (!reply.is_error()) return reply.integer().value_or(0);
  }
  return -1;
}

int owner_of(std::uint16_t slot) {
  const auto map = SlotMap::parse(cluster().call(0, {"CLUSTER", "SLOTS"}), cluster().address(0));
  for (int node = 0; node < 3; ++node)
    if (*map->owner(slot) == cluster().address(node)) return node;
  return -1;
}

}  // namespace

TEST_CASE("All masters are discovered from one, and each holds its own keys", "[cluster]") {
  Client client;
  for (int i = 0; i < 50; ++i) {
    Pipeline set;
    set.add("SET", "k{" + std::to_string(i) + "}", i).barrier().add("GET", "k{" + std::to_string(i) + "}");
    CHECK(client.run(set) == "OK");
  }
  for (int node = 0; node < 3; ++node) CHECK(cluster().call(node, {"DBSIZE"}).integer().value_or(0) > 0);
}

TEST_CASE("Migrating slots under load loses no acknowledged command and repeats none", "[cluster]") {
  Client client;
  std::vector<std::string> names;
  for (int i = 0; i < 24; ++i) names.push_back("moving-" + std::to_string(i));
  Load load(client.thread, *client.redis, names);
  RedisCluster::wait_until([&] { return load.completed > 100; });
  for (const std::string& name : names) {
    const std::uint16_t slot = slot_of(name);
    const int from = owner_of(slot);
    const int before = load.completed;
    // Leaves time for a few commands in each state of the slot.
    cluster().move_slot(slot, from, (from + 1) % 3, [] { std::this_thread::sleep_for(2ms); });
    RedisCluster::wait_until([&] { return load.completed > before + 20; });
  }
  load.stop();
  CHECK(client.redis->counters().errors_by_class[ErrorClass::kCluster] > names.size());
  CHECK(load.errors == std::vector<std::string>());
  CHECK(load.acknowledged.size() == names.size());
  for (const auto& [key, times] : load.acknowledged) {
    CHECK(counter_value("a" + key) == times);
    CHECK(counter_value("b" + key) == times);
  }
}

TEST_CASE("A stopped master fails only its own commands and is used again when it resumes", "[cluster]") {
  Client client(300ms, 400ms);
  std::map<int, std::string> keys_by_node;
  for (int i = 0; keys_by_node.size() < 3; ++i)
    keys_by_node.emplace(owner_of(slot_of("still-" + std::to_string(i))),
                         "{still-" + std::to_string(i) + "}");
  const auto get = [&](int node) {
    Pipeline pipeline;
    pipeline.add("SET", keys_by_node[node], "v");
    return client.run(pipeline);
  };
  // Shorter than cluster-node-timeout, so the others do not consider the cluster down.
  cluster().node(1).pause();
  const std::string silent = get(1);
  const std::string others = get(0) + get(2);
  cluster().node(1).resume();
  CHECK(silent == "redis_timeout");
  CHECK(others == "OKOK");
  RedisCluster::wait_until([&] { return get(1) == "OK"; });
}

TEST_CASE("BlockingRedis reaches every key, follows a migration and scans all masters", "[cluster]") {
  BlockingRedis redis(cluster().endpoint(), 5s, kScripts);
  std::set<std::string> keys;
  Pipeline set;
  for (int i = 0; i < 300; ++i) {
    keys.insert("walked{" + std::to_string(i) + "}");
    set.add("SET", "walked{" + std::to_string(i) + "}", i);
  }
  REQUIRE(redis.call_all(set));
  const std::string name = "sync";
  const auto count = [&] {
    Pipeline pipeline;
    pipeline.script(kScripts[0]).key("a{" + name + "}").key("b{" + name + "}");
    const auto replies = redis.call(pipeline);
    return replies && !replies->front().is_error() ? replies->front().integer().value_or(-1) : -1;
  };
  CHECK(count() == 1);
  const int from = owner_of(slot_of(name));
  std::int64_t counted = 1;
  bool each_counted = true;
  cluster().move_slot(slot_of(name), from, (from + 1) % 3, [&] {
    // While only one of the two keys has moved, the script is refused.
    const auto has = [&](const char* head) {
      return cluster().call(from, {"EXISTS", head + ("{" + name + "}")}).integer().value_or(-1);
    };
    if (has("a") != has("b")) return;
    each_counted = each_counted && count() == ++counted;
  });
  CHECK(each_counted);
  CHECK(counted > 1);

  std::set<std::string> found;
  std::string cursor = "0";
  do {
    Pipeline scan;
    scan.add("SCAN", cursor, "MATCH", "walked*", "COUNT", 50);
    const auto replies = redis.call_all(scan);
    REQUIRE(replies);
    cursor = replies->front()[0].text();
    const Reply page = replies->front()[1];
    for (std::size_t i = 0; i < page.size(); ++i) found.emplace(page[i].text());
  } while (cursor != "0");
  CHECK(found == keys);
}

TEST_CASE("BlockingRedis reports what is wrong with a node and keeps using the others", "[cluster]") {
  BlockingRedis redis(cluster().endpoint(), 300ms, kScripts);
  std::map<int, std::string> keys_by_node;
  for (int i = 0; keys_by_node.size() < 3; ++i)
    keys_by_node.emplace(owner_of(slot_of("sync-" + std::to_string(i))), "{sync-" + std::to_string(i) + "}");
  const auto set = [&](int node) {
    Pipeline pipeline;
    pipeline.add("SET", keys_by_node[node], "v");
    const auto replies = redis.call_all(pipeline);
    return replies ? std::string(replies->front().text()) : std::string(replies.error().reason);
  };
  CHECK(set(0) + set(1) + set(2) == "OKOKOK");
  cluster().node(1).pause();
  const std::string silent = set(1);
  const std::string others = set(0) + set(2);
  cluster().node(1).resume();
  CHECK(silent == "redis_timeout");
  CHECK(others == "OKOK");
  RedisCluster::wait_until([&] { return set(1) == "OK"; });

  Endpoint one_reachable = cluster().endpoint();
  one_reachable.nodes = {{"127.0.0.1", 1}, cluster().address(2)};
  Pipeline ping;
  ping.add("GET", "any");
  CHECK(BlockingRedis(one_reachable, 5s, kScripts).call_all(ping));
  Endpoint unreachable = cluster().endpoint();
  unreachable.nodes = {{"127.0.0.1", 1}};
  const auto refused = BlockingRedis(unreachable, 5s, kScripts).call_all(ping);
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).reason == "redis_unavailable");
  CHECK(error_of(refused).detail ==
        "the node at 127.0.0.1:1 does not answer: start it, or allow connections to it");
}

TEST_CASE("BlockingRedis names the node that refuses us and the slot that no node serves", "[cluster]") {
  const auto get_error = [&](const std::string& key) {
    Pipeline pipeline;
    pipeline.add("GET", key);
    const auto replies = BlockingRedis(cluster().endpoint(), 5s, kScripts).call_all(pipeline);
    return replies ? std::string("a reply") : replies.error().detail;
  };
  std::string key;
  for (int i = 0; key.empty(); ++i)
    if (owner_of(slot_of(std::to_string(i))) == 1) key = std::to_string(i);
  cluster().call(1, {"ACL", "SETUSER", "default", "resetpass", ">other"});
  const std::string refused = get_error(key);
  RedisServer& locked = cluster().node(1);
  Endpoint inside = locked.endpoint();
  inside.password = "other";
  Pipeline open;
  open.add("ACL", "SETUSER", "default", "nopass");
  REQUIRE(BlockingRedis(inside, 5s, {}).call_all(open));
  CHECK(refused.find("the node at " + to_string(cluster().address(1)) + " refuses the connection (NOAUTH") !=
        refused.npos);
  CHECK(refused.find("give it the same accounts as the other nodes") != refused.npos);
  CHECK(get_error(key) == "a reply");

  const std::string slot = std::to_string(slot_of(key));
  for (int node = 0; node < 3; ++node) cluster().call(node, {"CLUSTER", "DELSLOTS", slot});
  const std::string uncovered = get_error(key);
  cluster().call(1, {"CLUSTER", "ADDSLOTS", slot});
  RedisCluster::wait_until([&] {
    const auto map = SlotMap::parse(cluster().call(0, {"CLUSTER", "SLOTS"}), cluster().address(0));
    return map->uncovered_slots() == 0 && get_error(key) == "a reply";
  });
  CHECK(uncovered.find("slot " + slot + " has no master: start it, or run redis-cli --cluster fix") !=
        uncovered.npos);
}
