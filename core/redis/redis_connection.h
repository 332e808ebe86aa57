// A worker's asynchronous connection to Redis: `co_await redis.run(pipeline)`.
//
// All commands appended in one turn of the loop leave in one write and come back in few reads, so
// the round trips of many requests share their system calls. Every pipeline has a deadline (one
// timer over a FIFO: the timeout is the same for all, so the oldest expires first). Any error or
// deadline destroys the context and fails all that was pending; nothing is ever read from it again,
// so no reply can reach the wrong request. A new connection is used only after PING answered and
// the scripts are loaded (and, found by sentinels, after it called itself master).
//
// What Redis refuses is looked up in the table of errors.h. A pipeline has at most two tries, and
// the second holds only the commands that were refused and did nothing; what was sent and got no
// reply is never repeated here, since nobody here knows whether it may be.
//
// A coroutine is resumed only after hiredis has returned, never inside its callbacks.
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
#include "core/redis/redis_client.h"
#include "core/redis/async_connection.h"
#include "core/redis/reply.h"

namespace freshet::redis {

class RedisConnection final : public AsyncConnection, public RedisClient {
 public:
  // `scripts` are loaded at every hand-shake and must outlive this, as must `counters`, in which
  // several may count together; null: its own.
  RedisConnection(EventLoop& loop, ConnectionOptions options, std::span<const Script> scripts,
                  ConnectionCounters* counters = nullptr);
  ~RedisConnection() override;
  void connect() override { AsyncConnection::connect(); }
  void close() override;

  Task<Result<Replies>> run(const Pipeline& pipeline) override;
  bool ready() const override { return ready_; }
  // True after each hand-shake.
  void on_ready_changed(std::function<void(bool)> listener) override { listener_ = std::move(listener); }
  const ConnectionCounters& counters() const override { return counters_; }
  BreakerState breaker_state() const override { return breaker().state(); }
  MasterResolver* resolver() override { return options().resolver; }
  std::size_t in_flight() const { return pending_.size(); }
  // What the server said to the last hand-shake when it let us not in; "" else.
  const std::string& handshake_error() const { return handshake_error_; }
  // False when it is not ready by then.
  Task<bool> wait_until_ready(std::chrono::steady_clock::time_point deadline);

 private:
  // One pipeline on its way. Lives in the awaiting coroutine's frame, which is never destroyed
  // before its replies came.
  struct PendingPipeline {
    RedisConnection& connection;
    const Pipeline& pipeline;
    bool handshake = false;
    Replies replies{};
    std::optional<Error> error{};
    ErrorClass error_class = ErrorClass::kUnavailable;  // when there is an error
    std::size_t pending_replies = 0;
    std::chrono::steady_clock::time_point sent_at{};
    std::chrono::steady_clock::time_point deadline{};
    std::coroutine_handle<> waiter{};
    RequestTrace* trace = nullptr;  // of the request that waits

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
  bool submit(PendingPipeline& batch);
  bool reject_if_unavailable(PendingPipeline& batch, std::size_t commands);
  void receive_reply(PendingPipeline& batch, void* reply);
  // Of a reply to run(): the commands that did nothing and may be sent once more, and what must
  // come before.
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
  ReplyAssembly assembly_;  // of the context's reader
  Timer deadline_timer_;
  std::deque<PendingPipeline*> pending_;     // sent, replies to come: in the order of their deadlines
  std::vector<PendingPipeline*> completed_;  // to be resumed when hiredis has returned
  std::chrono::steady_clock::time_point replies_read_at_{};  // when hiredis last returned with replies
  std::function<void(bool)> listener_;
  std::string handshake_error_;
  ConnectionCounters own_counters_;
  ConnectionCounters& counters_;
  std::uint64_t generation_ = 0;  // of the context: a hand-shake of an older one means nothing
  std::chrono::steady_clock::time_point reconnected_at_{};      // because of what Redis answered
  std::vector<std::shared_ptr<AsyncEvent<bool>>> ready_waiters_;  // those who wait for the next hand-shake
  bool ready_ = false;
  bool reconnecting_ = false;  // no more is sent; another connection when what is pending has its replies
  bool timer_armed_ = false;
};

}  // namespace freshet::redis
