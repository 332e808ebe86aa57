// A worker's asynchronous Redis connection: `co_await redis.run(pipeline)`.
//
// Commands appended in one iteration of the event loop leave in one write and are answered in few
// reads, so many requests share the system calls of a round trip. Every pipeline has a deadline;
// since the timeout is the same for all, one timer over a FIFO suffices. An error or a missed
// deadline destroys the hiredis context and fails everything pending. Nothing is ever read from it
// again, so a reply cannot reach the wrong request. A new connection is used once it has answered
// PING and loaded the scripts (and, if found through sentinels, reported the role master).
//
// Error replies are looked up in the table of errors.h. A pipeline is sent at most twice; the
// second time only with the commands that were refused without effect. What was sent without
// getting a reply is never repeated here, because it may have taken effect.
//
// Coroutines are resumed after hiredis has returned, never inside its callbacks.
#pragma once

#include <coroutine>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/async/timer.h"
#include "core/redis/async_connection.h"
#include "core/redis/redis_client.h"
#include "core/redis/reply.h"

namespace freshet::redis {

class RedisConnection final : public AsyncConnection, public RedisClient {
 public:
  // `scripts` are loaded at every handshake and must outlive this, as must `counters`, which
  // several connections may share. null: own counters.
  RedisConnection(EventLoop& loop, ConnectionOptions options, std::span<const Script> scripts,
                  ConnectionCounters* counters = nullptr);
  ~RedisConnection() override;
  void connect() override { AsyncConnection::connect(); }
  void close() override;

  Task<Result<Replies>> run(const Pipeline& pipeline) override;
  bool ready() const override { return ready_; }
  // Calls `listener` with true after each handshake.
  void on_ready_changed(std::function<void(bool)> listener) override { listener_ = std::move(listener); }
  const ConnectionCounters& counters() const override { return counters_; }
  BreakerState breaker_state() const override { return breaker().state(); }
  MasterResolver* resolver() override { return options().resolver; }
  std::size_t in_flight() const { return pending_.size(); }
  // The error reply to the last handshake; "" if it succeeded.
  const std::string& handshake_error() const { return handshake_error_; }
  // Waits until the connection is ready. Returns false at the deadline.
  Task<bool> wait_until_ready(std::chrono::steady_clock::time_point deadline);

 private:
  // A pipeline in flight. Lives in the awaiting coroutine's frame, which is never destroyed before
  // the replies have come.
  struct PendingPipeline {
    RedisConnection& connection;
    const Pipeline& pipeline;
    bool handshake = false;
    Replies replies{};
    std::optional<Error> error{};
    ErrorClass error_class = ErrorClass::kUnavailable;  // valid if `error` is set
    std::size_t pending_replies = 0;
    std::chrono::steady_clock::time_point sent_at{};
    std::chrono::steady_clock::time_point deadline{};
    std::coroutine_handle<> waiter{};
    RequestTrace* trace = nullptr;  // of the waiting request

    bool await_ready();
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> caller) noexcept {
      waiter = caller;
      trace = trace_of(caller);
      if (trace != nullptr) trace->begin_redis_wait(pipeline);
    }
    Result<Replies> await_resume();
  };

  void on_open() override;
  void on_closed() override;
  void on_io_done() override;
  void on_connect_failed() override { counters_.errors_by_class.add(ErrorClass::kConnect); }
  bool submit(PendingPipeline& pending);
  bool reject_if_unavailable(PendingPipeline& pending, std::size_t commands);
  void receive_reply(PendingPipeline& pending, void* reply);
  // The commands of a run() that had no effect and may be sent again, and what must be done first.
  struct Retries {
    std::vector<std::size_t> commands;
    bool reconnect = false;
    bool load_scripts = false;
  };
  Retries collect_retries(const Replies& replies);
  bool begin_reconnect();
  void finish_reconnect();
  Task<void> perform_handshake(std::uint64_t generation);
  void arm_deadline();
  void check_deadline();
  void set_ready(bool ready);

  std::span<const Script> scripts_;
  ReplyAssembly assembly_;  // belongs to the context's reader
  Timer deadline_timer_;
  std::deque<PendingPipeline*> pending_;     // sent and not answered, in the order of their deadlines
  std::vector<PendingPipeline*> completed_;  // to be resumed once hiredis has returned
  std::chrono::steady_clock::time_point replies_read_at_{};  // when hiredis last returned with replies
  std::function<void(bool)> listener_;
  std::string handshake_error_;
  ConnectionCounters own_counters_;
  ConnectionCounters& counters_;
  std::uint64_t generation_ = 0;  // of the context; the handshake of an older one is ignored
  std::chrono::steady_clock::time_point reconnected_at_{};  // last reconnect caused by an error reply
  // Coroutines that wait for the next handshake.
  std::vector<std::shared_ptr<AsyncEvent<bool>>> ready_waiters_;
  bool ready_ = false;
  bool reconnecting_ = false;  // nothing is sent until pending replies have come and a new connection is made
  bool timer_armed_ = false;
};

}  // namespace freshet::redis
