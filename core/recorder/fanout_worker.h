// Pushes what authors publish to their followers: the jobs of "fanout" entries
// (core/readers/reader_entries.h).
//
// Jobs run in FIFO order (across streams by the clocks of their nodes; an author's jobs are in one
// stream), one chunk of followers at a time. Between chunks, the recorder processes other entries.
// A job iterates over follow:readers:{author} by score, the order of following, from its cursor up
// to `up_to_score`, the last follower at the time of publication. Later followers have a higher
// score and get the item by back-fill. Readers who have unfollowed since are skipped.
//
// A job's entry stays pending until the job is done, and its cursor is stored in job:{id}. A step
// pushes to some followers, then advances the cursor. If Redis or the recorder is killed in
// between, the step is repeated: no follower is left out, and none gets an item twice, even after
// removing it, because a timeline stores which job it had last. If a reader unfollows during a
// step, the items are removed from their timeline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config/settings.h"
#include "core/recorder/batch.h"
#include "core/redis/blocking_redis.h"
#include "core/redis/keys.h"

namespace freshet::recorder {

inline constexpr std::size_t kMaxChunkReaders = 100;
inline constexpr std::size_t kMaxChunkPushes = 1000;  // readers × items; takes Redis about two milliseconds

// Blocking; not thread-safe.
class FanoutWorker {
 public:
  FanoutWorker(const Settings& settings, redis::Endpoint endpoint);

  // Adds jobs. Jobs that are already pending are recognized by their entry.
  void add(std::vector<FanoutJob> fanouts);
  std::size_t pending_count() const { return jobs_.size(); }  // the jobs' entries are pending
  void clear() {
    jobs_.clear();
    cursor_ = kStartCursor;
  }
  // In the order of their entries. The first one is next or running.
  const std::vector<FanoutJob>& jobs() const { return jobs_; }

  // Pushes to the next followers of the first job. Returns true if the job is finished: its hash
  // has the outcome, and its entry is to be acknowledged and then removed with remove_first().
  // REQUIRES: pending_count() > 0. 3 RTT; only 1, without a push, if the job's cursor differs from
  // the local copy, for example because another process started the job. After an error, the same
  // followers are next. Errors: those of Redis.
  Result<bool> step();
  void remove_first();

 private:
  static constexpr const char* kStartCursor = "0";
  struct Follower {
    std::string reader, score;
  };
  struct JobProgress {  // the content of job:{id} and the next followers
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
  std::vector<FanoutJob> jobs_;        // in the order of their entries
  std::string cursor_ = kStartCursor;  // of the first job; the local copy
};

}  // namespace freshet::recorder
