// Redis Cluster client on a worker's event loop: one connection per master, each with its own
// deadline and breaker (redis_connection.h), and the slot map by which ClusterPipeline splits a
// pipeline.
//
// The map is requested every second, from the nodes in turn, and whenever a node refuses a command
// or cannot be reached. A map that differs from the current one is adopted only if it is the
// majority's, because a master cut off from the rest keeps its outdated view. A connection to a new
// master is made when the map or a refusal names it.
//
// While a master is unavailable its commands fail as those of a single Redis do; the other masters
// are unaffected.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/async/timer.h"
#include "core/redis/cluster/cluster_pipeline.h"
#include "core/redis/redis_connection.h"

namespace freshet::redis {

class ClusterRedis final : public RedisClient, public MasterResolver {
 public:
  // Discovers the cluster from `options.endpoint.nodes`. Every connection uses these options and
  // loads `scripts`, which must outlive this.
  ClusterRedis(EventLoop& loop, ConnectionOptions options, std::span<const Script> scripts,
               milliseconds map_refresh_interval = milliseconds(1000));
  ~ClusterRedis() override { close(); }

  void connect() override;
  void close() override;
  // 1 RTT to each node and per barrier, plus one for each time a node refuses. No attempt begins
  // later than options.retry_within.
  Task<Result<Replies>> run(const Pipeline& pipeline) override;
  // True once every slot has a master and all of them have answered; after that, as long as any of
  // them answers.
  bool ready() const override { return ready_; }
  void on_ready_changed(std::function<void(bool)> listener) override { listener_ = std::move(listener); }
  const ConnectionCounters& counters() const override { return counters_; }
  BreakerState breaker_state() const override;
  // Messages are broadcast to all nodes, so a subscriber may use any. Listeners are notified when
  // the set of masters changes.
  MasterResolver* resolver() override { return this; }
  Task<Result<Endpoint>> resolve() override;  // the next ready master in turn; no RTT
  const SlotMap& map() const { return map_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Node {
    Address address;
    std::shared_ptr<RedisConnection> connection;
    Clock::time_point created_at;
  };

  Node& node_for(const Address& address);
  Endpoint endpoint_for(const Address& address) const;
  Address any_master() const;
  Task<void> send(ClusterPipeline& cluster_pipeline, std::vector<ClusterPipeline::NodeBatch>& batches,
                  Clock::time_point deadline);
  Task<void> send_one(ClusterPipeline& cluster_pipeline, const ClusterPipeline::NodeBatch& batch,
                      Clock::time_point deadline);
  Task<void> sleep(Clock::duration span);
  void tick();
  void request_map_refresh();
  Task<void> refresh_map();
  Task<Result<SlotMap>> fetch_map(Node node);
  void adopt_map(SlotMap map);
  void retire_removed_nodes();
  void update_ready();
  std::string describe_problem() const;
  void log_problem(const std::string& problem);

  EventLoop& loop_;
  const ConnectionOptions options_;
  const std::span<const Script> scripts_;
  const milliseconds map_refresh_interval_;
  ConnectionCounters counters_;  // summed over all connections
  std::vector<Node> nodes_;
  // Kept until their replies have arrived.
  std::vector<std::shared_ptr<RedisConnection>> retired_connections_;
  SlotMap map_;
  Timer tick_timer_;
  std::vector<std::shared_ptr<AsyncEvent<bool>>> sleepers_;
  std::function<void(bool)> listener_;
  std::string logged_problem_;       // last logged problem; "" if none
  std::string not_clustered_error_;  // error of a node that does not belong to a cluster
  std::size_t map_query_cursor_ = 0;
  std::size_t subscriber_cursor_;  // starts at the pid, so that workers use different nodes
  Clock::time_point map_requested_at_{};
  bool refreshing_map_ = false;
  bool was_complete_ = false;  // every slot once had a master that answered
  bool ready_ = false;
  bool closed_ = false;
};

}  // namespace freshet::redis
