// The background writer: commands a reply need not wait for, over a connection of their own.
//
// post() puts a pipeline into a bounded queue; a pump sends what is there, up to 500 commands at a time. When
// Redis is away, or the queue is full, commands go to the spool file; when Redis answers again the spool is
// replayed, also the one a dead worker left behind. Every command given to it must be harmless when repeated:
// a batch without a reply is sent again.
//
// A spool carries the scripts its commands name, since who replays it may be a later version with others, and
// Redis may have forgotten them: they are loaded with every batch that needs them, and written to the end
// anew before they are popped while commands still wait. A command whose script is nowhere is dropped.
//
// Of a spool fewer are sent at once after each portion that was not taken, more after each that was. So a
// command that Redis refuses for as long as its cause lasts (NOPERM) is alone in the end: the commands behind
// it wait, and are not repeated until nobody remembers their event ids. Nor does a Redis too slow for a whole
// batch end the replay.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "core/async/timer.h"
#include "core/redis/deferred.h"
#include "core/redis/redis_connection.h"
#include "core/redis/spool.h"

namespace freshet::redis {

struct BackgroundOptions {
  std::filesystem::path spool_directory;
  std::size_t spool_bytes = 64 << 20;  // of this process' file
  std::size_t queue_commands = 10000;
  milliseconds scan_interval{2000};  // how often spools of dead processes are looked for
  // Whether spools are to wait although Redis answers: it has no room for them. Empty: never.
  std::function<bool()> spools_wait = {};
};

struct BackgroundCounters {
  std::uint64_t done = 0;      // commands Redis took
  std::uint64_t dropped = 0;   // commands refused by Redis for good, whose script is nowhere, that were torn,
                               // or lost because queue and spool were full
  std::uint64_t spooled = 0;   // commands written to the spool
  std::uint64_t replayed = 0;  // commands taken from a spool
};

class BackgroundWriter final : public Deferred {
 public:
  BackgroundWriter(EventLoop& loop, LinkOptions link, std::span<const Script> scripts,
                   BackgroundOptions options);
  ~BackgroundWriter() override { connection_.close(); }  // what was under way goes to the spool

  void start();
  bool post(Pipeline pipeline) override;
  Result<void> spool(Pipeline pipeline) override;

  // Sends what is queued; what cannot be sent before `deadline` goes to the spool. Then calls `done`. For a
  // worker that stops.
  void drain(std::chrono::steady_clock::time_point deadline, std::function<void()> done);

  const BackgroundCounters& counters() const { return counters_; }
  std::size_t queued() const { return queued_commands_; }
  std::uint64_t spool_bytes() const { return spool_ ? spool_->bytes() : 0; }
  // How long the oldest command waits that Redis has not taken yet: exact for the queue; of the spool (and a
  // dead process' that is being replayed) the time since it was last empty. 0 when nothing waits.
  milliseconds oldest_age() const;

 private:
  static constexpr std::size_t kBatchCommands = 500;

  void wake();
  Task<void> pump();
  Task<bool> send_queue();
  Task<bool> replay(Spool& spool);
  void keep_or_drop(std::string_view command, std::string_view error);
  bool may_replay() const {
    if (options_.spools_wait && options_.spools_wait()) return false;
    return Clock::now() - refused_ >= options_.scan_interval;
  }
  bool to_spool(const Pipeline& pipeline);
  Result<void> write_spool(const Pipeline& pipeline);
  bool may_end_refusals() const;
  void end_refusals();
  bool put_script(std::string_view command);
  void collect_scripts(Spool& spool);
  struct Portion;
  Portion next_portion(Spool& spool) const;
  bool settle(Spool& spool, const Portion& portion, const Replies& replies);
  void adopt();
  void retire_orphan();
  void schedule_scan();
  void finish_drain();

  RedisConnection connection_;
  std::span<const Script> scripts_;
  BackgroundOptions options_;
  Timer scan_timer_;
  Timer drain_timer_;
  using Clock = std::chrono::steady_clock;
  struct Queued {
    Pipeline commands;
    Clock::time_point since;
  };
  std::deque<Queued> queue_;
  std::optional<Clock::time_point> sending_since_;  // the oldest of the batch that is under way
  std::size_t queued_commands_ = 0;
  std::unique_ptr<Spool> spool_;                         // this process' own, made when first needed
  std::unique_ptr<Spool> orphan_;                        // a dead process', being replayed
  std::set<std::string, std::less<>> scripts_in_spool_;  // by SHA-1: those of ours that spool_ carries
  std::set<std::string, std::less<>>
      carried_;  // sources of those that were found in a file, until it is empty
  std::size_t portion_commands_ = kBatchCommands;  // of a spool, sent at once; 1 to kBatchCommands
  std::function<void()> drained_;
  BackgroundCounters counters_;
  Clock::time_point refused_{};  // when Redis last took back a replay: it is left alone for a scan_interval
  // Commands that found no room in the spool since the log last said that it refuses; 0: it takes them.
  std::size_t refused_commands_ = 0;
  Clock::time_point last_refusal_{};
  bool pumping_ = false;
};

}  // namespace freshet::redis
