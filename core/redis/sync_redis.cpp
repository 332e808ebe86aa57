#include "core/redis/sync_redis.h"

#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <thread>
#include <vector>

extern "C" {
#include <hiredis/hiredis.h>
}

#include "core/redis/cluster/routing.h"
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

// hiredis writes with write(2): a server that has closed the connection would end the process by
// SIGPIPE. Held back from this thread for as long as this lives, and taken off the queue if one
// came.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec at_once{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_, before_;
  bool was_pending_ = false;
};

}  // namespace

// The nodes, each with a SyncRedis of its own, and the map of slots, asked for anew when a node
// refused a command or was not there.
struct SyncRedis::Cluster {
  Cluster(const Endpoint& whole, milliseconds wait, std::span<const Script> all)
      : endpoint(whole), timeout(wait), scripts(all) {}

  SyncRedis& at(const Address& address) {
    for (auto& [known, node] : nodes) {
      if (known == address) return *node;
    }
    Endpoint one = endpoint;
    one.nodes.clear();
    one.host = address.host;
    one.port = address.port;
    nodes.emplace_back(address, std::make_unique<SyncRedis>(std::move(one), timeout, scripts));
    return *nodes.back().second;
  }

  // Of one that did nothing: names the node.
  static Error at_node(Error error, const Address& node) {
    if (error.code != ErrorCode::kUnavailable) return error;
    error.detail = what_ails(node, error.reason == "redis_away" ? std::string_view() : error.detail);
    return error;
  }

  // Errors: when no node has a map, what the last said, if any did.
  Result<void> renew() {
    std::vector<Address> asked = map.masters();
    for (const Address& each : endpoint.nodes) {
      if (std::ranges::find(asked, each) == asked.end()) asked.push_back(each);
    }
    Pipeline question;
    question.add("CLUSTER", "SLOTS");
    std::vector<SlotMap> said;
    Result<void> why;
    for (const Address& each : asked) {
      auto replies = at(each).call(question);
      auto one = replies ? SlotMap::read(replies->front(), each)
                         : Result<SlotMap>(tl::unexpected(std::move(replies.error())));
      if (one)
        said.push_back(std::move(*one));
      else if (const Error error = at_node(one.error(), each); why || error.reason != "redis_away")
        why = tl::unexpected(error);
    }
    auto most = SlotMap::most_said(std::move(said));
    if (!most) return why;
    map = std::move(*most);
    old = false;
    return {};
  }

  Result<Replies> call(const Pipeline& pipeline) {
    using Clock = std::chrono::steady_clock;
    const auto limit = Clock::now() + timeout;
    if (old) {
      if (auto ok = renew(); !ok) return tl::unexpected(ok.error());
    }
    Routing routing(pipeline);
    milliseconds pause = kFirstPause;
    while (true) {
      const Address any = map.masters().empty() ? Address() : map.masters().front();
      const auto parts = routing.next(map, any);
      for (const Routing::Part& each : parts) {
        auto replies = at(each.node).call(each.commands());
        routing.take(each,
                     replies ? std::move(replies) : tl::unexpected(at_node(replies.error(), each.node)));
      }
      old |= routing.map_may_be_old();
      if (parts.empty() || Clock::now() > limit) break;
      if (!routing.must_wait()) continue;
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongestPause);
    }
    return std::move(routing).result();
  }

  static constexpr milliseconds kFirstPause{2}, kLongestPause{50};  // while keys are being moved
  const Endpoint endpoint;
  const milliseconds timeout;
  const std::span<const Script> scripts;
  SlotMap map;
  bool old = true;
  std::vector<std::pair<Address, std::unique_ptr<SyncRedis>>> nodes;
};

void SyncRedis::Closer::operator()(redisContext* context) const noexcept { redisFree(context); }

SyncRedis::SyncRedis(Endpoint endpoint, milliseconds timeout, std::span<const Script> scripts)
    : endpoint_(std::move(endpoint)), timeout_(timeout), scripts_(scripts) {
  if (endpoint_.is_cluster()) cluster_ = std::make_unique<Cluster>(endpoint_, timeout_, scripts_);
}

SyncRedis::~SyncRedis() = default;

Task<Result<Replies>> SyncRedis::run(const Pipeline& pipeline) { co_return call(pipeline); }

Result<void> SyncRedis::connect() {
  const bool by_sentinels = !endpoint_.sentinels.addresses.empty();
  Result<Endpoint> at = endpoint_;
  if (by_sentinels) at = find_master(endpoint_, timeout_);
  if (!at) return tl::unexpected(at.error());
  const timeval limit = to_timeval(timeout_);
  context_.reset(at->unix_path.empty() ? redisConnectWithTimeout(at->host.c_str(), at->port, limit)
                                       : redisConnectUnixWithTimeout(at->unix_path.c_str(), limit));
  if (!context_ || context_->err || redisSetTimeout(context_.get(), limit) != REDIS_OK) {
    const std::string why = context_ ? context_->errstr : "out of memory";
    context_.reset();
    return fail(ErrorCode::kUnavailable, "redis_away", {}, why);
  }
  auto ok = shake_hands(by_sentinels);
  if (!ok) context_.reset();
  return ok;
}

Result<void> SyncRedis::shake_hands(bool must_be_master) {
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
  if (!replies) return fail(ErrorCode::kUnavailable, "redis_away", {}, replies.error().detail);
  for (const Reply& each : *replies) {
    if (each.is_error()) return tl::unexpected(classify(each.error()));
  }
  if (must_be_master && replies->back()[0].text() != "master")
    return fail(ErrorCode::kUnavailable, "redis_readonly", {},
                "the server that the sentinels name is no master");
  return {};
}

Result<Replies> SyncRedis::exchange(const Pipeline& pipeline) {
  const std::string_view bytes = pipeline.bytes();
  if (redisAppendFormattedCommand(context_.get(), bytes.data(), bytes.size()) != REDIS_OK) {
    context_.reset();
    return fail(ErrorCode::kUnavailable, "redis_away", {}, "out of memory");
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

Result<void> SyncRedis::load_scripts() {
  Pipeline load;
  for (const Script& script : scripts_) load.add("SCRIPT", "LOAD", script.source);
  if (load.empty()) return {};
  FRESHET_TRY(replies, exchange(load));
  for (const Reply& each : *replies) {
    if (each.is_error()) return tl::unexpected(classify(each.error()));
  }
  return {};
}

Result<Replies> SyncRedis::call_all(const Pipeline& pipeline) { return wait(run_all(*this, pipeline)); }

Result<Replies> SyncRedis::call_each(const Pipeline& pipeline) {
  auto replies = call(pipeline);
  if (!replies) return replies;
  for (const Reply& each : *replies) {
    if (!each.is_error()) continue;
    const Error error = classify(each.error());
    if (error.code == ErrorCode::kUnavailable) return tl::unexpected(error);
  }
  return replies;
}

Result<Replies> SyncRedis::call(const Pipeline& pipeline) {
  if (pipeline.empty()) return Replies();
  return cluster_ ? cluster_->call(pipeline) : call_one(pipeline);
}

Result<Replies> SyncRedis::call_one(const Pipeline& pipeline) {
  const WithoutSigpipe guard;
  if (!context_) {
    if (auto ok = connect(); !ok) return tl::unexpected(ok.error());
  }
  auto replies = exchange(pipeline);
  if (!replies) return replies;
  std::vector<std::size_t> unknown;
  bool reconnect = false;
  for (std::size_t i = 0; i < replies->size(); ++i) {
    if (!(*replies)[i].is_error()) continue;
    const ErrorRow* row = find_error((*replies)[i].error());
    if (row == nullptr) continue;
    reconnect |= row->retry == RetryPolicy::kReconnect;
    if (row->error_class == ErrorClass::kScript) unknown.push_back(i);
  }
  if (reconnect) context_.reset();  // the next call makes another
  if (reconnect) return replies;
  if (unknown.empty()) return replies;
  if (auto ok = load_scripts(); !ok) return tl::unexpected(ok.error());
  for (const std::size_t i : unknown) {
    // Once more, each alone: what was sent beside it has been done already.
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
