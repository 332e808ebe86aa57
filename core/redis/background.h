// Background writer: sends commands that can wait over a connection of its own, and keeps events in
// a spool file while Redis is unavailable.
//
// post() appends a pipeline to a bounded queue. A pump drains the queue, up to 500 commands per
// batch. When Redis is unavailable or the queue is full, the pipeline's events are written to
// the spool instead, and those of the whole queue when the connection is lost. In a cluster with
// one node down, only events whose pipeline had a command for that node are spooled. When Redis
// answers again, spooled events are replayed through BackgroundOptions::apply, including those in
// spools left by dead workers.
//
// Everything posted must be idempotent: an event whose reply is lost is applied again. Only events
// that cannot be applied yet (NOPERM, "stream_full") stay in the spool and are retried after
// scan_interval, together with the events behind them; their neighbors are erased once applied.
// kMaxReplayBatch such events at the head of a spool block those behind them. The batch size is
// halved when replies are lost and doubled when all arrive.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/async/timer.h"
#include "core/redis/redis_client.h"
#include "core/redis/spool.h"
#include "core/redis/write_queue.h"

namespace freshet::redis {

struct BackgroundOptions {
  std::filesystem::path spool_directory;
  std::size_t spool_bytes = 64 << 20;  // size limit of this process's spool file
  std::size_t queue_commands = 10000;
  milliseconds scan_interval{2000};  // how often to look for spools of dead processes
  // Returns true to pause replay although Redis answers, because it is short of memory. Empty:
  // never.
  std::function<bool()> pause_replay = {};
  // Applies the event with these fields (spool_record.h). If is_unavailable() holds for the error,
  // the event is retried later; after any other error it is dropped and logged. The fields stay
  // valid until the task completes.
  std::function<Task<Result<void>>(const std::vector<std::string_view>& fields)> apply = {};
  // Older events are dropped. 0: no limit.
  milliseconds max_age{0};
  // Returns true if the event, spooled `age` ago, must be dropped because its reader was erased
  // since. Errors are handled as those of apply.
  std::function<Task<Result<bool>>(const std::vector<std::string_view>& fields, milliseconds age)> is_erased =
      {};
};

struct BackgroundCounters {
  std::uint64_t accepted = 0;  // commands accepted by Redis
  // Events refused for good, corrupt, or lost because queue and spool were full; commands refused
  // for good.
  std::uint64_t dropped = 0;
  std::uint64_t spooled = 0;
  std::uint64_t replayed = 0;  // spooled events that were applied
};

class BackgroundWriter final : public WriteQueue {
 public:
  // `redis` must not be connected yet and must not be used by anything else.
  BackgroundWriter(EventLoop& loop, std::unique_ptr<RedisClient> redis, BackgroundOptions options);
  ~BackgroundWriter() override { close(); }
  // Closes the connection: the events of commands in flight go to the spool.
  void close() { redis_->close(); }

  void start();
  bool post(Pipeline commands, std::vector<SpoolRecord> events = {}, OnReplies on_replies = {}) override;
  Result<void> spool(const SpoolRecord& event) override;

  // Sends what is queued and completes the replay in flight, but starts no other. Spools whatever
  // cannot be sent before `deadline`, or at once if Redis is unavailable, then calls `done`. Called
  // when a worker shuts down; may be called again after `done`.
  void drain(std::chrono::steady_clock::time_point deadline, std::function<void()> done);

  const BackgroundCounters& counters() const { return counters_; }
  std::size_t queued() const { return queued_commands_; }
  std::uint64_t spool_bytes() const { return spool_ ? spool_->bytes() : 0; }
  // Age of the oldest command or event that Redis has not accepted yet; 0 if there is none. Exact
  // for the queue. For a spool (this process's or an adopted one) the time since it was last empty.
  milliseconds oldest_age() const;

 private:
  static constexpr std::size_t kBatchCommands = 500;
  static constexpr std::size_t kMaxReplayBatch = 100;  // blocks Redis for about 2 ms
  using Outcomes = std::vector<Result<void>>;

  void wake();
  Task<void> pump();
  struct QueuedWrite;
  Task<bool> send_queue();
  void spool_queue();
  void complete(const QueuedWrite& sent, std::span<const Reply> replies);
  Task<bool> replay(Spool& spool);
  struct SpooledEvent;
  Task<Outcomes> apply_all(const std::vector<SpooledEvent>& events);
  Task<void> apply_one(const std::vector<std::string_view>& fields, milliseconds age, Result<void>& outcome);
  bool spool_or_drop(std::span<const SpoolRecord> events);
  bool may_replay() const {
    if (draining_) return false;
    if (options_.pause_replay && options_.pause_replay()) return false;
    return Clock::now() - replay_refused_at_ >= options_.scan_interval;
  }
  bool try_spool(const SpoolRecord& event);
  Result<void> append_to_spool(const SpoolRecord& event);
  bool has_spool_recovered() const;
  void report_spool_recovery();
  struct ReplayBatch;
  ReplayBatch next_replay_batch(Spool& spool);
  bool complete(Spool& spool, const ReplayBatch& batch, const Outcomes& outcomes);
  void adopt_orphan();
  void retire_orphan();
  void schedule_scan();
  bool can_finish_drain() const { return !pumping_ && (queue_.empty() || !redis_->ready()); }
  void finish_drain();

  const std::unique_ptr<RedisClient> redis_;
  BackgroundOptions options_;
  Timer scan_timer_;
  Timer drain_timer_;
  using Clock = std::chrono::steady_clock;
  struct QueuedWrite {
    Pipeline commands;
    std::vector<SpoolRecord> events;
    OnReplies on_replies;
    Clock::time_point enqueued_at;
  };
  std::deque<QueuedWrite> queue_;
  std::optional<Clock::time_point> sending_since_;  // enqueue time of the oldest write in flight
  std::size_t queued_commands_ = 0;
  std::unique_ptr<Spool> spool_;                     // this process's spool, created on first use
  std::unique_ptr<Spool> orphan_;                    // spool of a dead process that is being replayed
  bool orphan_is_next_ = false;                      // an event of spool_ was refused
  std::size_t replay_batch_size_ = kMaxReplayBatch;  // 1..kMaxReplayBatch
  std::function<void()> on_drained_;
  BackgroundCounters counters_;
  // Last time Redis refused a write or a replay for now; replay pauses for scan_interval.
  Clock::time_point replay_refused_at_{};
  bool is_postponement_logged_ = false;  // since the last batch without a refused event
  // Events that could not be spooled since the failure was last logged; 0 while the spool works.
  std::size_t unspooled_events_ = 0;
  Clock::time_point last_spool_failure_{};
  bool pumping_ = false, draining_ = false;
};

}  // namespace freshet::redis
