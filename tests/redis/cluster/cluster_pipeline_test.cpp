// Pipelines through a cluster in memory, whose slots and keys move while they are on their way,
// whose nodes refuse, vanish and lose replies.
#include "core/redis/cluster/cluster_pipeline.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

extern "C" {
#include <hiredis/hiredis.h>
}

using namespace freshet;
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

// Whose keys are where by the answer to CLUSTER SLOTS: each key's slot is a range of its own.
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
  std::map<std::size_t, std::size_t> moving{};  // key → where it is going, and has arrived
  std::vector<std::size_t> done{};              // commands, in the order in which they ran
  bool faults = true;

  bool happens(int one_in) { return faults && random() % static_cast<unsigned>(one_in) == 0; }
  void stir() {
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
  // Command number `index` sets the key that its number says.
  Reply run(std::size_t index, std::size_t of, std::size_t node, bool asked) {
    const bool gone = moving.contains(of);
    if (owners[of] != node && !(asked && gone && moving[of] == node))
      return Reply::from_error(where("MOVED", owners[of]));
    if (owners[of] == node && gone)
      return Reply::from_error(happens(3) ? "TRYAGAIN Multiple keys" : where("ASK", moving[of]));
    done.push_back(index);
    return number(index);
  }
};

std::size_t node_of(const Address& address) {
  return static_cast<std::size_t>(std::ranges::find(kNodes, address) - kNodes.begin());
}

// The pipeline's commands: "SET {key} index".
struct Trial {
  Pipeline pipeline;
  std::vector<std::size_t> keys, barriers;

  void add(std::size_t of) {
    pipeline.add("SET", key(of), keys.size());
    keys.push_back(of);
  }
  void then(bool kept) {
    if (kept) pipeline.barrier();
    barriers.push_back(keys.size());
  }
};

Result<Replies> answer(Cluster& cluster, const Trial& trial, const ClusterPipeline::NodeBatch& part) {
  const std::size_t node = node_of(part.node);
  if (cluster.happens(25)) return fail(ErrorCode::kUnavailable, "redis_unavailable", {}, "down");
  const bool lost = cluster.happens(25);
  Replies out;
  bool asked = false;
  for (std::size_t i = 0; i < part.commands().size(); ++i) {
    const std::string_view resp = part.commands().at(i);
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
  ClusterPipeline routing(trial.pipeline);
  SlotMap map = map_by(cluster.owners);
  for (int rounds = 0; rounds < 40; ++rounds) {
    auto parts = routing.next_batches(map, kNodes[0]);
    if (parts.empty()) break;
    std::shuffle(parts.begin(), parts.end(), cluster.random);
    for (const auto& part : parts) {
      cluster.stir();
      routing.record_replies(part, answer(cluster, trial, part));
    }
    if (routing.is_map_stale() && cluster.random() % 2 == 0) map = map_by(cluster.owners);
  }
  return std::move(routing).result();
}

// What is wrong with what happened; "" when nothing is.
std::string judge(const Cluster& cluster, const Trial& trial, const Result<Replies>& replies) {
  std::vector<std::size_t> place(trial.keys.size(), cluster.done.size());
  for (std::size_t at = 0; at < cluster.done.size(); ++at) {
    if (place[cluster.done[at]] != cluster.done.size()) return "a command ran twice";
    place[cluster.done[at]] = at;
  }
  const auto ran = [&](std::size_t index) { return place[index] < cluster.done.size(); };
  for (std::size_t i = 0; i < trial.keys.size(); ++i) {
    if (!replies) {
      if (replies.error().code == ErrorCode::kUnavailable && ran(i)) return "it ran, and was called unsent";
      continue;
    }
    const Reply& reply = (*replies)[i];
    if (!reply.is_error() && *reply.integer() != static_cast<std::int64_t>(i)) return "another's reply";
    const bool said = !reply.is_error() || classify(reply.error()).code == ErrorCode::kUnknownOutcome;
    if (ran(i) && !said) return "it ran, and was called undone";
    if (!reply.is_error() && !ran(i)) return "it did not run, and was called done";
  }
  for (const std::size_t barrier : trial.barriers) {
    for (std::size_t late = barrier; late < trial.keys.size(); ++late) {
      for (std::size_t early = 0; early < barrier; ++early) {
        if (ran(late) && place[early] > place[late]) return "a barrier was passed";
      }
    }
  }
  return {};
}

// How many of `trials` went wrong, and how the first did.
std::pair<int, std::string> wrong_of(int trials, bool barriers_kept) {
  std::pair<int, std::string> out;
  for (int seed = 0; seed < trials; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    Cluster cluster{random};
    for (auto& each : cluster.owners) each = random() % kNodes.size();
    Trial trial;
    const std::size_t commands = 1 + random() % 8;
    for (std::size_t i = 0; i < commands; ++i) {
      if (i > 0 && random() % 4 == 0) trial.then(barriers_kept);
      trial.add(random() % kKeys);
    }
    const auto replies = drive(cluster, trial);
    const std::string wrong = judge(cluster, trial, replies);
    if (!wrong.empty() && ++out.first == 1) out.second = std::to_string(seed) + ": " + wrong;
  }
  return out;
}

struct Still {
  std::mt19937 random{1};
  Cluster cluster{.random = random, .owners = {0, 0, 1, 1, 2, 2}, .faults = false};
};

}  // namespace

TEST_CASE("Whatever moves, each command runs once at most, has its own reply, and passes no barrier",
          "[cluster]") {
  CHECK(wrong_of(20'000, true) == std::pair(0, std::string()));
}

TEST_CASE("Without its barriers the law above is broken, so it would notice one that is missing",
          "[cluster]") {
  const auto [wrong, first] = wrong_of(20'000, false);
  CHECK(wrong > 100);
  CHECK_THAT(first, Catch::EndsWith("a barrier was passed"));
}

TEST_CASE("What belongs to one node is sent to it as it is", "[cluster]") {
  Still still;
  Pipeline pipeline;
  pipeline.add("GET", key(0)).add("GET", key(1)).add("PING");
  ClusterPipeline routing(pipeline);
  const auto parts = routing.next_batches(map_by(still.cluster.owners), kNodes[0]);
  REQUIRE(parts.size() == 1);
  CHECK(parts[0].full_pipeline == &pipeline);
}

TEST_CASE("A pipeline is split by node, and its replies come back in its order", "[cluster]") {
  Still still;
  Trial trial;
  for (const std::size_t of : {4U, 0U, 2U, 1U, 5U}) trial.add(of);
  ClusterPipeline routing(trial.pipeline);
  CHECK(routing.next_batches(map_by(still.cluster.owners), kNodes[0]).size() == 3);
  const auto replies = drive(still.cluster, trial);
  REQUIRE(replies);
  for (std::size_t i = 0; i < 5; ++i) CHECK(*(*replies)[i].integer() == static_cast<std::int64_t>(i));
}

TEST_CASE("A transaction goes as one, and again as one when its slot has moved", "[cluster]") {
  Pipeline pipeline;
  pipeline.add("GET", key(4)).add("MULTI").add("SET", key(0), 1).add("SET", key(0), 2).add("EXEC");
  ClusterPipeline routing(pipeline);
  const SlotMap map = map_by({0, 0, 1, 1, 2, 2});
  auto parts = routing.next_batches(map, kNodes[0]);
  REQUIRE(parts.size() == 2);
  CHECK(parts[1].own_commands.size() == 4);
  const auto say = [](std::initializer_list<const char*> lines) {
    Replies out;
    for (const char* each : lines) out.push_back(reply_of(std::string(each) + "\r\n"));
    return out;
  };
  routing.record_replies(parts[0], say({"+x"}));
  routing.record_replies(parts[1], say({"+OK", "-MOVED 7 192.0.2.2:2", "+QUEUED", "-EXECABORT Transaction discarded"}));
  CHECK(routing.is_map_stale());
  parts = routing.next_batches(map, kNodes[0]);
  REQUIRE(parts.size() == 1);
  CHECK(parts[0].node == kNodes[1]);
  CHECK(parts[0].own_commands.size() == 4);
  routing.record_replies(parts[0], say({"+OK", "+QUEUED", "+QUEUED", "*2\r\n+OK\r\n+OK"}));
  CHECK(routing.next_batches(map, kNodes[0]).empty());
  const auto replies = std::move(routing).result();
  REQUIRE(replies);
  CHECK((*replies)[4].size() == 2);
}

TEST_CASE("A slot that moves for ever is given up, with what its node said last", "[cluster]") {
  Pipeline pipeline;
  pipeline.add("GET", key(0));
  ClusterPipeline routing(pipeline);
  const SlotMap map = map_by({0});
  int sends = 0;
  for (auto parts = routing.next_batches(map, kNodes[0]); !parts.empty(); parts = routing.next_batches(map, kNodes[0])) {
    ++sends;
    Replies moved;
    moved.push_back(Reply::from_error(Cluster::where("MOVED", node_of(parts[0].node) == 0 ? 1 : 0)));
    routing.record_replies(parts[0], std::move(moved));
  }
  CHECK(sends == ClusterPipeline::kMaxSends);
  const auto replies = std::move(routing).result();
  REQUIRE(replies);
  CHECK(classify(replies->front().error()).reason == "redis_moved");
}

TEST_CASE("While one node is away the others' commands have their replies", "[cluster]") {
  Pipeline pipeline;
  pipeline.add("GET", key(0)).add("GET", key(2));
  ClusterPipeline routing(pipeline);
  const auto parts = routing.next_batches(map_by({0, 0, 1}), kNodes[0]);
  REQUIRE(parts.size() == 2);
  Replies one;
  one.push_back(number(7));
  routing.record_replies(parts[0], std::move(one));
  routing.record_replies(parts[1], fail(ErrorCode::kUnavailable, "redis_unavailable", {}, "not connected"));
  const auto replies = std::move(routing).result();
  REQUIRE(replies);
  CHECK(*(*replies)[0].integer() == 7);
  CHECK(classify((*replies)[1].error()).reason == "redis_unavailable");
}

TEST_CASE("A walk over the keys goes from master to master, by its cursor", "[cluster]") {
  const SlotMap map = map_by({0, 0, 1, 1});  // of two masters
  const auto step = [&](const std::string& cursor, const std::string& answer) {
    Pipeline pipeline;
    pipeline.add("SCAN", cursor, "COUNT", 10);
    ClusterPipeline routing(pipeline);
    const auto parts = routing.next_batches(map, kNodes[1]);
    if (parts.empty()) return std::move(routing).result().error().detail;
    REQUIRE(parts.size() == 1);
    std::string sent(parts[0].commands().at(0));
    Replies said;
    said.push_back(reply_of("*2\r\n" + answer + "*1\r\n$1\r\nk\r\n"));
    routing.record_replies(parts[0], std::move(said));
    const auto replies = std::move(routing).result();
    REQUIRE(replies);
    CHECK((*replies)[0][1][0].text() == "k");
    return to_string(parts[0].node) + " " +
           sent.substr(sent.find("SCAN") + 10, sent.find("COUNT") - sent.find("SCAN") - 16) + " " +
           std::string((*replies)[0][0].text());
  };
  CHECK(step("0", "$2\r\n17\r\n") == "192.0.2.1:1 0 0.17");
  CHECK(step("0.17", "$1\r\n0\r\n") == "192.0.2.1:1 17 1.0");
  CHECK(step("1.0", "$1\r\n9\r\n") == "192.0.2.2:2 0 1.9");
  CHECK(step("1.9", "$1\r\n0\r\n") == "192.0.2.2:2 9 0");
  CHECK(step("2.5", "") == "the cluster has fewer masters than when the walk over its keys began");
}

TEST_CASE("DBSIZE and INFO are of every master: the sum, and what the fullest says", "[cluster]") {
  Pipeline pipeline;
  pipeline.add("DBSIZE").add("GET", key(0)).add("INFO", "memory");
  const auto info = [](int used, int most) {
    const std::string text =
        "used_memory:" + std::to_string(used) + "\r\nmaxmemory:" + std::to_string(most) + "\r\n";
    return reply_of("$" + std::to_string(text.size()) + "\r\n" + text + "\r\n");
  };
  const auto ask = [&](bool third_answers) {
    ClusterPipeline routing(pipeline);
    const auto parts = routing.next_batches(map_by({0, 1, 2}), kNodes[1]);
    REQUIRE(parts.size() == 3);
    for (const ClusterPipeline::NodeBatch& each : parts) {
      const std::size_t node = node_of(each.node);
      if (node == 2 && !third_answers) {
        routing.record_replies(each, fail(ErrorCode::kUnavailable, "redis_unavailable", {}, "down"));
        continue;
      }
      Replies said;
      said.push_back(number(10 + node));
      if (node == 0) said.push_back(number(7));
      said.push_back(node == 1 ? info(60, 100) : info(100, 1000));
      routing.record_replies(each, std::move(said));
    }
    CHECK(routing.next_batches(map_by({0, 1, 2}), kNodes[1]).empty());
    return *std::move(routing).result();
  };
  const Replies whole = ask(true);
  CHECK(whole[0].integer() == 33);
  CHECK(whole[1].integer() == 7);
  CHECK(whole[2].text().starts_with("used_memory:60\r\n"));
  const Replies part = ask(false);
  CHECK(part[0].is_error());
  CHECK(part[1].integer() == 7);
  CHECK(part[2].is_error());
}

TEST_CASE("What most nodes say of the slots holds, of as many the first", "[cluster]") {
  const SlotMap one = map_by({0, 0}), other = map_by({1, 1});
  CHECK(*SlotMap::majority_map({one, other, other}) == other);
  CHECK(*SlotMap::majority_map({other, one}) == other);
  CHECK_FALSE(SlotMap::majority_map({}));
}

TEST_CASE("When no node answered the pipeline has failed as on one Redis", "[cluster]") {
  Pipeline pipeline;
  pipeline.add("GET", key(0)).add("GET", key(2)).add("GET", key(5));
  ClusterPipeline routing(pipeline);
  const auto parts = routing.next_batches(map_by({0, 0, 1, 1}), kNodes[0]);  // nobody has the last
  REQUIRE(parts.size() == 2);
  routing.record_replies(parts[0], fail(ErrorCode::kUnavailable, "redis_unavailable", {}, "not connected"));
  routing.record_replies(parts[1], fail(ErrorCode::kUnknownOutcome, "redis_timeout", {}, "late"));
  const auto replies = std::move(routing).result();
  REQUIRE_FALSE(replies);
  CHECK(replies.error().reason == "redis_timeout");
}

TEST_CASE("A node's answer is read as it was given: by name, without address, of no cluster", "[cluster]") {
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
  CHECK(alone.error().detail ==
        "192.0.2.9:9 is no node of a cluster: write redis:// in redis.url, or set cluster-enabled yes there");
  CHECK(SlotMap().uncovered_slots() == kSlots);
}
