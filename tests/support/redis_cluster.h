// A Redis Cluster of its own on loopback: each node at an address that nobody else has, ended by
// its pid. Each node also listens on a unix socket (redis_server.h), by which a test speaks to it
// alone.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>

#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "core/redis/cluster/slot_map.h"
#include "tests/support/redis_server.h"

namespace freshet::test {

// 127.a.b.c for c = 1, 2, …: as many as are asked for, on which nobody listens at these ports,
// until this ends. Whoever is bound to kClaim has an address, as in loopback.py.
class LoopbackAddresses {
 public:
  static constexpr int kClaim = 18079, kPort = 16379, kBus = kPort + 10000;

  explicit LoopbackAddresses(int count) {
    std::random_device random;
    for (int tries = 0; tries < 1000 && !try_network(random, count); ++tries) release();
    if (hosts_.empty()) throw std::runtime_error("no loopback addresses are free");
  }
  ~LoopbackAddresses() { release(); }
  LoopbackAddresses(const LoopbackAddresses&) = delete;
  LoopbackAddresses& operator=(const LoopbackAddresses&) = delete;
  const std::vector<std::string>& hosts() const { return hosts_; }

 private:
  bool try_network(std::random_device& random, int count) {
    const std::string network =
        "127." + std::to_string(1 + random() % 254) + "." + std::to_string(random() % 256) + ".";
    for (int last = 1; last <= count; ++last) {
      const std::string host = network + std::to_string(last);
      const int claim = bound(host, kClaim);
      if (claim >= 0) claims_.push_back(claim);
      const int port = bound(host, kPort), bus = bound(host, kBus);
      ::close(port);
      ::close(bus);
      if (claim < 0 || port < 0 || bus < 0) return false;
      hosts_.push_back(host);
    }
    return true;
  }
  static int bound(const std::string& host, int port) {
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
  // The first `masters` have all slots, in equal parts; each further node is a replica of one.
  // Whole when this returns; throws when it does not get there.
  explicit RedisCluster(int masters = 3, int replicas = 0) : addresses_(masters + replicas) {
    for (const std::string& host : addresses_.hosts()) {
      nodes_.push_back(std::make_unique<RedisServer>(std::vector<std::string>{
          "--port", std::to_string(LoopbackAddresses::kPort), "--bind", host, "--bind-source-addr", host,
          "--cluster-announce-ip", host, "--protected-mode", "no", "--cluster-enabled", "yes",
          "--cluster-node-timeout", "2000", "--cluster-config-file", "nodes.conf", "--appendonly", "no"}));
    }
    for (int i = 1; i < masters + replicas; ++i)
      ask(0, {"CLUSTER", "MEET", host(i), std::to_string(LoopbackAddresses::kPort)});
    for (int i = 0; i < masters; ++i)
      ask(i, {"CLUSTER", "ADDSLOTSRANGE", std::to_string(redis::kSlots * i / masters),
              std::to_string(redis::kSlots * (i + 1) / masters - 1)});
    for (int i = masters; i < masters + replicas; ++i) {
      await([&] { return text(ask(i, {"CLUSTER", "REPLICATE", id(i % masters)})) == "OK"; });
    }
    await([&] { return all_see(masters, masters + replicas); });
  }

  std::string host(int node) const { return addresses_.hosts()[static_cast<std::size_t>(node)]; }
  redis::Address address(int node) const { return {host(node), LoopbackAddresses::kPort}; }
  // Of the whole: its first node is named.
  redis::Endpoint endpoint() const {
    redis::Endpoint out;
    out.nodes = {address(0)};
    return out;
  }
  int size() const { return static_cast<int>(nodes_.size()); }
  RedisServer& node(int index) { return *nodes_[static_cast<std::size_t>(index)]; }
  std::string id(int node) { return text(ask(node, {"CLUSTER", "MYID"})); }

  // Of one node, whichever keys it has.
  redis::Reply ask(int node, const std::vector<std::string>& words) {
    redis::Pipeline pipeline;
    pipeline.command(words.size());
    for (const std::string& each : words) pipeline.arg(each);
    redis::SyncRedis client(this->node(node).endpoint(), milliseconds(20000), {});
    auto replies = client.call(pipeline);
    if (!replies) throw std::runtime_error(words[0] + ": " + replies.error().detail);
    return std::move(replies->front());
  }
  static std::string text(const redis::Reply& reply) { return std::string(reply.text()); }

  // Gives a slot to another master as redis-cli --cluster reshard does; `between` runs after each
  // of its steps.
  void move_slot(
      std::uint16_t slot, int from, int to, const std::function<void()>& between = [] {}) {
    const std::string number = std::to_string(slot);
    must({"CLUSTER", "SETSLOT", number, "IMPORTING", id(from)}, to);
    must({"CLUSTER", "SETSLOT", number, "MIGRATING", id(to)}, from);
    between();
    while (true) {
      const redis::Reply keys = ask(from, {"CLUSTER", "GETKEYSINSLOT", number, "1"});
      if (keys.size() == 0) break;
      must({"MIGRATE", host(to), std::to_string(LoopbackAddresses::kPort), text(keys[0]), "0", "5000"}, from);
      between();
    }
    for (const int each : {to, from}) must({"CLUSTER", "SETSLOT", number, "NODE", id(to)}, each);
    between();
  }

  static void await(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < deadline) {
      if (condition()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    throw std::runtime_error("the cluster did not get there");
  }

 private:
  void must(const std::vector<std::string>& words, int node) {
    const redis::Reply reply = ask(node, words);
    if (reply.is_error()) throw std::runtime_error(words[0] + ": " + std::string(reply.error()));
  }
  bool all_see(int masters, int all) {
    for (int i = 0; i < all; ++i) {
      const std::string info = text(ask(i, {"CLUSTER", "INFO"}));
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
