// Checks a Redis Cluster as a whole and each of its masters.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/redis/cluster/slot.h"
#include "core/redis/cluster/slot_map.h"
#include "core/redis/fields.h"
#include "core/redis/partitions/partitions.h"
#include "core/redis/schema.h"
#include "scripts/ctl/doctor/doctor.h"

namespace freshet::ctl {
namespace {

using redis::Address;
using redis::Pipeline;
using redis::Reply;

constexpr std::size_t kMinMasters = 3;  // with fewer, no majority can vote after losing one
constexpr milliseconds kTimeout{2000};

// CONFIG GET's value; empty: not permitted.
std::string directive(const Reply& reply) {
  return reply.size() == 2 ? std::string(redis::string_at(reply, 1)) : std::string();
}

Result<MasterFacts> collect_master_facts(redis::Endpoint endpoint, const Address& address) {
  endpoint.nodes.clear();
  endpoint.host = address.host;
  endpoint.port = address.port;
  redis::BlockingRedis redis(std::move(endpoint), kTimeout, {});
  Pipeline command;
  command.add("INFO", "server")
      .add("INFO", "replication")
      .add("CONFIG", "GET", "maxmemory")
      .add("CONFIG", "GET", "cluster-require-full-coverage");
  FRESHET_TRY(replies, redis.call(command));
  MasterFacts facts;
  facts.name = to_string(address);
  facts.server = redis::server_name((*replies)[0].text());
  // CLUSTER SLOTS omits replicas that have not been sent any data yet.
  facts.has_replica = redis::info_value((*replies)[1].text(), "connected_slaves") != "0";
  facts.maxmemory = directive((*replies)[2]);
  facts.full_coverage = directive((*replies)[3]) == "yes";
  return facts;
}

std::string names_where(const std::vector<MasterFacts>& masters, bool (*predicate)(const MasterFacts&)) {
  std::vector<std::string> out;
  for (const MasterFacts& each : masters)
    if (predicate(each)) out.push_back(each.name);
  return fmt::format("{}", fmt::join(out, ", "));
}

// Every rank update of an article goes to the master of its partition, so partitions should be
// spread evenly.
void evaluate_partitions(const std::vector<MasterFacts>& masters, Diagnoses& out) {
  std::size_t all = 0;
  for (const MasterFacts& each : masters) all += each.partitions;
  if (all < masters.size()) return;
  const auto largest = std::ranges::max_element(masters, {}, &MasterFacts::partitions);
  if (largest->partitions <= (all + masters.size() - 1) / masters.size() + 1) return;
  out.warn("redis.cluster.groups",
           fmt::format("{} has {} of the {} partitions, more than its share", largest->name,
                       largest->partitions, all),
           "run `redis-cli --cluster rebalance` to give all masters equal ranges of slots");
}

}  // namespace

Result<ClusterFacts> collect_cluster_facts(redis::BlockingRedis& redis, const redis::Endpoint& endpoint,
                                           unsigned partitions) {
  Pipeline question;
  question.add("CLUSTER", "SLOTS");
  FRESHET_TRY(replies, redis.call(question));
  FRESHET_TRY(map, redis::SlotMap::parse(replies->front(), endpoint.nodes.front()));
  ClusterFacts facts;
  facts.uncovered_slots = map->uncovered_slots();
  for (const Address& each : map->masters()) {
    auto master = collect_master_facts(endpoint, each);
    if (!master) {
      facts.unreachable_masters.push_back(to_string(each));
      continue;
    }
    for (unsigned partition = 0; partition < partitions; ++partition) {
      const Address* const owner =
          map->owner(redis::slot_of(redis::partition_hash_tag(partition, partitions)));
      if (owner != nullptr && *owner == each) ++master->partitions;
    }
    facts.masters.push_back(std::move(*master));
  }
  return facts;
}

void evaluate_cluster(const ClusterFacts& facts, Diagnoses& out) {
  constexpr std::string_view kCheck = "redis.cluster";
  const auto& masters = facts.masters;
  if (facts.uncovered_slots > 0)
    out.error(
        kCheck,
        fmt::format("{} of 16,384 slots have no master: their keys are unavailable", facts.uncovered_slots),
        "restart the node that had them, or run `redis-cli --cluster fix`");
  if (!facts.unreachable_masters.empty())
    out.error(kCheck, fmt::format("{} does not answer", fmt::join(facts.unreachable_masters, ", ")),
              "check the node and the Redis account on it; each node has its own accounts");
  if (masters.size() + facts.unreachable_masters.size() < kMinMasters)
    out.warn(kCheck, "fewer than three masters: if one is lost, no majority can promote its replica",
             "use three or more masters on different hosts");
  if (const auto alone = names_where(masters, [](const MasterFacts& each) { return !each.has_replica; });
      !alone.empty())
    out.warn(kCheck, fmt::format("{} has no replica: its keys are unavailable while it is down", alone),
             "run `redis-cli --cluster add-node NODE ANY --cluster-slave` with a node on another host");
  if (const auto strict = names_where(masters, [](const MasterFacts& each) { return each.full_coverage; });
      !strict.empty())
    out.warn(kCheck,
             fmt::format("cluster-require-full-coverage is on at {}: losing one master stops all the others",
                         strict),
             "set `cluster-require-full-coverage no` in redis.conf of every node");
  if (const auto open = names_where(masters, [](const MasterFacts& each) { return each.maxmemory == "0"; });
      !open.empty())
    out.warn(kCheck, fmt::format("maxmemory is not set at {}", open), "set it in redis.conf of every node");
  std::set<std::string> servers;
  for (const MasterFacts& each : masters) servers.insert(each.server);
  if (servers.size() > 1)
    out.warn(kCheck, fmt::format("masters run different servers: {}", fmt::join(servers, ", ")),
             "upgrade the older ones");
  evaluate_partitions(masters, out);
  if (facts.uncovered_slots == 0 && facts.unreachable_masters.empty())
    out.ok(kCheck, fmt::format("{} masters cover all slots", masters.size()));
}

}  // namespace freshet::ctl
