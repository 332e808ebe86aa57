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

RedisConnection::RedisConnection(EventLoop& loop, LinkOptions options, std::span<const Script> scripts,
                                 ConnectionCounters* counters)
    : RedisLink(loop, std::move(options)),
      scripts_(scripts),
      deadline_timer_(loop),
      counters_(counters != nullptr ? *counters : own_counters_) {}

RedisConnection::~RedisConnection() {
  listener_ = nullptr;
  close();
}

void RedisConnection::close() {
  shut_down();
  for (const auto& each : std::exchange(for_ready_, {})) each->fire(false);
}

void RedisConnection::set_ready(bool ready) {
  if (ready_ == ready) return;
  ready_ = ready;
  if (listener_) listener_(ready);
  if (!ready) return;
  for (const auto& each : std::exchange(for_ready_, {})) each->fire(true);
}

// --- sending

bool RedisConnection::Batch::await_ready() { return !connection.submit(*this); }

Result<Replies> RedisConnection::Batch::await_resume() {
  if (waiting) {
    const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(connection.settled_at_ - sent);
    if (!error) connection.counters_.latency.add(waited);
    if (stage != nullptr) stage->end_redis_wait(waited);
  }
  if (error) {
    if (!handshake) {
      ++connection.counters_.errors;
      connection.counters_.by_class.add(failed_as);
    }
    return tl::unexpected(std::move(*error));
  }
  return std::move(replies);
}

// True iff replies (or a failure) will come through the loop; false: the batch already has its
// error.
bool RedisConnection::submit(Batch& batch) {
  const std::size_t commands = batch.pipeline.size();
  if (refuse(batch, commands)) return false;
  batch.replies.reserve(commands);
  for (std::size_t i = 0; i < commands; ++i) {
    const std::string_view bytes = batch.pipeline.at(i);
    const auto on_reply = [](redisAsyncContext*, void* reply, void* self) {
      auto* owner = static_cast<Batch*>(self);
      owner->connection.take(*owner, reply);
    };
    if (redisAsyncFormattedCommand(context(), on_reply, &batch, bytes.data(), bytes.size()) != REDIS_OK) {
      // The context is being freed: it runs no callback for this command, but does for those
      // appended before it.
      batch.error = Error{ErrorCode::kUnavailable, "redis_away", {}, "connection is closing"};
      if (i == 0) return false;
      break;
    }
    ++batch.awaited;
  }
  counters_.commands += commands;
  ++counters_.round_trips;
  batch.sent = Clock::now();
  batch.deadline = batch.sent + options().timeout;
  pending_.push_back(&batch);
  arm_deadline();
  mark_dirty();
  return true;
}

bool RedisConnection::refuse(Batch& batch, std::size_t commands) {
  const char* why = nullptr;
  if (!context() || !(ready_ || batch.handshake)) {
    why = "not connected";
  } else if (!batch.handshake && !breaker().lets_through(pending_.size())) {
    why = "Redis is being tried";
  }
  if (why != nullptr) {
    batch.error = Error{ErrorCode::kUnavailable, "redis_away", {}, why};
  } else if (commands == 0) {
    batch.error = Error{ErrorCode::kInternal, "redis_empty", {}, "empty pipeline"};
    batch.failed_as = ErrorClass::kCommand;
  }
  return batch.error.has_value();
}

void RedisConnection::take(Batch& batch, void* reply) {
  if (reply != nullptr) {
    auto* const raw = static_cast<redisReply*>(reply);
    assembly_.take(raw);  // hiredis would free it when this callback returns
    batch.replies.push_back(Reply::of_tree(raw));
  } else if (!batch.error) {
    batch.error =
        Error{ErrorCode::kUnknownOutcome, "redis_lost", {}, "the connection was lost before the reply"};
    batch.failed_as = ErrorClass::kLost;
  }
  if (--batch.awaited > 0) return;
  if (!batch.error && !batch.handshake) answered();
  // Replies come in order, so this is the front one.
  if (!pending_.empty() && pending_.front() == &batch) {
    pending_.pop_front();
  } else {
    std::erase(pending_, &batch);
  }
  completed_.push_back(&batch);
}

void RedisConnection::on_settled() {
  if (!completed_.empty()) settled_at_ = Clock::now();
  // Resuming may append commands (fine: hiredis has returned), and, through them, end here again.
  while (!completed_.empty()) {
    auto ready = std::move(completed_);
    completed_.clear();
    for (Batch* batch : ready) batch->waiting.resume();
  }
  finish_renewal();
}

// --- the second try

Task<Result<Replies>> RedisConnection::run(const Pipeline& pipeline) {
  const auto limit = Clock::now() + options().retry_within;
  Result<Replies> replies = co_await Batch{*this, pipeline};
  if (!replies) co_return replies;
  const Refused refused = look_at(*replies);
  if (refused.commands.empty()) co_return replies;
  bool again = true;
  if (refused.reconnect) again = begin_renewal();
  if (again && refused.reconnect) again = co_await ready_before(limit);
  if (!again || Clock::now() > limit) co_return replies;

  Pipeline second;
  const std::size_t loads = refused.load_scripts ? scripts_.size() : 0;
  for (std::size_t i = 0; i < loads; ++i) second.add("SCRIPT", "LOAD", scripts_[i].source);
  for (const std::size_t i : refused.commands) second.raw(pipeline.at(i));
  Result<Replies> answers = co_await Batch{*this, second};
  if (!answers) co_return tl::unexpected(answers.error());
  look_at(*answers);  // counts
  for (std::size_t k = 0; k < refused.commands.size(); ++k)
    (*replies)[refused.commands[k]] = std::move((*answers)[loads + k]);
  co_return replies;
}

RedisConnection::Refused RedisConnection::look_at(const Replies& replies) {
  Refused out;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (!replies[i].is_error()) continue;
    const ErrorRow* row = find_error(replies[i].error());
    if (row == nullptr) continue;
    counters_.by_class.add(row->error_class);
    if (row->retry == RetryPolicy::kFailAll) return Refused{};
    if (row->retry != RetryPolicy::kRetry && row->retry != RetryPolicy::kReconnect) continue;
    out.commands.push_back(i);
    out.reconnect |= row->retry == RetryPolicy::kReconnect;
    out.load_scripts |= row->error_class == ErrorClass::kScript;
  }
  return out;
}

// True when another connection is being made. Not more often than the longest wait of the breaker:
// a server that is the right one and refuses all the same shall not lose its readers by it.
bool RedisConnection::begin_renewal() {
  if (!ready_) return true;
  const auto now = Clock::now();
  if (renewed_ != Clock::time_point{} && now - renewed_ < options().breaker.most) return false;
  renewed_ = now;
  renewing_ = true;
  set_ready(false);
  finish_renewal();
  return true;
}

void RedisConnection::finish_renewal() {
  if (!renewing_ || !pending_.empty() || !completed_.empty()) return;
  renewing_ = false;
  if (context()) replace();
}

Task<bool> RedisConnection::ready_before(Clock::time_point limit) {
  if (ready_) co_return true;
  const auto event = std::make_shared<AsyncEvent<bool>>();
  for_ready_.push_back(event);
  Timer timer(loop());
  // Both may have been on their way when the other came first.
  timer.at(limit, [event] {
    if (event->has_waiter()) event->fire(false);
  });
  const bool ready = co_await event->wait();
  if (!ready) std::erase(for_ready_, event);
  co_return ready;
}

// --- connecting

void RedisConnection::on_open() {
  assembly_.assemble_for(*context()->c.reader);
  spawn(shake_hands(++generation_), [](std::exception_ptr) {});
}

Task<void> RedisConnection::shake_hands(std::uint64_t generation) {
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
  if (options().finder != nullptr) hello.add("ROLE");
  for (const Script& script : scripts_) hello.add("SCRIPT", "LOAD", script.source);
  const Result<Replies> replies = co_await Batch{.connection = *this, .pipeline = hello, .handshake = true};
  if (generation != generation_) co_return;
  if (!replies) co_return;  // the context is already gone
  refused_.clear();
  for (const Reply& reply : *replies) {
    if (!reply.is_error()) continue;
    if (const ErrorRow* row = find_error(reply.error())) counters_.by_class.add(row->error_class);
    refused_ = reply.error();
    break;
  }
  if (refused_.empty() && options().finder != nullptr && (*replies)[role][0].text() != "master")
    refused_ = "it is no master";
  if (!refused_.empty()) {
    log::warning("redis_handshake_failed", {{"error", refused_}});
    tear_down();  // hiredis has returned (coroutines are resumed only then)
    co_return;
  }
  established();
  ++counters_.connects;
  set_ready(true);
}

void RedisConnection::on_closed() {
  renewing_ = false;
  set_ready(false);
}

// --- deadlines

void RedisConnection::arm_deadline() {
  if (timer_armed_ || pending_.empty()) return;
  timer_armed_ = true;
  deadline_timer_.at(pending_.front()->deadline, [this] {
    timer_armed_ = false;
    check_deadline();
  });
}

void RedisConnection::check_deadline() {
  // It may be us who were late, with the replies waiting in the socket: read before judging. One
  // read takes 16 KiB, so go on while it helps.
  while (!pending_.empty() && Clock::now() >= pending_.front()->deadline) {
    const std::size_t before = pending_.size();
    read_now();
    if (pending_.size() < before) continue;
    for (Batch* batch : pending_) {
      if (!batch->error) {
        batch->error = Error{ErrorCode::kUnknownOutcome, "redis_timeout", {}, "no reply within the deadline"};
        batch->failed_as = ErrorClass::kTimeout;
      }
    }
    ++counters_.timeouts;
    tear_down(Failure::kSilent);
    return;
  }
  arm_deadline();
}

}  // namespace freshet::redis
