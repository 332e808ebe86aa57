// Runs pipelines through a simulated cluster whose slots and keys are migrating, and whose nodes
// refuse, disappear and lose replies.
#include "core/redis/cluster/cluster_pipeline.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

extern "C" {
#include <hiredis/hiredis.h>
}

#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;
using namespace freshet::redis;

namespace {

Reply reply_of(const std::string& resp) {
  redisReader* const reader = redisReaderCreate();
  void* out = nullptr;
  redisReaderFeed(reader, resp.data(), resp.size());
  redisReaderGetReply(reader, &out);
  redisReaderFree(reader);
  return Reply(static_cast<redisReply*>(out));
}
Reply number(std::size_t value) { return reply_of(":" + std::to_string(value) + "\r\n"); }

const std::vector<Address> kNodes{{"192.0.2.1", 1}, {"192.0.2.2", 2}, {"192.0.2.3", 3}};
constexpr std::size_t kKeys = 6;
std::string key(std::size_t index) { return "{" + std::string(1, static_cast<char>('a' + index)) + "}"; }

// Slot map in which key i belongs to owners[i]: each key's slot is a range of its own.
SlotMap map_by(const std::vector<std::size_t>& owners) {
  std::string ranges;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    const std::string slot = ":" + std::to_string(slot_of(key(i))) + "\r\n";
    const Address& node = kNodes[owners[i]];
    ranges += "*3\r\n" + slot + slot + "*3\r\n$9\r\n" + node.host + "\r\n:" + std::to_string(node.port) +
              "\r\n$2\r\nid\r\n";
  }
  return *SlotMap::parse(reply_of("*" + std::to_string(owners.size()) + "\r\n" + ranges), kNodes[0]);
}

struct Cluster {
  std::mt19937& random;
  std::vector<std::size_t> owners = std::vector<std::size_t>(kKeys);
  std::map<std::size_t, std::size_t> moving{};  // key → node to which it is migrating and has moved already
  std::vector<std::size_t> done{};              // commands, in the order in which they ran
  bool faults = true;

  bool happens(int one_in) { return faults && random() % static_cast<unsigned>(one_in) == 0; }
  void migrate_some() {
    for (std::size_t i = 0; i < kKeys; ++i) {
      if (happens(8)) moving[i] = (owners[i] + 1) % kNodes.size();
      if (happens(4) && moving.contains(i)) {
        owners[i] = moving[i];
        moving.erase(i);
      }
    }
  }
  static std::string where(const char* word, std::size_t node) {
    return std::string(word) + " 7 " + kNodes[node].host + ":" + std::to_string(kNodes[node].port);
  }
  // Runs command `index`, which sets key `key_index`.
  Reply run(std::size_t index, std::size_t key_index, std::size_t node, bool asked) {
    const bool migrating = moving.contains(key_index);
    if (owners[key_index] != node && !(asked && migrating && moving[key_index] == node))
      return Reply::from_error(where("MOVED", owners[key_index]));
    if (owners[key_index] == node && migrating)
      return Reply::from_error(happens(3) ? "TRYAGAIN Multiple keys" : where("ASK", moving[key_index]));
    done.push_back(index);
    return number(index);
  }
};

std::size_t node_of(const Address& address) {
  return static_cast<std::size_t>(std::ranges::find(kNodes, address) - kNodes.begin());
}

// A pipeline of commands "SET {key} index".
struct Trial {
  Pipeline pipeline;
  std::vector<std::size_t> keys, barriers;

  void add(std::size_t key_index) {
    pipeline.add("SET", key(key_index), keys.size());
    keys.push_back(key_index);
  }
  void barrier(bool enforced) {
    if (enforced) pipeline.barrier();
    barriers.push_back(keys.size());
  }
};

Result<Replies> answer(Cluster& cluster, const Trial& trial, const ClusterPipeline::NodeBatch& batch) {
  const std::size_t node = node_of(batch.node);
  if (cluster.happens(25)) return fail(ErrorCode::kUnavailable, "redis_unavailable", {}, "down");
  const bool lost = cluster.happens(25);
  Replies out;
  bool asked = false;
  for (std::size_t i = 0; i < batch.commands().size(); ++i) {
    const std::string_view resp = batch.commands().at(i);
    if (name_of_command(resp) == "ASKING") {
      asked = true;
      out.push_back(reply_of("+OK\r\n"));
      continue;
    }
    std::size_t index = 0;
    while (trial.pipeline.at(index) != resp) ++index;
    out.push_back(cluster.run(index, trial.keys[index], node, std::exchange(asked, false)));
  }
  if (lost) return fail(ErrorCode::kUnknownOutcome, "redis_lost", {}, "gone");
  return out;
}

Result<Replies> drive(Cluster& cluster, const Trial& trial) {
  ClusterPipeline cluster_pipeline(trial.pipeline);
  SlotMap map = map_by(cluster.owners);
  for (int rounds = 0; rounds < 40; ++rounds) {
    auto batches = cluster_pipeline.next_batches(map, kNodes[0]);
    if (batches.empty()) break;
    std::shuffle(batches.begin(), batches.end(), cluster.random);
    for (const auto& batch : batches) {
      cluster.migrate_some();
      cluster_pipeline.record_replies(batch, answer(cluster, trial, batch));
    }
    if (cluster_pipeline.is_map_stale() && cluster.random() % 2 == 0) map = map_by(cluster.owners);
  }
  return std::move(cluster_pipeline).result();
}

// Returns the invariant that was violated, or "".
std::string find_violation(const Cluster& cluster, const Trial& trial, const Result<Replies>& replies) {
  std::vector<std::size_t> position(trial.keys.size(), cluster.done.size());
  for (std::size_t at = 0; at < cluster.done.size(); ++at) {
    if (position[cluster.done[at]] != cluster.done.size()) return "a command ran twice";
    position[cluster.done[at]] = at;
  }
  const auto ran = [&](std::size_t index) { return position[index] < cluster.done.size(); };
  for (std::size_t i = 0; i < trial.keys.size(); ++i) {
    if (!replies) {
      if (error_of(replies).code == ErrorCode::kUnavailable && ran(i))
        return "a command ran but was reported as unsent";
      continue;
    }
    const Reply& reply = (*replies)[i];
    if (!reply.is_error() && *reply.integer() != static_cast<std::int64_t>(i))
      return "a command has another command's reply";
    const bool may_have_run = !reply.is_error() || classify(reply.error()).code == ErrorCode::kUnknownOutcome;
    if (ran(i) && !may_have_run) return "a command ran but was reported as refused";
    if (!reply.is_error() && !ran(i)) return "a command did not run but was reported as done";
  }
  for (const std::size_t barrier : trial.barriers) {
    for (std::size_t later = barrier; later < trial.keys.size(); ++later) {
      for (std::size_t earlier = 0; earlier < barrier; ++earlier) {
        if (ran(later) && position[earlier] > position[later]) return "a barrier was passed";
      }
    }
  }
  return {};
}

// The number of failed trials, and the failure of the first.
std::pair<int, std::string> run_trials(int trials, bool enforce_barriers) {
  std::pair<int, std::string> out;
  for (int seed = 0; seed < trials; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    Cluster cluster{random};
    for (auto& each : cluster.owners) each = random() % kNodes.size();
    Trial trial;
    const std::size_t commands = 1 + random() % 8;
    for (std::size_t i = 0; i < commands; ++i) {
      if (i > 0 && random() % 4 == 0) trial.barrier(enforce_barriers);
      trial.add(random() % kKeys);
    }
    const auto replies = drive(cluster, trial);
    const std::string wrong = find_violation(cluster, trial, replies);
    if (!wrong.empty() && ++out.first == 1) out.second = std::to_string(seed) + ": " + wrong;
  }
  return out;
}

struct StableCluster {
  std::mt19937 random{1};
  Cluster cluster{.random = random, .owners = {0, 0, 1, 1, 2, 2}, .faults = false};
};

}  // namespace

TEST_CASE(
    "Under migrations and faults each command runs at most once, gets its own reply and passes no barrier",
    "[cluster]") {
  CHECK(run_trials(20'000, true) == std::pair(0, std::string()));
}

TEST_CASE("Without barriers the invariant test above fails, so it would notice a missing one", "[cluster]") {
  const auto [wrong, first] = run_trials(20'000, false);
  CHECK(wrong > 100);
  CHECK_THAT(first, Catch::EndsWith("a barrier was passed"));
}

TEST_CASE("A pipeline for one node is sent unchanged", "[cluster]") {
  StableCluster stable;
  Pipeline pipeline;
  pipeline.add("GET", key(0)).add("GET", key(1)).add("PING");
  ClusterPipeline cluster_pipeline(pipeline);
  const auto batches = cluster_pipeline.next_batches(map_by(stable.cluster.owners), kNodes[0]);
  REQUIRE(batches.size() == 1);
  CHECK(batches[0].full_pipeline == &pipeline);
}

TEST_CASE("A pipeline is split by node, and the replies are returned in its order", "[cluster]") {
  StableCluster stable;
  Trial trial;
  for (const std::size_t key_index : {4U, 0U, 2U, 1U, 5U}) trial.add(key_index);
  ClusterPipeline cluster_pipeline(trial.pipeline);
  CHECK(cluster_pipeline.next_batches(map_by(stable.cluster.owners), kNodes[0]).size() == 3);
  const auto replies = drive(stable.cluster, trial);
  REQUIRE(replies);
  for (std::size_t i = 0; i < 5; ++i) CHECK(*(*replies)[i].integer() == static_cast<std::int64_t>(i));
}

TEST_CASE("A transaction is sent as a unit, and redirected as a unit when its slot has moved", "[cluster]") {
  Pipeline pipeline;
  pipeline.add("GET", key(4)).add("MULTI").add("SET", key(0), 1).add("SET", key(0), 2).add("EXEC");
  ClusterPipeline cluster_pipeline(pipeline);
  const SlotMap map = map_by({0, 0, 1, 1, 2, 2});
  auto batches = cluster_pipeline.next_batches(map, kNodes[0]);
  REQUIRE(batches.size() == 2);
  CHECK(batches[1].own_commands.size() == 4);
  const auto replies_of = [](std::initializer_list<const char*> lines) {
    Replies out;
    for (const char* each : lines) out.push_back(reply_of(std::string(each) + "\r\n"));
    return out;
  };
  cluster_pipeline.record_replies(batches[0], replies_of({"+x"}));
  cluster_pipeline.record_replies(
      batches[1], replies_of({"+OK", "-MOVED 7 192.0.2.2:2", "+QUEUED", "-EXECABORT Transaction discarded"}));
  CHECK(cluster_pipeline.is_map_stale());
  batches = cluster_pipeline.next_batches(map, kNodes[0]);
  REQUIRE(batches.size() == 1);
  CHECK(batches[0].node == kNodes[1]);
  CHECK(batches[0].own_commands.size() == 4);
  cluster_pipeline.record_replies(batches[0], replies_of({"+OK", "+QUEUED", "+QUEUED", "*2\r\n+OK\r\n+OK"}));
  CHECK(cluster_pipeline.next_batches(map, kNodes[0]).empty());
  const auto replies = std::move(cluster_pipeline).result();
  REQUIRE(replies);
  CHECK((*replies)[4].size() == 2);
}

TEST_CASE("A command whose slot keeps moving is given up with the last refusal", "[cluster]") {
  Pipeline pipeline;
  pipeline.add("GET", key(0));
  ClusterPipeline cluster_pipeline(pipeline);
  const SlotMap map = map_by({0});
  int sends = 0;
  for (auto batches = cluster_pipeline.next_batches(map, kNodes[0]); !batches.empty();
       batches = cluster_pipeline.next_batches(map, kNodes[0])) {
    ++sends;
    Replies moved;
    moved.push_back(Reply::from_error(Cluster::where("MOVED", node_of(batches[0].node) == 0 ? 1 : 0)));
    cluster_pipeline.record_replies(batches[0], std::move(moved));
  }
  CHECK(sends == ClusterPipeline::kMaxSends);
  const auto replies = std::move(cluster_pipeline).result();
  REQUIRE(replies);
  CHECK(classify(replies->front().error()).reason == "redis_moved");
}

TEST_CASE("While one node is down, the other nodes' commands have their replies", "[cluster]") {
  Pipeline pipeline;
  pipeline.add("GET", key(0)).add("GET", key(2));
  ClusterPipeline cluster_pipeline(pipeline);
  const auto batches = cluster_pipeline.next_batches(map_by({0, 0, 1}), kNodes[0]);
  REQUIRE(batches.size() == 2);
  Replies one;
  one.push_back(number(7));
  cluster_pipeline.record_replies(batches[0], std::move(one));
  cluster_pipeline.record_replies(batches[1],
                                  fail(ErrorCode::kUnavailable, "redis_unavailable", {}, "not connected"));
  const auto replies = std::move(cluster_pipeline).result();
  REQUIRE(replies);
  CHECK(*(*replies)[0].integer() == 7);
  CHECK(classify((*replies)[1].error()).reason == "redis_unavailable");
}

TEST_CASE("SCAN goes from master to master, guided by its cursor", "[cluster]") {
  const SlotMap map = map_by({0, 0, 1, 1});  // two masters
  const auto step = [&](const std::string& cursor, const std::string& answer) {
    Pipeline pipeline;
    pipeline.add("SCAN", cursor, "COUNT", 10);
    ClusterPipeline cluster_pipeline(pipeline);
    const auto batches = cluster_pipeline.next_batches(map, kNodes[1]);
    if (batches.empty()) return error_of(std::move(cluster_pipeline).result()).detail;
    REQUIRE(batches.size() == 1);
    std::string sent(batches[0].commands().at(0));
    Replies node_replies;
    node_replies.push_back(reply_of("*2\r\n" + answer + "*1\r\n$1\r\nk\r\n"));
    cluster_pipeline.record_replies(batches[0], std::move(node_replies));
    const auto replies = std::move(cluster_pipeline).result();
    REQUIRE(replies);
    CHECK((*replies)[0][1][0].text() == "k");
    return to_string(batches[0].node) + " " +
           sent.substr(sent.find("SCAN") + 10, sent.find("COUNT") - sent.find("SCAN") - 16) + " " +
           std::string((*replies)[0][0].text());
  };
  CHECK(step("0", "$2\r\n17\r\n") == "192.0.2.1:1 0 0.17");
  CHECK(step("0.17", "$1\r\n0\r\n") == "192.0.2.1:1 17 1.0");
  CHECK(step("1.0", "$1\r\n9\r\n") == "192.0.2.2:2 0 1.9");
  CHECK(step("1.9", "$1\r\n0\r\n") == "192.0.2.2:2 9 0");
  CHECK(step("2.5", "") == "the cluster has fewer masters than when this SCAN began");
}

TEST_CASE("DBSIZE and INFO go to every master and return the sum and the fullest node's text", "[cluster]") {
  Pipeline pipeline;
  pipeline.add("DBSIZE").add("GET", key(0)).add("INFO", "memory");
  const auto info = [](int used, int most) {
    const std::string text =
        "used_memory:" + std::to_string(used) + "\r\nmaxmemory:" + std::to_string(most) + "\r\n";
    return reply_of("$" + std::to_string(text.size()) + "\r\n" + text + "\r\n");
  };
  const auto ask = [&](bool third_answers) {
    ClusterPipeline cluster_pipeline(pipeline);
    const auto batches = cluster_pipeline.next_batches(map_by({0, 1, 2}), kNodes[1]);
    REQUIRE(batches.size() == 3);
    for (const ClusterPipeline::NodeBatch& each : batches) {
      const std::size_t node = node_of(each.node);
      if (node == 2 && !third_answers) {
        cluster_pipeline.record_replies(each, fail(ErrorCode::kUnavailable, "redis_unavailable", {}, "down"));
        continue;
      }
      Replies node_replies;
      node_replies.push_back(number(10 + node));
      if (node == 0) node_replies.push_back(number(7));
      node_replies.push_back(node == 1 ? info(60, 100) : info(100, 1000));
      cluster_pipeline.record_replies(each, std::move(node_replies));
    }
    CHECK(cluster_pipeline.next_batches(map_by({0, 1, 2}), kNodes[1]).empty());
    return *std::move(cluster_pipeline).result();
  };
  const Replies complete_replies = ask(true);
  CHECK(complete_replies[0].integer() == 33);
  CHECK(complete_replies[1].integer() == 7);
  CHECK(complete_replies[2].text().starts_with("used_memory:60\r\n"));
  const Replies partial_replies = ask(false);
  CHECK(partial_replies[0].is_error());
  CHECK(partial_replies[1].integer() == 7);
  CHECK(partial_replies[2].is_error());
}

TEST_CASE("The slot map that most nodes report is adopted, the first one on a tie", "[cluster]") {
  const SlotMap one = map_by({0, 0}), other = map_by({1, 1});
  CHECK(*SlotMap::majority_map({one, other, other}) == other);
  CHECK(*SlotMap::majority_map({other, one}) == other);
  CHECK_FALSE(SlotMap::majority_map({}));
}

TEST_CASE("If no node answers, the pipeline fails as on a single Redis", "[cluster]") {
  Pipeline pipeline;
  pipeline.add("GET", key(0)).add("GET", key(2)).add("GET", key(5));
  ClusterPipeline cluster_pipeline(pipeline);
  const auto batches =
      cluster_pipeline.next_batches(map_by({0, 0, 1, 1}), kNodes[0]);  // no node serves the last key
  REQUIRE(batches.size() == 2);
  cluster_pipeline.record_replies(batches[0],
                                  fail(ErrorCode::kUnavailable, "redis_unavailable", {}, "not connected"));
  cluster_pipeline.record_replies(batches[1], fail(ErrorCode::kUnknownOutcome, "redis_timeout", {}, "late"));
  const auto replies = std::move(cluster_pipeline).result();
  REQUIRE_FALSE(replies);
  CHECK(error_of(replies).reason == "redis_timeout");
}

TEST_CASE("CLUSTER SLOTS is parsed for nodes with a host name, without an address, and outside a cluster",
          "[cluster]") {
  const auto read = [](const std::string& node) {
    return SlotMap::parse(reply_of("*1\r\n*3\r\n:0\r\n:16383\r\n" + node), Address{"192.0.2.9", 9});
  };
  const auto named = read("*4\r\n$3\r\none\r\n:6379\r\n$2\r\nid\r\n*2\r\n$2\r\nip\r\n$9\r\n192.0.2.4\r\n");
  REQUIRE(named);
  CHECK(*named->owner(0) == Address{"192.0.2.4", 6379});
  CHECK(named->uncovered_slots() == 0);
  const auto itself = read("*3\r\n$0\r\n\r\n:6379\r\n$2\r\nid\r\n");
  REQUIRE(itself);
  CHECK(*itself->owner(5) == Address{"192.0.2.9", 6379});
  const auto tunnel = read("*4\r\n$-1\r\n:7002\r\n$2\r\nid\r\n*2\r\n$2\r\nip\r\n$9\r\n192.0.2.4\r\n");
  REQUIRE(tunnel);
  CHECK(*tunnel->owner(5) == Address{"192.0.2.9", 7002});
  const auto alone =
      SlotMap::parse(Reply::from_error("ERR This instance has cluster support disabled"), {"192.0.2.9", 9});
  REQUIRE_FALSE(alone);
  CHECK(error_of(alone).detail ==
        "192.0.2.9:9 is not a cluster node: use redis:// in redis.url, or set cluster-enabled yes there");
  CHECK(SlotMap().uncovered_slots() == kSlots);
}
