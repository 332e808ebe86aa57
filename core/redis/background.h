// The background writer: commands a reply need not wait for, over a connection of their own, and
// the spool of events that wait for Redis.
//
// post() puts a pipeline into a bounded queue; a pump sends what is there, up to 500 commands at a
// time. When Redis is away, or the queue is full, the pipeline's event goes to the spool file; of a
// cluster of which one node is away, the event of each pipeline that had a command for it. When
// Redis answers again the events of the spool are applied, also of the one that a dead worker left
// behind, as if they came from readers now: `apply` of BackgroundOptions does it.
//
// Everything given to it must be harmless when repeated: of a portion of events in which one must
// wait, all are applied again. A portion is halved each time this happens and doubled when it does
// not, so an event that Redis refuses for as long as its cause lasts (NOPERM) is alone in the end,
// and those behind it wait and are not repeated until nobody remembers their event ids.
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
#include "core/redis/write_queue.h"
#include "core/redis/redis_client.h"
#include "core/redis/spool.h"

namespace freshet::redis {

struct BackgroundOptions {
  std::filesystem::path spool_directory;
  std::size_t spool_bytes = 64 << 20;  // of this process' file
  std::size_t queue_commands = 10000;
  milliseconds scan_interval{2000};  // how often spools of dead processes are looked for
  // Whether spools are to wait although Redis answers: it has no room for them. Empty: never.
  std::function<bool()> pause_replay = {};
  // Applies the event of these fields (stored_event.h). is_away() of its error: again, later; any
  // other error: dropped and logged. The fields live until it is done.
  std::function<Task<Result<void>>(const std::vector<std::string_view>& fields)> apply = {};
  // An event that is older is dropped. 0: none is.
  milliseconds max_age{0};
  // Whether the event of these fields, of so long ago, is to be dropped. Errors: as apply's.
  std::function<Task<Result<bool>>(const std::vector<std::string_view>& fields, milliseconds age)> is_erased =
      {};
};

struct BackgroundCounters {
  std::uint64_t accepted = 0;  // commands Redis took
  // Events refused for good, torn, or lost since queue and spool were full; commands refused for
  // good.
  std::uint64_t dropped = 0;
  std::uint64_t spooled = 0;   // events written to the spool
  std::uint64_t replayed = 0;  // events of a spool that were applied
};

class BackgroundWriter final : public WriteQueue {
 public:
  // `redis` is not connected yet; nobody else uses it.
  BackgroundWriter(EventLoop& loop, std::unique_ptr<RedisClient> redis, BackgroundOptions options);
  ~BackgroundWriter() override { redis_->close(); }  // what was under way goes to the spool

  void start();
  bool post(Pipeline commands, SpoolRecord event = {}) override;
  Result<void> spool(const SpoolRecord& event) override;

  // Sends what is queued; what cannot be sent before `deadline`, or at all since Redis is away,
  // goes to the spool. Then calls `done`. For a worker that stops.
  void drain(std::chrono::steady_clock::time_point deadline, std::function<void()> done);

  const BackgroundCounters& counters() const { return counters_; }
  std::size_t queued() const { return queued_commands_; }
  std::uint64_t spool_bytes() const { return spool_ ? spool_->bytes() : 0; }
  // How long the oldest command or event waits that Redis has not taken yet: exact for the queue;
  // of the spool (and a dead process' that is being replayed) the time since it was last empty. 0
  // when nothing waits.
  milliseconds oldest_age() const;

 private:
  static constexpr std::size_t kBatchCommands = 500;
  static constexpr std::size_t kMaxReplayBatch = 100;  // events at once: 2 ms of Redis
  using Outcomes = std::vector<Result<void>>;

  void wake();
  Task<void> pump();
  struct QueuedWrite;
  Task<bool> send_queue();
  void complete(const QueuedWrite& sent, std::span<const Reply> replies);
  Task<bool> replay(Spool& spool);
  struct SpooledEvent;
  Task<Outcomes> apply_all(const std::vector<SpooledEvent>& events);
  Task<void> apply_one(const std::vector<std::string_view>& fields, milliseconds age, Result<void>& outcome);
  void spool_or_drop(const SpoolRecord& event);
  bool may_replay() const {
    if (options_.pause_replay && options_.pause_replay()) return false;
    return Clock::now() - replay_refused_at_ >= options_.scan_interval;
  }
  bool try_spool(const SpoolRecord& event);
  Result<void> append_to_spool(const SpoolRecord& event);
  bool has_spool_recovered() const;
  void report_spool_recovery();
  struct ReplayBatch;
  ReplayBatch next_replay_batch(Spool& spool) const;
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
    SpoolRecord event;
    Clock::time_point enqueued_at;
  };
  std::deque<QueuedWrite> queue_;
  std::optional<Clock::time_point> sending_since_;  // the oldest of the batch that is under way
  std::size_t queued_commands_ = 0;
  std::unique_ptr<Spool> spool_;                // this process' own, made when first needed
  std::unique_ptr<Spool> orphan_;               // a dead process', being replayed
  std::size_t replay_batch_size_ = kMaxReplayBatch;  // of a spool, applied at once; from 1
  std::function<void()> on_drained_;
  BackgroundCounters counters_;
  Clock::time_point replay_refused_at_{};  // when Redis last took back a replay: it is left alone for a scan_interval
  // Events that found no room in the spool since the log last said that it refuses; 0: it takes
  // them.
  std::size_t unspooled_events_ = 0;
  Clock::time_point last_spool_failure_{};
  bool pumping_ = false;
};

}  // namespace freshet::redis
