// Forgetting readers: the jobs of op erase (core/readers/reader_entries.h).
//
// A job's entry stays pending until the job is done, so a recorder that is killed anywhere begins
// it again; every step may be repeated. A job waits first until nothing can come back: what workers
// had accepted before the request is in Redis or in a spool file after kSettle, and the spool files
// of this host must mention the reader no more, and what the stream held by then must be recorded.
// Then, in this order, go: every key of core/readers/personal_keys.h; what the seen-filter knows,
// by raising the reader's epoch; the rows of the database, its log emptied, where only a salted
// hash says that there was one; and with the entry's acknowledgement the reader's stream behind it.
// What the reader does meanwhile may be forgotten or stay.
//
// Spool files of other hosts cannot be seen from here: a tombstone (user:erased, set with the
// request) makes void what they hold when they are replayed. Until then it stays in these files.
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
#include "core/redis/keys.h"
#include "core/redis/blocking_redis.h"

namespace freshet::recorder {

// Longer than a command on a worker's background connection can take (kBulkTimeout in
// fcgi/worker_services.cpp): by then it has failed and stands in the spool.
inline constexpr milliseconds kSettleTime{6000};
// A spool that still mentions the reader after this is nobody's: the job goes on, and says that it
// failed.
inline constexpr seconds kMaxSpoolWait{600};

// Blocking; one thread.
class ErasureWorker {
 public:
  using Clock = std::chrono::steady_clock;
  ErasureWorker(const Settings& settings, redis::Endpoint endpoint, readers::ReaderPseudonyms hashes,
         milliseconds settle);

  // Takes jobs; one that waits already is known by its entry.
  void add(std::vector<ErasureJob> erasures);
  std::size_t pending_count() const { return pending_.size(); }  // their entries are pending
  void clear() { pending_.clear(); }
  bool needs_read() const;  // a job waits only for what the stream holds by now

  // Does what is due, everything `streams` handed out before being done, and returns it: to be
  // acknowledged together with result_of(), then forgotten by finished(). Stops early, with nothing
  // to acknowledge, when `stop` is true. After an error the same jobs are due again. Errors: those
  // of Redis and of Database.
  Result<std::vector<ErasureJob>> run(database::Database& database, Streams& streams,
                                   const std::atomic<bool>& stop, Clock::time_point now = Clock::now());
  // Commands that mark the jobs done, or failed.
  redis::Pipeline completion_commands(const std::vector<ErasureJob>& done) const;
  void remove_finished(const std::vector<ErasureJob>& done);

 private:
  struct PendingJob {
    ErasureJob erasure;
    Clock::time_point since;
    bool logged = false;         // that it waits for a spool
    bool in_spool = false;  // when it was last looked at
    // What the reader's stream had given when the spools were found clean: an entry replayed from
    // one of them is not above it. Empty until then.
    std::string drain_target;
  };
  Result<bool> check_due(PendingJob& job, Streams& streams, Clock::time_point now) const;
  bool find_in_spools(PendingJob& job) const;
  Result<bool> erase_keys(const std::vector<ErasureJob>& erasures, const std::atomic<bool>& stop);
  Result<void> record_erasures(database::Database& database, const std::vector<ReaderId>& readers);
  Result<void> raise_epochs(const std::vector<ErasureJob>& erasures);
  void append_state(redis::Pipeline& out, const ErasureJob& erasure, std::string_view state, std::size_t done,
                    std::size_t total) const;

  redis::BlockingRedis redis_;
  const redis::Keys keys_;
  const readers::ReaderPseudonyms hashes_;
  const std::filesystem::path spool_folder_;
  const seconds job_ttl_;
  const milliseconds settle_time_;
  std::vector<PendingJob> pending_;  // of one stream in the order of their entries
  std::size_t scanned_keys_ = 0;         // keys of the last walk
};

}  // namespace freshet::recorder
