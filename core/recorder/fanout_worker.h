// Pushing what authors publish to their followers: the jobs of op fanout
// (core/readers/reader_entries.h).
//
// Jobs go strictly first in, first out (of several streams by the clocks of their nodes; an
// author's are in one), some followers at a time; between them the recorder goes on with what else
// stands in the stream. A job walks follow:readers:{author} by score, which is the order of
// following, from its cursor up to `upto`, whoever was the last when the author published. Who
// follows later is above that, and has it by back-fill; who left meanwhile is left out.
//
// A job's entry stays pending until the job is done, and its cursor stands in job:{id}. A step
// pushes to some followers, then moves the cursor. Killed in between, Redis or the recorder, it is
// repeated, and nobody is left out; nobody is served twice either, not even who took the item out
// meanwhile, since a timeline knows which job it had last. Who left while a step pushed to them
// loses the items again behind it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config/settings.h"
#include "core/recorder/batch.h"
#include "core/redis/keys.h"
#include "core/redis/blocking_redis.h"

namespace freshet::recorder {

inline constexpr std::size_t kMaxChunkReaders = 100;
inline constexpr std::size_t kMaxChunkPushes = 1000;  // readers times items: about two milliseconds of Redis

// Blocking; one thread.
class FanoutWorker {
 public:
  FanoutWorker(const Settings& settings, redis::Endpoint endpoint);

  // Takes jobs; one that waits already is known by its entry.
  void add(std::vector<FanoutJob> fanouts);
  std::size_t pending_count() const { return jobs_.size(); }  // their entries are pending
  void clear() {
    jobs_.clear();
    cursor_ = kStartCursor;
  }
  // In the order of their entries; the first is next, or under way.
  const std::vector<FanoutJob>& jobs() const { return jobs_; }

  // Pushes to the next followers of the first job. True: it is over, its hash says how, and its
  // entry is to be acknowledged, then forgotten by finished(). REQUIRES: waiting() > 0. 3 RTT; 1
  // and nothing is done when the job's cursor is not where this process believes it to be, as when
  // it begins a job that another began. After an error the same followers are next. Errors: those
  // of Redis.
  Result<bool> step();
  void remove_first();

 private:
  static constexpr const char* kStartCursor = "0";
  struct Follower {
    std::string reader, score;
  };
  struct JobProgress {  // at job:{id}, and at who is next
    bool is_finished = false;
    std::string cursor;
    std::int64_t done = 0, total = 0, failed = 0;
    std::vector<Follower> followers;
  };
  Result<bool> advance();
  Result<JobProgress> read_progress();
  Result<bool> push_chunk(const JobProgress& progress);
  Result<bool> fail_job(const Error& error);
  std::size_t chunk_size() const;
  std::string timeline_key(const Follower& follower) const;

  redis::BlockingRedis redis_;
  const redis::Keys keys_;
  const TimelineSettings timeline_settings_;
  std::vector<FanoutJob> jobs_;  // in the order of their entries
  std::string cursor_ = kStartCursor;  // of the first, as far as this process knows
};

}  // namespace freshet::recorder
