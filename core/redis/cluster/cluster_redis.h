// A Redis Cluster on a worker's loop: a connection to each master, with its own deadline and
// breaker (redis_connection.h), and the map of slots by which Routing splits a pipeline.
//
// The map is asked for each second, of another node each time, and whenever a node refused a
// command or was not there. One that differs from ours is adopted when most nodes say the same:
// a master that was cut off from the rest goes on believing what it knew. A connection to a new
// master is made when the map, or a refusal, names it.
//
// While a master is away its commands fail as those of a single Redis do, and the others go on.
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
  // `options.endpoint.nodes` are asked for the rest; each connection has these options and loads
  // `scripts`, which outlive this.
  ClusterRedis(EventLoop& loop, ConnectionOptions options, std::span<const Script> scripts,
               milliseconds map_refresh_interval = milliseconds(1000));
  ~ClusterRedis() override { close(); }

  void connect() override;
  void close() override;
  // 1 RTT to each node and between barriers; one more for each time a node refused. None begins
  // later than options.retry_within.
  Task<Result<Replies>> run(const Pipeline& pipeline) override;
  // From when every slot has a master and each of them answers; later while one of them does.
  bool ready() const override { return ready_; }
  void on_ready_changed(std::function<void(bool)> listener) override { listener_ = std::move(listener); }
  const ConnectionCounters& counters() const override { return counters_; }
  BreakerState breaker_state() const override;
  // Each node has all messages. Who listens is told when another node became a master, or one is
  // none any more.
  MasterResolver* resolver() override { return this; }
  Task<Result<Endpoint>> resolve() override;  // another master each time; no RTT
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
  Task<void> send(ClusterPipeline& cluster_pipeline, std::vector<ClusterPipeline::NodeBatch>& batches, Clock::time_point deadline);
  Task<void> send_one(ClusterPipeline& cluster_pipeline, const ClusterPipeline::NodeBatch& batch, Clock::time_point deadline);
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
  const milliseconds map_refresh_interval_;  // the map
  ConnectionCounters counters_;     // of all connections
  std::vector<Node> nodes_;
  std::vector<std::shared_ptr<RedisConnection>> retired_connections_;  // until what they were sent is answered
  SlotMap map_;
  Timer tick_timer_;
  std::vector<std::shared_ptr<AsyncEvent<bool>>> sleepers_;
  std::function<void(bool)> listener_;
  std::string logged_problem_;        // in the log
  std::string not_clustered_error_;  // what a node said that is none of a cluster
  std::size_t map_query_cursor_ = 0;
  std::size_t subscriber_cursor_;   // workers begin at different nodes
  Clock::time_point map_requested_at_{};  // at the map
  bool refreshing_map_ = false;
  bool was_complete_ = false;  // every slot had a master that answered, once
  bool ready_ = false;
  bool closed_ = false;
};

}  // namespace freshet::redis
