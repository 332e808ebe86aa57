#include "core/redis/cluster/cluster_redis.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/base/log.h"

namespace freshet::redis {
namespace {

constexpr milliseconds kMostOften{20};                     // the map is asked for, whatever is refused
constexpr milliseconds kFirstPause{2}, kLongestPause{50};  // while keys are being moved

}  // namespace

ClusterRedis::ClusterRedis(EventLoop& loop, LinkOptions options, std::span<const Script> scripts,
                           milliseconds renew_every)
    : loop_(loop),
      options_(std::move(options)),
      scripts_(scripts),
      renew_every_(renew_every),
      beat_(loop),
      listened_last_(static_cast<std::size_t>(getpid())) {}

void ClusterRedis::connect() {
  for (const Address& each : options_.endpoint.nodes) node_at(each);
  beat();
}

void ClusterRedis::close() {
  if (std::exchange(closed_, true)) return;
  listener_ = nullptr;
  beat_.cancel();
  for (const auto& each : std::exchange(sleepers_, {})) each->fire(false);
  // Whom this wakes finds every node closed.
  for (const Node& each : nodes_) each.connection->close();
  for (const auto& each : retired_) each->close();
}

BreakerState ClusterRedis::breaker_state() const {
  BreakerState worst = BreakerState::kClosed;
  for (const Node& each : nodes_) {
    const BreakerState state = each.connection->breaker_state();
    if (worst == BreakerState::kClosed || state == BreakerState::kOpen) worst = state;
  }
  return worst;
}

// --- commands

Task<Result<Replies>> ClusterRedis::run(const Pipeline& pipeline) {
  if (pipeline.empty()) co_return fail(ErrorCode::kInternal, "redis_empty", {}, "empty pipeline");
  const auto limit = Clock::now() + options_.retry_within;
  Routing routing(pipeline);
  milliseconds pause = kFirstPause;
  while (true) {
    std::vector<Routing::Part> parts = routing.next(map_, any_master());
    if (!parts.empty()) co_await send(routing, parts, limit);
    if (routing.map_may_be_old()) look_at_map();
    if (parts.empty() || Clock::now() > limit) break;
    if (!routing.must_wait()) continue;
    co_await sleep(pause);
    if (closed_ || Clock::now() > limit) break;
    pause = std::min(2 * pause, kLongestPause);
  }
  co_return std::move(routing).result();
}

Task<void> ClusterRedis::send(Routing& routing, std::vector<Routing::Part>& parts, Clock::time_point limit) {
  AsyncEvent<bool> all;
  std::size_t left = parts.size() - 1;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    spawn(send_one(routing, parts[i], limit), [&](std::exception_ptr) {
      if (--left == 0) all.fire(true);
    });
  }
  co_await send_one(routing, parts.back(), limit);
  if (left > 0) co_await all.wait();
}

Task<void> ClusterRedis::send_one(Routing& routing, const Routing::Part& part, Clock::time_point limit) {
  const Node node = node_at(part.node);  // a copy: it may be retired meanwhile
  // One that a refusal just named is still shaking hands.
  if (!node.connection->ready() && Clock::now() - node.made < options_.timeout)
    co_await node.connection->ready_before(std::min(limit, node.made + options_.timeout));
  Result<Replies> replies = co_await node.connection->run(part.commands());
  routing.take(part, std::move(replies));
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

// --- nodes

ClusterRedis::Node& ClusterRedis::node_at(const Address& address) {
  const auto found = std::ranges::find(nodes_, address, &Node::address);
  if (found != nodes_.end()) return *found;
  LinkOptions options = options_;
  options.endpoint = endpoint_of(address);
  nodes_.push_back({address,
                    std::make_shared<RedisConnection>(loop_, std::move(options), scripts_, &counters_),
                    Clock::now()});
  RedisConnection& connection = *nodes_.back().connection;
  connection.on_ready_changed([this](bool) { node_changed(); });
  if (closed_)
    connection.close();
  else
    connection.connect();
  return nodes_.back();
}

Endpoint ClusterRedis::endpoint_of(const Address& address) const {
  Endpoint out = options_.endpoint;
  out.nodes.clear();
  out.host = address.host;
  out.port = address.port;
  return out;
}

Task<Result<Endpoint>> ClusterRedis::find() {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& next = nodes_[++listened_last_ % nodes_.size()];
    if (next.connection->ready()) co_return endpoint_of(next.address);
  }
  co_return fail(ErrorCode::kUnavailable, "redis_away", {}, "no node of the cluster answers");
}

Address ClusterRedis::any_master() const {
  for (const Address& each : map_.masters()) {
    const auto found = std::ranges::find(nodes_, each, &Node::address);
    if (found != nodes_.end() && found->connection->ready()) return each;
  }
  return map_.masters().empty() ? Address() : map_.masters().front();
}

void ClusterRedis::node_changed() {
  if (closed_) return;
  if (map_.masters().empty()) look_at_map();
  const auto answers = [&](const Address& master) {
    const auto found = std::ranges::find(nodes_, master, &Node::address);
    return found != nodes_.end() && found->connection->ready();
  };
  const auto& masters = map_.masters();
  complete_ |= map_.uncovered() == 0 && std::ranges::all_of(masters, answers);
  const bool ready = complete_ && std::ranges::any_of(masters, answers);
  if (std::exchange(ready_, ready) != ready && listener_) listener_(ready);
}

// --- the map

void ClusterRedis::beat() {
  std::erase_if(retired_, [](const auto& each) { return each.use_count() == 1 && each->in_flight() == 0; });
  look_at_map();
  beat_.after(renew_every_, [this] {
    say(what_is_missing());
    beat();
  });
}

void ClusterRedis::look_at_map() {
  if (closed_ || renewing_) return;
  if (!map_.masters().empty() && Clock::now() - looked_ < kMostOften) return;
  renewing_ = true;
  looked_ = Clock::now();
  spawn(renew(), [this](std::exception_ptr) { renewing_ = false; });
}

Task<Result<SlotMap>> ClusterRedis::map_of(Node node) {
  Pipeline question;
  question.add("CLUSTER", "SLOTS");
  const Result<Replies> replies = co_await node.connection->run(question);
  if (!replies) co_return tl::unexpected(replies.error());
  co_return SlotMap::read(replies->front(), node.address);
}

Task<void> ClusterRedis::renew() {
  std::vector<Node> asked;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& next = nodes_[(asked_last_ + 1 + i) % nodes_.size()];
    if (next.connection->ready()) asked.push_back(next);
  }
  ++asked_last_;
  // All are lost: whoever was named first may know others.
  if (asked.empty()) {
    for (const Address& each : options_.endpoint.nodes) node_at(each);
  }
  std::vector<SlotMap> said;
  for (const Node& each : asked) {
    Result<SlotMap> map = co_await map_of(each);
    if (closed_) co_return;
    if (!map) {
      if (map.error().reason == "no_cluster") say(no_cluster_ = map.error().detail);
      continue;
    }
    if (said.empty() && *map == map_) co_return;
    said.push_back(std::move(*map));
  }
  if (auto most = SlotMap::most_said(std::move(said))) adopt(std::move(*most));
}

void ClusterRedis::adopt(SlotMap map) {
  if (map == map_) return;
  const bool moved = !map_.masters().empty() && !std::ranges::is_permutation(map.masters(), map_.masters());
  map_ = std::move(map);
  for (const Address& each : map_.masters()) node_at(each);
  retire_others();
  node_changed();
  if (moved) tell_all();
}

void ClusterRedis::retire_others() {
  if (map_.masters().empty()) return;
  const auto stays = [&](const Node& each) {
    return std::ranges::find(map_.masters(), each.address) != map_.masters().end();
  };
  for (const Node& each : nodes_) {
    if (stays(each)) continue;
    each.connection->on_ready_changed(nullptr);
    retired_.push_back(each.connection);
  }
  std::erase_if(nodes_, [&](const Node& each) { return !stays(each); });
}

// "" when nothing is.
std::string ClusterRedis::what_is_missing() const {
  if (map_.masters().empty()) {
    if (!no_cluster_.empty()) return no_cluster_;
    for (const Node& each : nodes_)
      if (!each.connection->refused().empty()) return what_ails(each.address, each.connection->refused());
    return "none of " + shown(options_.endpoint) +
           " answers as a node of it: start one, or correct redis.url";
  }
  if (map_.uncovered() > 0)
    return std::to_string(map_.uncovered()) + " of " + std::to_string(kSlots) +
           " slots have no master: start it, or give them to another by redis-cli --cluster fix";
  for (const Address& each : map_.masters()) {
    const auto found = std::ranges::find(nodes_, each, &Node::address);
    if (found == nodes_.end() || !found->connection->ready())
      return what_ails(each, found == nodes_.end() ? "" : found->connection->refused());
  }
  return {};
}

void ClusterRedis::say(const std::string& what) {
  if (what == said_) return;
  said_ = what;
  if (what.empty())
    log::notice("cluster_whole");
  else
    log::warning("cluster_incomplete", {{"error", what}});
}

}  // namespace freshet::redis
