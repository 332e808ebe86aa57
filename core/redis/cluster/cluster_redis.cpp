#include "core/redis/cluster/cluster_redis.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/base/log.h"

namespace freshet::redis {
namespace {

constexpr milliseconds kMinMapRefreshInterval{20};  // limits map refreshes that refusals trigger
constexpr milliseconds kInitialRetryDelay{2}, kMaxRetryDelay{50};  // between attempts while keys migrate

}  // namespace

ClusterRedis::ClusterRedis(EventLoop& loop, ConnectionOptions options, std::span<const Script> scripts,
                           milliseconds map_refresh_interval)
    : loop_(loop),
      options_(std::move(options)),
      scripts_(scripts),
      map_refresh_interval_(map_refresh_interval),
      tick_timer_(loop),
      subscriber_cursor_(static_cast<std::size_t>(getpid())) {}

void ClusterRedis::connect() {
  for (const Address& each : options_.endpoint.nodes) node_for(each);
  tick();
}

void ClusterRedis::close() {
  if (std::exchange(closed_, true)) return;
  listener_ = nullptr;
  tick_timer_.cancel();
  for (const auto& each : std::exchange(sleepers_, {})) each->fire(false);
  // Coroutines that this resumes find every node closed.
  for (const Node& each : nodes_) each.connection->close();
  for (const auto& each : retired_connections_) each->close();
}

BreakerState ClusterRedis::breaker_state() const {
  BreakerState worst = BreakerState::kClosed;
  for (const Node& each : nodes_) {
    const BreakerState state = each.connection->breaker_state();
    if (worst == BreakerState::kClosed || state == BreakerState::kOpen) worst = state;
  }
  return worst;
}

Task<Result<Replies>> ClusterRedis::run(const Pipeline& pipeline) {
  if (pipeline.empty()) co_return fail(ErrorCode::kInternal, "redis_empty", {}, "empty pipeline");
  const auto deadline = Clock::now() + options_.retry_within;
  ClusterPipeline cluster_pipeline(pipeline);
  milliseconds delay = kInitialRetryDelay;
  while (true) {
    std::vector<ClusterPipeline::NodeBatch> batches = cluster_pipeline.next_batches(map_, any_master());
    if (!batches.empty()) co_await send(cluster_pipeline, batches, deadline);
    if (cluster_pipeline.is_map_stale()) request_map_refresh();
    if (batches.empty() || Clock::now() > deadline) break;
    if (!cluster_pipeline.needs_delay()) continue;
    co_await sleep(delay);
    if (closed_ || Clock::now() > deadline) break;
    delay = std::min(2 * delay, kMaxRetryDelay);
  }
  co_return std::move(cluster_pipeline).result();
}

Task<void> ClusterRedis::send(ClusterPipeline& cluster_pipeline,
                              std::vector<ClusterPipeline::NodeBatch>& batches, Clock::time_point deadline) {
  AsyncEvent<bool> all_done;
  std::size_t remaining = batches.size() - 1;
  for (std::size_t i = 0; i + 1 < batches.size(); ++i) {
    spawn(send_one(cluster_pipeline, batches[i], deadline), [&](std::exception_ptr) {
      if (--remaining == 0) all_done.fire(true);
    });
  }
  co_await send_one(cluster_pipeline, batches.back(), deadline);
  if (remaining > 0) co_await all_done.wait();
}

Task<void> ClusterRedis::send_one(ClusterPipeline& cluster_pipeline, const ClusterPipeline::NodeBatch& batch,
                                  Clock::time_point deadline) {
  const Node node = node_for(batch.node);  // a copy: the node may be retired while this waits
  // A node that a refusal has just named may still be in its handshake.
  if (!node.connection->ready() && Clock::now() - node.created_at < options_.timeout)
    co_await node.connection->wait_until_ready(std::min(deadline, node.created_at + options_.timeout));
  Result<Replies> replies = co_await node.connection->run(batch.commands());
  cluster_pipeline.record_replies(batch, std::move(replies));
}

Task<void> ClusterRedis::sleep(Clock::duration span) {
  const auto event = std::make_shared<AsyncEvent<bool>>();
  sleepers_.push_back(event);
  Timer timer(loop_);
  timer.after(span, [event] {
    if (event->has_waiter()) event->fire(true);
  });
  co_await event->wait();
  std::erase(sleepers_, event);
}

ClusterRedis::Node& ClusterRedis::node_for(const Address& address) {
  const auto found = std::ranges::find(nodes_, address, &Node::address);
  if (found != nodes_.end()) return *found;
  ConnectionOptions options = options_;
  options.endpoint = endpoint_for(address);
  nodes_.push_back({address,
                    std::make_shared<RedisConnection>(loop_, std::move(options), scripts_, &counters_),
                    Clock::now()});
  RedisConnection& connection = *nodes_.back().connection;
  connection.on_ready_changed([this](bool) { update_ready(); });
  if (closed_)
    connection.close();
  else
    connection.connect();
  return nodes_.back();
}

Endpoint ClusterRedis::endpoint_for(const Address& address) const {
  Endpoint out = options_.endpoint;
  out.nodes.clear();
  out.host = address.host;
  out.port = address.port;
  return out;
}

Task<Result<Endpoint>> ClusterRedis::resolve() {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& next = nodes_[++subscriber_cursor_ % nodes_.size()];
    if (next.connection->ready()) co_return endpoint_for(next.address);
  }
  co_return fail(ErrorCode::kUnavailable, "redis_unavailable", {}, "no node of the cluster answers");
}

Address ClusterRedis::any_master() const {
  for (const Address& each : map_.masters()) {
    const auto found = std::ranges::find(nodes_, each, &Node::address);
    if (found != nodes_.end() && found->connection->ready()) return each;
  }
  return map_.masters().empty() ? Address() : map_.masters().front();
}

void ClusterRedis::update_ready() {
  if (closed_) return;
  if (map_.masters().empty()) request_map_refresh();
  const auto answers = [&](const Address& master) {
    const auto found = std::ranges::find(nodes_, master, &Node::address);
    return found != nodes_.end() && found->connection->ready();
  };
  const auto& masters = map_.masters();
  was_complete_ |= map_.uncovered_slots() == 0 && std::ranges::all_of(masters, answers);
  const bool ready = was_complete_ && std::ranges::any_of(masters, answers);
  if (std::exchange(ready_, ready) != ready && listener_) listener_(ready);
}

// --- slot map

void ClusterRedis::tick() {
  std::erase_if(retired_connections_,
                [](const auto& each) { return each.use_count() == 1 && each->in_flight() == 0; });
  request_map_refresh();
  tick_timer_.after(map_refresh_interval_, [this] {
    log_problem(describe_problem());
    tick();
  });
}

void ClusterRedis::request_map_refresh() {
  if (closed_ || refreshing_map_) return;
  if (!map_.masters().empty() && Clock::now() - map_requested_at_ < kMinMapRefreshInterval) return;
  refreshing_map_ = true;
  map_requested_at_ = Clock::now();
  spawn(refresh_map(), [this](std::exception_ptr) { refreshing_map_ = false; });
}

Task<Result<SlotMap>> ClusterRedis::fetch_map(Node node) {
  Pipeline command;
  command.add("CLUSTER", "SLOTS");
  const Result<Replies> replies = co_await node.connection->run(command);
  if (!replies) co_return tl::unexpected(replies.error());
  co_return SlotMap::parse(replies->front(), node.address);
}

Task<void> ClusterRedis::refresh_map() {
  std::vector<Node> queried;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& next = nodes_[(map_query_cursor_ + 1 + i) % nodes_.size()];
    if (next.connection->ready()) queried.push_back(next);
  }
  ++map_query_cursor_;
  // All nodes are lost: start again from the configured ones.
  if (queried.empty()) {
    for (const Address& each : options_.endpoint.nodes) node_for(each);
  }
  std::vector<SlotMap> maps;
  for (const Node& each : queried) {
    Result<SlotMap> map = co_await fetch_map(each);
    if (closed_) co_return;
    if (!map) {
      if (map.error().reason == "no_cluster") log_problem(not_clustered_error_ = map.error().detail);
      continue;
    }
    if (maps.empty() && *map == map_) co_return;
    maps.push_back(std::move(*map));
  }
  if (auto majority = SlotMap::majority_map(std::move(maps))) adopt_map(std::move(*majority));
}

void ClusterRedis::adopt_map(SlotMap map) {
  if (map == map_) return;
  const bool masters_changed =
      !map_.masters().empty() && !std::ranges::is_permutation(map.masters(), map_.masters());
  map_ = std::move(map);
  for (const Address& each : map_.masters()) node_for(each);
  retire_removed_nodes();
  update_ready();
  if (masters_changed) notify_listeners();
}

void ClusterRedis::retire_removed_nodes() {
  if (map_.masters().empty()) return;
  const auto is_master = [&](const Node& each) {
    return std::ranges::find(map_.masters(), each.address) != map_.masters().end();
  };
  for (const Node& each : nodes_) {
    if (is_master(each)) continue;
    each.connection->on_ready_changed(nullptr);
    retired_connections_.push_back(each.connection);
  }
  std::erase_if(nodes_, [&](const Node& each) { return !is_master(each); });
}

// "" if there is none.
std::string ClusterRedis::describe_problem() const {
  if (map_.masters().empty()) {
    if (!not_clustered_error_.empty()) return not_clustered_error_;
    for (const Node& each : nodes_)
      if (!each.connection->handshake_error().empty())
        return describe_fault(each.address, each.connection->handshake_error());
    return to_string(options_.endpoint) + " does not answer: start its nodes, or correct redis.url";
  }
  if (map_.uncovered_slots() > 0)
    return std::to_string(map_.uncovered_slots()) + " of " + std::to_string(kSlots) +
           " slots have no master: start it, or reassign them with redis-cli --cluster fix";
  for (const Address& each : map_.masters()) {
    const auto found = std::ranges::find(nodes_, each, &Node::address);
    if (found == nodes_.end() || !found->connection->ready())
      return describe_fault(each, found == nodes_.end() ? "" : found->connection->handshake_error());
  }
  return {};
}

void ClusterRedis::log_problem(const std::string& problem) {
  if (problem == logged_problem_) return;
  logged_problem_ = problem;
  if (problem.empty())
    log::notice("cluster_coverage_restored");
  else
    log::warning("cluster_coverage_lost", {{"error", problem}});
}

}  // namespace freshet::redis
