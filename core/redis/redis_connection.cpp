#include "core/redis/redis_connection.h"

#include <algorithm>

extern "C" {
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
}

#include "core/base/log.h"

namespace freshet::redis {

namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

RedisConnection::RedisConnection(EventLoop& loop, ConnectionOptions options, std::span<const Script> scripts,
                                 ConnectionCounters* counters)
    : AsyncConnection(loop, std::move(options)),
      scripts_(scripts),
      deadline_timer_(loop),
      counters_(counters != nullptr ? *counters : own_counters_) {}

RedisConnection::~RedisConnection() {
  listener_ = nullptr;
  close();
}

void RedisConnection::close() {
  shut_down();
  for (const auto& each : std::exchange(ready_waiters_, {})) each->fire(false);
}

void RedisConnection::set_ready(bool ready) {
  if (ready_ == ready) return;
  ready_ = ready;
  if (listener_) listener_(ready);
  if (!ready) return;
  for (const auto& each : std::exchange(ready_waiters_, {})) each->fire(true);
}

bool RedisConnection::PendingPipeline::await_ready() { return !connection.submit(*this); }

Result<Replies> RedisConnection::PendingPipeline::await_resume() {
  if (waiter) {
    const auto waited =
        std::chrono::duration_cast<std::chrono::microseconds>(connection.replies_read_at_ - sent_at);
    if (!error) connection.counters_.latency.add(waited);
    if (trace != nullptr) trace->end_redis_wait(waited);
  }
  if (error) {
    if (!handshake) {
      ++connection.counters_.errors;
      connection.counters_.errors_by_class.add(error_class);
    }
    return tl::unexpected(std::move(*error));
  }
  return std::move(replies);
}

// Returns true if replies or a failure will arrive through the event loop, false if
// `pending` already has its error.
bool RedisConnection::submit(PendingPipeline& pending) {
  const std::size_t commands = pending.pipeline.size();
  if (reject_if_unavailable(pending, commands)) return false;
  pending.replies.reserve(commands);
  for (std::size_t i = 0; i < commands; ++i) {
    const std::string_view bytes = pending.pipeline.at(i);
    const auto on_reply = [](redisAsyncContext*, void* reply, void* self) {
      auto* owner = static_cast<PendingPipeline*>(self);
      owner->connection.receive_reply(*owner, reply);
    };
    if (redisAsyncFormattedCommand(context(), on_reply, &pending, bytes.data(), bytes.size()) != REDIS_OK) {
      // The context is being freed. It will not run the callback of this command, but does run
      // those of the commands before it.
      pending.error = Error{ErrorCode::kUnavailable, "redis_unavailable", {}, "the connection is closing"};
      if (i == 0) return false;
      break;
    }
    ++pending.pending_replies;
  }
  counters_.commands += commands;
  ++counters_.round_trips;
  pending.sent_at = Clock::now();
  pending.deadline = pending.sent_at + options().timeout;
  pending_.push_back(&pending);
  arm_deadline();
  request_flush();
  return true;
}

bool RedisConnection::reject_if_unavailable(PendingPipeline& pending, std::size_t commands) {
  const char* reason = nullptr;
  if (!context() || !(ready_ || pending.handshake)) {
    reason = "not connected";
  } else if (!pending.handshake && !breaker().allows(pending_.size())) {
    reason = "Redis is being probed after a failure";
  }
  if (reason != nullptr) {
    pending.error = Error{ErrorCode::kUnavailable, "redis_unavailable", {}, reason};
  } else if (commands == 0) {
    pending.error = Error{ErrorCode::kInternal, "redis_empty", {}, "empty pipeline"};
    pending.error_class = ErrorClass::kCommand;
  }
  return pending.error.has_value();
}

void RedisConnection::receive_reply(PendingPipeline& pending, void* reply) {
  if (reply != nullptr) {
    auto* const raw = static_cast<redisReply*>(reply);
    assembly_.detach(raw);  // keeps hiredis from freeing it after this callback
    pending.replies.push_back(Reply::from_tree(raw));
  } else if (!pending.error) {
    pending.error =
        Error{ErrorCode::kUnknownOutcome, "redis_lost", {}, "the connection was lost before the reply"};
    pending.error_class = ErrorClass::kLost;
  }
  if (--pending.pending_replies > 0) return;
  if (!pending.error && !pending.handshake) record_success();
  // Replies come in order, so this is the front.
  if (!pending_.empty() && pending_.front() == &pending) {
    pending_.pop_front();
  } else {
    std::erase(pending_, &pending);
  }
  completed_.push_back(&pending);
}

void RedisConnection::on_io_done() {
  if (!completed_.empty()) replies_read_at_ = Clock::now();
  // Resuming may append commands, which is safe because hiredis has returned, and may thus reenter
  // this function.
  while (!completed_.empty()) {
    auto ready = std::move(completed_);
    completed_.clear();
    for (PendingPipeline* pending : ready) pending->waiter.resume();
  }
  finish_reconnect();
}

// --- retry

Task<Result<Replies>> RedisConnection::run(const Pipeline& pipeline) {
  const auto deadline = Clock::now() + options().retry_within;
  Result<Replies> replies = co_await PendingPipeline{*this, pipeline};
  if (!replies) co_return replies;
  const Retries retries = collect_retries(*replies);
  if (retries.commands.empty()) co_return replies;
  bool may_retry = true;
  if (retries.reconnect) may_retry = begin_reconnect();
  if (may_retry && retries.reconnect) may_retry = co_await wait_until_ready(deadline);
  if (!may_retry || Clock::now() > deadline) co_return replies;

  Pipeline retry;
  const std::size_t loads = retries.load_scripts ? scripts_.size() : 0;
  for (std::size_t i = 0; i < loads; ++i) retry.add("SCRIPT", "LOAD", scripts_[i].source);
  for (const std::size_t i : retries.commands) retry.raw(pipeline.at(i));
  Result<Replies> retry_replies = co_await PendingPipeline{*this, retry};
  if (!retry_replies) co_return tl::unexpected(retry_replies.error());
  collect_retries(*retry_replies);  // only for its counters
  for (std::size_t k = 0; k < retries.commands.size(); ++k)
    (*replies)[retries.commands[k]] = std::move((*retry_replies)[loads + k]);
  co_return replies;
}

RedisConnection::Retries RedisConnection::collect_retries(const Replies& replies) {
  Retries out;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (!replies[i].is_error()) continue;
    const ErrorRow* row = find_error(replies[i].error());
    if (row == nullptr) continue;
    counters_.errors_by_class.add(row->error_class);
    if (row->retry == RetryPolicy::kFailAll) return Retries{};
    if (row->retry != RetryPolicy::kRetry && row->retry != RetryPolicy::kReconnect) continue;
    out.commands.push_back(i);
    out.reconnect |= row->retry == RetryPolicy::kReconnect;
    out.load_scripts |= row->error_class == ErrorClass::kScript;
  }
  return out;
}

// Returns true if a new connection is being made. Limited to once per longest delay of the breaker:
// the right server that keeps refusing must not be disconnected from all its users over and over.
bool RedisConnection::begin_reconnect() {
  if (!ready_) return true;
  const auto now = Clock::now();
  if (reconnected_at_ != Clock::time_point{} && now - reconnected_at_ < options().breaker.max_delay)
    return false;
  reconnected_at_ = now;
  reconnecting_ = true;
  set_ready(false);
  finish_reconnect();
  return true;
}

void RedisConnection::finish_reconnect() {
  if (!reconnecting_ || !pending_.empty() || !completed_.empty()) return;
  reconnecting_ = false;
  if (context()) reconnect();
}

Task<bool> RedisConnection::wait_until_ready(Clock::time_point deadline) {
  if (ready_) co_return true;
  const auto event = std::make_shared<AsyncEvent<bool>>();
  ready_waiters_.push_back(event);
  Timer timer(loop());
  // Both this timer and the ready event may fire in the same iteration.
  timer.at(deadline, [event] {
    if (event->has_waiter()) event->fire(false);
  });
  const bool ready = co_await event->wait();
  if (!ready) std::erase(ready_waiters_, event);
  co_return ready;
}

void RedisConnection::on_open() {
  assembly_.attach(*context()->c.reader);
  spawn(perform_handshake(++generation_), [](std::exception_ptr) {});
}

Task<void> RedisConnection::perform_handshake(std::uint64_t generation) {
  Pipeline hello;
  const Endpoint& endpoint = options().endpoint;
  if (!endpoint.password.empty()) {
    if (endpoint.username.empty()) {
      hello.add("AUTH", endpoint.password);
    } else {
      hello.add("AUTH", endpoint.username, endpoint.password);
    }
  }
  if (endpoint.db != 0) hello.add("SELECT", endpoint.db);
  hello.add("PING");
  const std::size_t role = hello.size();
  if (options().resolver != nullptr) hello.add("ROLE");
  for (const Script& script : scripts_) hello.add("SCRIPT", "LOAD", script.source);
  const Result<Replies> replies =
      co_await PendingPipeline{.connection = *this, .pipeline = hello, .handshake = true};
  if (generation != generation_) co_return;
  if (!replies) co_return;  // the context is already gone
  handshake_error_.clear();
  for (const Reply& reply : *replies) {
    if (!reply.is_error()) continue;
    if (const ErrorRow* row = find_error(reply.error())) counters_.errors_by_class.add(row->error_class);
    handshake_error_ = reply.error();
    break;
  }
  if (handshake_error_.empty() && options().resolver != nullptr && (*replies)[role][0].text() != "master")
    handshake_error_ = "the server is not a master";
  if (!handshake_error_.empty()) {
    log::warning("redis_handshake_failed", {{"error", handshake_error_}});
    abort();  // allowed here: coroutines are resumed only after hiredis has returned
    co_return;
  }
  mark_established();
  ++counters_.connects;
  set_ready(true);
}

void RedisConnection::on_closed() {
  reconnecting_ = false;
  set_ready(false);
}

void RedisConnection::arm_deadline() {
  if (timer_armed_ || pending_.empty()) return;
  timer_armed_ = true;
  deadline_timer_.at(pending_.front()->deadline, [this] {
    timer_armed_ = false;
    check_deadline();
  });
}

void RedisConnection::check_deadline() {
  // The delay may be ours, with the replies waiting in the socket: read first. One read takes up to
  // 16 KiB, so repeat while replies come.
  while (!pending_.empty() && Clock::now() >= pending_.front()->deadline) {
    const std::size_t before = pending_.size();
    read_now();
    if (pending_.size() < before) continue;
    for (PendingPipeline* pending : pending_) {
      if (!pending->error) {
        pending->error =
            Error{ErrorCode::kUnknownOutcome, "redis_timeout", {}, "no reply within the deadline"};
        pending->error_class = ErrorClass::kTimeout;
      }
    }
    ++counters_.timeouts;
    abort(FailureKind::kTimeout);
    return;
  }
  arm_deadline();
}

}  // namespace freshet::redis
