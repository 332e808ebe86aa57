// Erases readers: the jobs of "erase" entries (core/readers/reader_entries.h).
//
// A job's entry stays pending until the job is done, so a recorder that was killed starts the job
// again. Every step is idempotent. A job first waits until no more data of the reader can arrive:
// everything that workers accepted before the request is in Redis or in a spool file after
// kSettleTime; this host's spool files must no longer mention the reader; and all entries in the
// stream at that point must be recorded. It then erases, in this order: every key of
// core/readers/personal_keys.h; the reader's seen filter, by incrementing the reader's epoch; and
// the rows of the database, including its WAL, leaving only a salted hash as a record of the
// erasure. The same is recorded of all readers who were ever merged into the reader, and their
// spooled events become void as well.
// Acknowledging the job's entry removes the preceding entries of the stream. Data that the
// reader creates in the meantime may or may not be erased.
//
// Spool files of other hosts are not accessible. A tombstone (user:erased, set with the request)
// makes their records void when they are replayed; until then the data stays in these files.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <vector>

#include "core/config/settings.h"
#include "core/database/database.h"
#include "core/readers/personal_keys.h"
#include "core/recorder/batch.h"
#include "core/recorder/stream.h"
#include "core/redis/blocking_redis.h"
#include "core/redis/keys.h"

namespace freshet::recorder {

using readers::kSettleTime;
// A spool that still mentions the reader after this time is considered orphaned: the job continues,
// and is reported as failed.
inline constexpr seconds kMaxSpoolWait{600};

// Blocking; not thread-safe.
class ErasureWorker {
 public:
  using Clock = std::chrono::steady_clock;
  ErasureWorker(const Settings& settings, redis::Endpoint endpoint, readers::ReaderPseudonyms pseudonyms,
                milliseconds settle);

  // Adds jobs. Jobs that are already pending are recognized by their entry.
  void add(std::vector<ErasureJob> erasures);
  std::size_t pending_count() const { return pending_.size(); }  // the jobs' entries are pending
  bool is_pending(const ReaderId& reader) const;
  void clear() { pending_.clear(); }
  bool needs_read() const;  // a job only waits for the stream to be read

  // Executes the jobs that are due. Requires that everything returned by `streams` was processed.
  // Returns the executed jobs, to be acknowledged together with completion_commands() and then
  // removed with remove_finished(). Stops early and returns nothing when `stop` is set. After an
  // error, the same jobs are due again. Errors: those of Redis and Database.
  Result<std::vector<ErasureJob>> run(database::Database& database, Streams& streams,
                                      const std::atomic<bool>& stop, Clock::time_point now = Clock::now());
  // Commands that set the jobs' states to done or failed.
  redis::Pipeline completion_commands(const std::vector<ErasureJob>& done) const;
  void remove_finished(const std::vector<ErasureJob>& done);

 private:
  struct PendingJob {
    ErasureJob erasure;
    Clock::time_point since;
    bool logged = false;    // that it waits for a spool
    bool in_spool = false;  // as of the last check
    // The stream's last id when the spools were found clean; entries replayed from a spool are not
    // above it. Empty until then.
    std::string drain_target;
  };
  Result<bool> check_due(PendingJob& job, Streams& streams, Clock::time_point now) const;
  bool find_in_spools(PendingJob& job) const;
  Result<bool> erase_keys(const std::vector<ErasureJob>& erasures, database::Database& database,
                          const std::atomic<bool>& stop);
  Result<void> record_merged_readers(database::Database& database, const std::vector<std::string>& hashes);
  Result<void> record_erasures(database::Database& database, const std::vector<ReaderId>& readers);
  Result<void> raise_epochs(const std::vector<ErasureJob>& erasures);
  void append_state(redis::Pipeline& out, const ErasureJob& erasure, std::string_view state, std::size_t done,
                    std::size_t total) const;

  redis::BlockingRedis redis_;
  const redis::Keys keys_;
  const readers::ReaderPseudonyms pseudonyms_;
  const std::filesystem::path spool_folder_;
  const seconds tombstone_ttl_;  // also of the jobs' states
  const milliseconds settle_time_;
  std::vector<PendingJob> pending_;  // per stream in the order of their entries
  std::size_t scanned_keys_ = 0;     // of the last scan
};

}  // namespace freshet::recorder
