#include "core/async/redis_connection.h"

#include <algorithm>

extern "C" {
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
}

#include "core/base/log.h"

namespace freshet::redis {

namespace {

using Clock = std::chrono::steady_clock;

// hiredis frees a reply when its callback returns. We keep it instead: the callback marks the reply as taken
// and this function, put in the reader's table, leaves that one alone.
thread_local void* taken_reply = nullptr;

void free_unless_taken(void* reply) {
  if (reply != nullptr && reply == taken_reply) {
    taken_reply = nullptr;
    return;
  }
  freeReplyObject(reply);
}

redisReplyObjectFunctions* keeping_functions(const redisReplyObjectFunctions& defaults) {
  static redisReplyObjectFunctions functions = [&] {
    redisReplyObjectFunctions copy = defaults;
    copy.freeObject = free_unless_taken;
    return copy;
  }();
  return &functions;
}

}  // namespace

RedisConnection::RedisConnection(EventLoop& loop, LinkOptions options, std::span<const Script> scripts)
    : RedisLink(loop, std::move(options)), scripts_(scripts), deadline_timer_(loop.io()) {}

RedisConnection::~RedisConnection() {
  listener_ = nullptr;
  shut_down();
}

void RedisConnection::set_ready(bool ready) {
  if (ready_ == ready) return;
  ready_ = ready;
  if (listener_) listener_(ready);
}

// --- sending

bool RedisConnection::Batch::await_ready() { return !connection.submit(*this); }

Result<Replies> RedisConnection::Batch::await_resume() {
  if (waiting) {
    const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(connection.settled_at_ - sent);
    if (!error) connection.counters_.latency.add(waited);
    if (stage != nullptr) stage->left_redis(waited);
  }
  if (error) {
    ++connection.counters_.errors;
    return tl::unexpected(std::move(*error));
  }
  return std::move(replies);
}

// True iff replies (or a failure) will come through the loop; false: the batch already has its error.
bool RedisConnection::submit(Batch& batch) {
  if (!context() || !(ready_ || batch.handshake)) {
    batch.error = Error{ErrorCode::kUnavailable, "redis_away", {}, "not connected"};
    return false;
  }
  const std::size_t commands = batch.pipeline.size();
  if (commands == 0) {
    batch.error = Error{ErrorCode::kInternal, "redis_empty", {}, "empty pipeline"};
    return false;
  }
  batch.replies.reserve(commands);
  for (std::size_t i = 0; i < commands; ++i) {
    const std::string_view bytes = batch.pipeline.at(i);
    const auto on_reply = [](redisAsyncContext*, void* reply, void* self) {
      auto* owner = static_cast<Batch*>(self);
      owner->connection.take(*owner, reply);
    };
    if (redisAsyncFormattedCommand(context(), on_reply, &batch, bytes.data(), bytes.size()) != REDIS_OK) {
      // The context is being freed: it runs no callback for this command, but does for those appended before
      // it.
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

void RedisConnection::take(Batch& batch, void* reply) {
  if (reply != nullptr) {
    taken_reply = reply;
    batch.replies.emplace_back(static_cast<redisReply*>(reply));
  } else if (!batch.error) {
    batch.error =
        Error{ErrorCode::kUnknownOutcome, "redis_lost", {}, "the connection was lost before the reply"};
  }
  if (--batch.awaited > 0) return;
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
}

Task<Result<Replies>> RedisConnection::run(const Pipeline& pipeline) {
  Result<Replies> replies = co_await Batch{*this, pipeline};
  if (!replies) co_return replies;
  std::vector<std::size_t> unknown;
  for (std::size_t i = 0; i < replies->size(); ++i) {
    if ((*replies)[i].error().starts_with("NOSCRIPT")) unknown.push_back(i);
  }
  if (unknown.empty()) co_return replies;

  // The server forgot its scripts (SCRIPT FLUSH, a restart behind a proxy): load them and send those commands
  // once more. They did nothing the first time, so this repeats no effect.
  Pipeline again;
  for (const Script& script : scripts_) again.add("SCRIPT", "LOAD", script.source);
  for (const std::size_t i : unknown) again.raw(pipeline.at(i));
  Result<Replies> second = co_await Batch{*this, again};
  if (!second) co_return tl::unexpected(second.error());
  for (std::size_t k = 0; k < unknown.size(); ++k)
    (*replies)[unknown[k]] = std::move((*second)[scripts_.size() + k]);
  co_return replies;
}

// --- connecting

void RedisConnection::on_open() {
  context()->c.reader->fn = keeping_functions(*context()->c.reader->fn);
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
  for (const Script& script : scripts_) hello.add("SCRIPT", "LOAD", script.source);
  const Result<Replies> replies = co_await Batch{.connection = *this, .pipeline = hello, .handshake = true};
  if (generation != generation_) co_return;
  if (!replies) co_return;  // the context is already gone
  for (const Reply& reply : *replies) {
    if (!reply.is_error()) continue;
    log::warning("redis_handshake_failed", {{"error", std::string(reply.error())}});
    tear_down();  // hiredis has returned (coroutines are resumed only then)
    co_return;
  }
  reset_backoff();
  ++counters_.connects;
  set_ready(true);
}

void RedisConnection::on_closed() { set_ready(false); }

// --- deadlines

void RedisConnection::arm_deadline() {
  if (timer_armed_ || pending_.empty()) return;
  timer_armed_ = true;
  deadline_timer_.expires_at(pending_.front()->deadline);
  deadline_timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;  // cancelled: `this` may be gone
    timer_armed_ = false;
    check_deadline();
  });
}

void RedisConnection::check_deadline() {
  // It may be us who were late, with the replies waiting in the socket: read before judging. One read takes
  // 16 KiB, so go on while it helps.
  while (!pending_.empty() && Clock::now() >= pending_.front()->deadline) {
    const std::size_t before = pending_.size();
    read_now();
    if (pending_.size() < before) continue;
    for (Batch* batch : pending_) {
      if (!batch->error) {
        batch->error = Error{ErrorCode::kUnknownOutcome, "redis_timeout", {}, "no reply within the deadline"};
      }
    }
    ++counters_.timeouts;
    tear_down();
    return;
  }
  arm_deadline();
}

}  // namespace freshet::redis
