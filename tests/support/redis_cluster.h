// A private Redis Cluster on loopback. Each node has an address of its own and also listens on a
// unix socket (redis_server.h), through which a test can talk to that node alone. Nodes are ended
// by pid.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "core/redis/cluster/slot_map.h"
#include "tests/support/redis_server.h"

namespace freshet::test {

// Reserves `count` loopback addresses 127.a.b.1, 127.a.b.2, … with free Redis ports, until
// destroyed. Binding kClaimPort claims an address, as in loopback.py.
class LoopbackAddresses {
 public:
  static constexpr int kClaimPort = 18079, kRedisPort = 16379, kBusPort = kRedisPort + 10000;

  explicit LoopbackAddresses(int count) {
    std::random_device random;
    for (int tries = 0; tries < 1000 && !claim_network(random, count); ++tries) release();
    if (hosts_.empty()) throw std::runtime_error("no free loopback addresses");
  }
  ~LoopbackAddresses() { release(); }
  LoopbackAddresses(const LoopbackAddresses&) = delete;
  LoopbackAddresses& operator=(const LoopbackAddresses&) = delete;
  const std::vector<std::string>& hosts() const { return hosts_; }

 private:
  bool claim_network(std::random_device& random, int count) {
    const std::string network =
        "127." + std::to_string(1 + random() % 254) + "." + std::to_string(random() % 256) + ".";
    for (int last = 1; last <= count; ++last) {
      const std::string host = network + std::to_string(last);
      const int claim = try_bind(host, kClaimPort);
      if (claim >= 0) claims_.push_back(claim);
      const int port = try_bind(host, kRedisPort), bus = try_bind(host, kBusPort);
      ::close(port);
      ::close(bus);
      if (claim < 0 || port < 0 || bus < 0) return false;
      hosts_.push_back(host);
    }
    return true;
  }
  static int try_bind(const std::string& host, int port) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    inet_pton(AF_INET, host.c_str(), &address.sin_addr);
    if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
    ::close(fd);
    return -1;
  }
  void release() {
    for (const int each : claims_) ::close(each);
    claims_.clear();
    hosts_.clear();
  }

  std::vector<std::string> hosts_;
  std::vector<int> claims_;
};

class RedisCluster {
 public:
  // The first `masters` nodes share the slots equally; each further node is a replica of one of
  // them. Returns when the cluster has converged; throws if it does not.
  explicit RedisCluster(int masters = 3, int replicas = 0) : addresses_(masters + replicas) {
    for (const std::string& host : addresses_.hosts()) {
      nodes_.push_back(std::make_unique<RedisServer>(std::vector<std::string>{
          "--port", std::to_string(LoopbackAddresses::kRedisPort), "--bind", host, "--bind-source-addr", host,
          "--cluster-announce-ip", host, "--protected-mode", "no", "--cluster-enabled", "yes",
          "--cluster-node-timeout", "2000", "--cluster-config-file", "nodes.conf", "--appendonly", "no"}));
    }
    for (int i = 1; i < masters + replicas; ++i)
      call(0, {"CLUSTER", "MEET", host(i), std::to_string(LoopbackAddresses::kRedisPort)});
    for (int i = 0; i < masters; ++i)
      call(i, {"CLUSTER", "ADDSLOTSRANGE", std::to_string(redis::kSlots * i / masters),
               std::to_string(redis::kSlots * (i + 1) / masters - 1)});
    for (int i = masters; i < masters + replicas; ++i) {
      wait_until([&] { return text(call(i, {"CLUSTER", "REPLICATE", id(i % masters)})) == "OK"; });
    }
    wait_until([&] { return is_converged(masters, masters + replicas); });
  }

  std::string host(int node) const { return addresses_.hosts()[static_cast<std::size_t>(node)]; }
  redis::Address address(int node) const { return {host(node), LoopbackAddresses::kRedisPort}; }
  // The cluster's endpoint, given by its first node.
  redis::Endpoint endpoint() const {
    redis::Endpoint out;
    out.nodes = {address(0)};
    return out;
  }
  int size() const { return static_cast<int>(nodes_.size()); }
  RedisServer& node(int index) { return *nodes_[static_cast<std::size_t>(index)]; }
  std::string id(int node) { return text(call(node, {"CLUSTER", "MYID"})); }

  // Sends a command to one node, whichever keys it serves.
  redis::Reply call(int node, const std::vector<std::string>& words) {
    redis::Pipeline pipeline;
    pipeline.command(words.size());
    for (const std::string& each : words) pipeline.arg(each);
    redis::BlockingRedis client(this->node(node).endpoint(), milliseconds(20000), {});
    auto replies = client.call(pipeline);
    if (!replies) throw std::runtime_error(words[0] + ": " + replies.error().detail);
    return std::move(replies->front());
  }
  static std::string text(const redis::Reply& reply) { return std::string(reply.text()); }

  // Moves a slot to another master as redis-cli --cluster reshard does. Calls `after_step` after
  // each step.
  void move_slot(
      std::uint16_t slot, int from, int to, const std::function<void()>& after_step = [] {}) {
    const std::string number = std::to_string(slot);
    call_or_throw({"CLUSTER", "SETSLOT", number, "IMPORTING", id(from)}, to);
    call_or_throw({"CLUSTER", "SETSLOT", number, "MIGRATING", id(to)}, from);
    after_step();
    while (true) {
      const redis::Reply keys = call(from, {"CLUSTER", "GETKEYSINSLOT", number, "1"});
      if (keys.size() == 0) break;
      call_or_throw(
          {"MIGRATE", host(to), std::to_string(LoopbackAddresses::kRedisPort), text(keys[0]), "0", "5000"},
          from);
      after_step();
    }
    for (const int each : {to, from}) call_or_throw({"CLUSTER", "SETSLOT", number, "NODE", id(to)}, each);
    after_step();
  }

  static void wait_until(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < deadline) {
      if (condition()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    throw std::runtime_error("the cluster did not converge in time");
  }

 private:
  void call_or_throw(const std::vector<std::string>& words, int node) {
    const redis::Reply reply = call(node, words);
    if (reply.is_error()) throw std::runtime_error(words[0] + ": " + std::string(reply.error()));
  }
  bool is_converged(int masters, int all) {
    for (int i = 0; i < all; ++i) {
      const std::string info = text(call(i, {"CLUSTER", "INFO"}));
      if (info.find("cluster_state:ok") == info.npos ||
          info.find("cluster_known_nodes:" + std::to_string(all) + "\r") == info.npos ||
          info.find("cluster_size:" + std::to_string(masters) + "\r") == info.npos)
        return false;
    }
    return true;
  }

  LoopbackAddresses addresses_;
  std::vector<std::unique_ptr<RedisServer>> nodes_;
};

}  // namespace freshet::test
