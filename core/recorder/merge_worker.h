// Merges readers: the jobs of "merge" entries (core/readers/reader_entries.h).
//
// A job moves what Redis and the database hold about a reader to another one, at once and again
// when no more data of the source can be on its way: after kSettleTime, once all entries that the
// stream had by then are recorded. Each step can be repeated: what is copied stays the later of
// two, and is removed from the source only afterwards. A job's entry stays pending until it is
// done, so a recorder that was killed starts the job again. Its counts may then include what it had
// moved before, and miss what it was removing.
//
// user:merged leads events that were spooled under the old name to the new one. The seen filter
// cannot be listed, so the target's feed also looks under the source's name (user:visitors). Pages
// that are not in the filter yet become the target's, and so does what the source contributed to
// counters. The source's sessions stay under its visitor id. The database records the merge, for an
// erasure of the target (Database::put_merge()).
//
// A job moves nothing if one of the readers is being erased, or was erased after the merge was
// requested; before it starts, the target's stream is read up to where it ended. A job that Redis
// refuses is tried again for kMaxRetryTime, then it fails.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config/settings.h"
#include "core/database/database.h"
#include "core/readers/personal_keys.h"
#include "core/readers/reader_store.h"
#include "core/recorder/batch.h"
#include "core/recorder/stream.h"
#include "core/redis/blocking_redis.h"
#include "core/redis/keys.h"
#include "core/timeline/follow_store.h"

namespace freshet::recorder {

// Blocking; not thread-safe.
class MergeWorker {
 public:
  using Clock = std::chrono::steady_clock;
  using IsBeingErased = std::function<bool(const ReaderId&)>;
  static constexpr milliseconds kMaxRunTime{500};  // then other entries are processed
  static constexpr milliseconds kRetryInterval{1000};
  static constexpr seconds kMaxRetryTime{600};
  MergeWorker(const Settings& settings, redis::Endpoint endpoint, readers::ReaderPseudonyms pseudonyms,
              milliseconds settle);

  // Adds jobs. Jobs that are already pending are recognized by their entry.
  void add(std::vector<MergeJob> merges);
  std::size_t pending_count() const { return pending_.size(); }  // the jobs' entries are pending
  void clear() { pending_.clear(); }
  // Jobs are left that were due, or one only waits for the stream to be read.
  bool needs_read() const;

  // Merges what is due, for kMaxRunTime, or until `stop` is set. Returns the jobs that are done, to
  // be acknowledged together with completion_commands() and then removed with remove_finished().
  // REQUIRES: everything pending was claimed, so that `is_being_erased` knows the erasures.
  // Errors: those of Streams and Database; the same jobs are due again.
  Result<std::vector<MergeJob>> run(database::Database& database, Streams& streams,
                                    const IsBeingErased& is_being_erased, const std::atomic<bool>& stop,
                                    Clock::time_point now = Clock::now());
  redis::Pipeline completion_commands(const std::vector<MergeJob>& done) const;
  void remove_finished(const std::vector<MergeJob>& done);

 private:
  struct PendingJob {
    MergeJob merge;
    Clock::time_point since;
    std::string erasures_up_to = {};  // last id of the target's stream when the job was first due
    bool merged_once = false;
    std::string drain_target = {};  // the stream's last id after kSettleTime; empty until then
    Clock::time_point retry_at{};
    std::optional<Clock::time_point> failing_since;
    bool is_void = false;     // a reader is erased
    bool has_failed = false;  // for kMaxRetryTime
  };
  Result<bool> advance(PendingJob& job, database::Database& database, Streams& streams,
                       const IsBeingErased& is_being_erased, Clock::time_point now);
  Result<bool> has_read_erasures(PendingJob& job, Streams& streams) const;
  Result<bool> find_erasure(const MergeJob& job, const IsBeingErased& is_being_erased);
  Result<void> merge(const MergeJob& job, database::Database& database);
  Result<void> redirect(const MergeJob& job);
  Result<std::int64_t> move_timelines(const MergeJob& job);
  Result<std::int64_t> move_follows(const MergeJob& job);
  Result<void> add_seen_names(const MergeJob& job);
  Result<void> move_contributions(const MergeJob& job);
  Result<std::vector<std::string>> unacknowledged_pages(const ReaderId& from);
  Result<std::int64_t> move_rows(const MergeJob& job, const std::vector<readers::DismissalRecord>& dismissals,
                                 database::Database& database);

  redis::BlockingRedis redis_;
  const Settings settings_;
  const redis::Keys keys_;
  const readers::ReaderPseudonyms pseudonyms_;
  const milliseconds settle_time_;
  const std::unique_ptr<redis::WriteQueue> no_queue_;  // no write is asynchronous here
  readers::RedisReaderStore readers_;
  timeline::RedisFollowStore follows_;
  std::vector<PendingJob> pending_;
  bool was_interrupted_ = false;  // the last run()
  bool database_failed_ = false;  // in the last job
};

}  // namespace freshet::recorder
