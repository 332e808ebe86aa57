#include "core/redis/blocking_redis.h"

#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <thread>
#include <vector>

extern "C" {
#include <hiredis/hiredis.h>
}

#include "core/redis/cluster/cluster_pipeline.h"
#include "core/redis/sentinel.h"

namespace freshet::redis {
namespace {

timeval to_timeval(milliseconds span) {
  timeval out{};
  out.tv_sec = static_cast<time_t>(span.count() / 1000);
  out.tv_usec = static_cast<suseconds_t>(span.count() % 1000 * 1000);
  return out;
}

bool timed_out(const redisContext& context) {
  return context.err == REDIS_ERR_IO && (errno == EAGAIN || errno == EWOULDBLOCK);
}

// hiredis uses write(2), so a server that closed the connection would kill the process with
// SIGPIPE. Blocks the signal for this thread while it lives and discards one that was raised.
class SigpipeBlocker {
 public:
  SigpipeBlocker() {
    sigemptyset(&sigpipe_set_);
    sigaddset(&sigpipe_set_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &sigpipe_set_, &previous_mask_);
  }
  ~SigpipeBlocker() {
    const timespec at_once{};
    if (!was_pending_) sigtimedwait(&sigpipe_set_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
  }
  SigpipeBlocker(const SigpipeBlocker&) = delete;
  SigpipeBlocker& operator=(const SigpipeBlocker&) = delete;

 private:
  sigset_t sigpipe_set_, previous_mask_;
  bool was_pending_ = false;
};

}  // namespace

// A BlockingRedis per node, and the slot map, which is fetched again after a node refused a command
// or was unreachable.
struct BlockingRedis::Cluster {
  Cluster(const Endpoint& cluster_endpoint, milliseconds call_timeout, std::span<const Script> all_scripts)
      : endpoint(cluster_endpoint), timeout(call_timeout), scripts(all_scripts) {}

  BlockingRedis& node_for(const Address& address) {
    for (auto& [known, node] : nodes) {
      if (known == address) return *node;
    }
    Endpoint node_endpoint = endpoint;
    node_endpoint.nodes.clear();
    node_endpoint.host = address.host;
    node_endpoint.port = address.port;
    nodes.emplace_back(address, std::make_unique<BlockingRedis>(std::move(node_endpoint), timeout, scripts));
    return *nodes.back().second;
  }

  // Adds the node to an error that left the command unsent.
  static Error name_node(Error error, const Address& node) {
    if (error.code != ErrorCode::kUnavailable) return error;
    error.detail =
        describe_fault(node, error.reason == "redis_unavailable" ? std::string_view() : error.detail);
    return error;
  }

  // Errors if no node has a map: the last one other than "redis_unavailable".
  Result<void> refresh_map() {
    std::vector<Address> queried = map.masters();
    for (const Address& each : endpoint.nodes) {
      if (std::ranges::find(queried, each) == queried.end()) queried.push_back(each);
    }
    Pipeline command;
    command.add("CLUSTER", "SLOTS");
    std::vector<SlotMap> maps;
    Result<void> failure;
    for (const Address& each : queried) {
      auto replies = node_for(each).call(command);
      auto node_map = replies ? SlotMap::parse(replies->front(), each)
                              : Result<SlotMap>(tl::unexpected(std::move(replies.error())));
      if (node_map)
        maps.push_back(std::move(*node_map));
      else if (const Error error = name_node(node_map.error(), each);
               failure || error.reason != "redis_unavailable")
        failure = tl::unexpected(error);
    }
    auto majority = SlotMap::majority_map(std::move(maps));
    if (!majority) return failure;
    map = std::move(*majority);
    is_map_stale = false;
    return {};
  }

  Result<Replies> call(const Pipeline& pipeline) {
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + timeout;
    if (is_map_stale) {
      if (auto ok = refresh_map(); !ok) return tl::unexpected(ok.error());
    }
    ClusterPipeline cluster_pipeline(pipeline);
    milliseconds delay = kInitialRetryDelay;
    while (true) {
      const Address fallback_node = map.masters().empty() ? Address() : map.masters().front();
      const auto batches = cluster_pipeline.next_batches(map, fallback_node);
      for (const ClusterPipeline::NodeBatch& each : batches) {
        auto replies = node_for(each.node).call(each.commands());
        cluster_pipeline.record_replies(
            each, replies ? std::move(replies) : tl::unexpected(name_node(replies.error(), each.node)));
      }
      is_map_stale |= cluster_pipeline.is_map_stale();
      if (batches.empty() || Clock::now() > deadline) break;
      if (!cluster_pipeline.needs_delay()) continue;
      std::this_thread::sleep_for(delay);
      delay = std::min(2 * delay, kMaxRetryDelay);
    }
    return std::move(cluster_pipeline).result();
  }

  // Between attempts while keys migrate.
  static constexpr milliseconds kInitialRetryDelay{2}, kMaxRetryDelay{50};
  const Endpoint endpoint;
  const milliseconds timeout;
  const std::span<const Script> scripts;
  SlotMap map;
  bool is_map_stale = true;
  std::vector<std::pair<Address, std::unique_ptr<BlockingRedis>>> nodes;
};

void BlockingRedis::Closer::operator()(redisContext* context) const noexcept { redisFree(context); }

BlockingRedis::BlockingRedis(Endpoint endpoint, milliseconds timeout, std::span<const Script> scripts)
    : endpoint_(std::move(endpoint)), timeout_(timeout), scripts_(scripts) {
  if (endpoint_.is_cluster()) cluster_ = std::make_unique<Cluster>(endpoint_, timeout_, scripts_);
}

BlockingRedis::~BlockingRedis() = default;

Task<Result<Replies>> BlockingRedis::run(const Pipeline& pipeline) { co_return call(pipeline); }

Result<void> BlockingRedis::connect() {
  const bool use_sentinels = !endpoint_.sentinels.addresses.empty();
  Result<Endpoint> endpoint = endpoint_;
  if (use_sentinels) endpoint = find_master(endpoint_, timeout_);
  if (!endpoint) return tl::unexpected(endpoint.error());
  const timeval timeout = to_timeval(timeout_);
  context_.reset(endpoint->unix_path.empty()
                     ? redisConnectWithTimeout(endpoint->host.c_str(), endpoint->port, timeout)
                     : redisConnectUnixWithTimeout(endpoint->unix_path.c_str(), timeout));
  if (!context_ || context_->err || redisSetTimeout(context_.get(), timeout) != REDIS_OK) {
    const std::string why = context_ ? context_->errstr : "out of memory";
    context_.reset();
    return fail(ErrorCode::kUnavailable, "redis_unavailable", {}, why);
  }
  auto ok = perform_handshake(use_sentinels);
  if (!ok) context_.reset();
  return ok;
}

Result<void> BlockingRedis::perform_handshake(bool must_be_master) {
  Pipeline hello;
  if (!endpoint_.password.empty()) {
    if (endpoint_.username.empty())
      hello.add("AUTH", endpoint_.password);
    else
      hello.add("AUTH", endpoint_.username, endpoint_.password);
  }
  if (endpoint_.db != 0) hello.add("SELECT", endpoint_.db);
  hello.add("PING");
  if (must_be_master) hello.add("ROLE");
  const auto replies = exchange(hello);
  if (!replies) return fail(ErrorCode::kUnavailable, "redis_unavailable", {}, replies.error().detail);
  for (const Reply& each : *replies) {
    if (each.is_error()) return tl::unexpected(classify(each.error()));
  }
  if (must_be_master && replies->back()[0].text() != "master")
    return fail(ErrorCode::kUnavailable, "redis_readonly", {},
                "the server that the sentinels report is not a master");
  return {};
}

Result<Replies> BlockingRedis::exchange(const Pipeline& pipeline) {
  const std::string_view bytes = pipeline.bytes();
  if (redisAppendFormattedCommand(context_.get(), bytes.data(), bytes.size()) != REDIS_OK) {
    context_.reset();
    return fail(ErrorCode::kUnavailable, "redis_unavailable", {}, "out of memory");
  }
  Replies replies;
  replies.reserve(pipeline.size());
  for (std::size_t i = 0; i < pipeline.size(); ++i) {
    void* raw = nullptr;
    if (redisGetReply(context_.get(), &raw) != REDIS_OK) {
      const std::string_view reason = timed_out(*context_) ? "redis_timeout" : "redis_lost";
      const std::string why = context_->errstr;
      context_.reset();
      return fail(ErrorCode::kUnknownOutcome, reason, {}, why);
    }
    replies.emplace_back(static_cast<redisReply*>(raw));
  }
  return replies;
}

Result<void> BlockingRedis::load_scripts() {
  Pipeline load;
  for (const Script& script : scripts_) load.add("SCRIPT", "LOAD", script.source);
  if (load.empty()) return {};
  FRESHET_TRY(replies, exchange(load));
  for (const Reply& each : *replies) {
    if (each.is_error()) return tl::unexpected(classify(each.error()));
  }
  return {};
}

Result<Replies> BlockingRedis::call_all(const Pipeline& pipeline) {
  return run_sync(run_all(*this, pipeline));
}

Result<Replies> BlockingRedis::call_each(const Pipeline& pipeline) {
  auto replies = call(pipeline);
  if (!replies) return replies;
  for (const Reply& each : *replies) {
    if (!each.is_error()) continue;
    const Error error = classify(each.error());
    if (error.code == ErrorCode::kUnavailable) return tl::unexpected(error);
  }
  return replies;
}

Result<Replies> BlockingRedis::call(const Pipeline& pipeline) {
  if (pipeline.empty()) return Replies();
  return cluster_ ? cluster_->call(pipeline) : call_standalone(pipeline);
}

Result<Replies> BlockingRedis::call_standalone(const Pipeline& pipeline) {
  const SigpipeBlocker guard;
  if (!context_) {
    if (auto ok = connect(); !ok) return tl::unexpected(ok.error());
  }
  auto replies = exchange(pipeline);
  if (!replies) return replies;
  std::vector<std::size_t> missing_scripts;
  bool reconnect = false;
  for (std::size_t i = 0; i < replies->size(); ++i) {
    if (!(*replies)[i].is_error()) continue;
    const ErrorRow* row = find_error((*replies)[i].error());
    if (row == nullptr) continue;
    reconnect |= row->retry == RetryPolicy::kReconnect;
    if (row->error_class == ErrorClass::kScript) missing_scripts.push_back(i);
  }
  if (reconnect) context_.reset();  // the next call reconnects
  if (reconnect) return replies;
  if (missing_scripts.empty()) return replies;
  if (auto ok = load_scripts(); !ok) return tl::unexpected(ok.error());
  for (const std::size_t i : missing_scripts) {
    // Retry each one alone: the rest of the pipeline has already run.
    const std::string_view command = pipeline.at(i);
    void* raw = nullptr;
    if (redisAppendFormattedCommand(context_.get(), command.data(), command.size()) != REDIS_OK ||
        redisGetReply(context_.get(), &raw) != REDIS_OK) {
      context_.reset();
      return fail(ErrorCode::kUnknownOutcome, "redis_lost");
    }
    (*replies)[i] = Reply(static_cast<redisReply*>(raw));
  }
  return replies;
}

}  // namespace freshet::redis
