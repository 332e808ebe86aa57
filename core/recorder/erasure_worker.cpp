#include "core/recorder/erasure_worker.h"

#include <algorithm>

#include "core/base/log.h"
#include "core/recorder/redis_timeout.h"
#include "core/redis/scripts.h"
#include "core/redis/spool.h"

namespace freshet::recorder {
namespace {

bool contains(const std::vector<ErasureJob>& jobs, const ErasureJob& job) {
  return std::any_of(jobs.begin(), jobs.end(),
                     [&](const ErasureJob& each) { return each.entry == job.entry; });
}

}  // namespace

ErasureWorker::ErasureWorker(const Settings& settings, redis::Endpoint endpoint,
                             readers::ReaderPseudonyms pseudonyms, milliseconds settle)
    : redis_(std::move(endpoint), kRedisTimeout, redis::kAllScripts),
      keys_(settings.redis),
      pseudonyms_(std::move(pseudonyms)),
      spool_folder_(settings.spool.path),
      tombstone_ttl_(redis::tombstone_ttl(settings.spool.max_age)),
      settle_time_(settle) {}

void ErasureWorker::add(std::vector<ErasureJob> erasures) {
  for (ErasureJob& each : erasures) {
    const bool known = std::any_of(pending_.begin(), pending_.end(), [&](const PendingJob& other) {
      return other.erasure.entry == each.entry;
    });
    if (!known) pending_.push_back({std::move(each), Clock::now()});
  }
}

bool ErasureWorker::is_pending(const ReaderId& reader) const {
  return std::ranges::any_of(pending_, [&](const PendingJob& each) { return each.erasure.reader == reader; });
}

// --- Scheduling

Result<bool> ErasureWorker::check_due(PendingJob& job, Streams& streams, Clock::time_point now) const {
  if (now < job.since + settle_time_) return false;
  if (!job.drain_target.empty()) return streams.is_delivered({job.erasure.entry.stream, job.drain_target});
  job.in_spool = find_in_spools(job);
  if (job.in_spool) return now >= job.since + kMaxSpoolWait;
  // Read after the check of the spools, so it includes everything that left a spool before.
  FRESHET_TRY(last_ids, streams.last_generated_ids());
  job.drain_target = std::move((*last_ids)[job.erasure.entry.stream]);
  return false;
}

bool ErasureWorker::needs_read() const {
  return std::any_of(pending_.begin(), pending_.end(),
                     [](const PendingJob& each) { return !each.drain_target.empty(); });
}

// An unreadable file is assumed to mention the reader.
bool ErasureWorker::find_in_spools(PendingJob& job) const {
  std::error_code absent;  // no directory, no spool
  for (const auto& entry : std::filesystem::directory_iterator(spool_folder_, absent)) {
    if (entry.path().extension() != redis::kSpoolSuffix) continue;
    const auto found = redis::Spool::mentions(entry.path(), job.erasure.reader.view());
    if (found && !*found) continue;
    if (!std::exchange(job.logged, true))
      log::warning("erasure_postponed", {{"job", job.erasure.job_id},
                                         {"file", entry.path().string()},
                                         {"reason", found ? "mentions the reader" : found.error().detail}});
    return true;
  }
  return false;
}

// --- Erasing

Result<std::vector<ErasureJob>> ErasureWorker::run(database::Database& database, Streams& streams,
                                                   const std::atomic<bool>& stop, Clock::time_point now) {
  std::vector<ErasureJob> erasures;
  std::vector<ReaderId> readers;
  for (PendingJob& each : pending_) {
    FRESHET_TRY(is_due, check_due(each, streams, now));
    if (!*is_due) continue;
    erasures.push_back(each.erasure);
    readers.push_back(each.erasure.reader);
  }
  if (erasures.empty()) return erasures;
  FRESHET_TRY(scan_finished, erase_keys(erasures, database, stop));
  if (!*scan_finished) return std::vector<ErasureJob>();
  if (auto ok = raise_epochs(erasures); !ok) return tl::unexpected(ok.error());
  if (auto ok = database.begin(); !ok) return tl::unexpected(ok.error());
  auto rows = database.readers().erase(readers);
  Result<void> committed = rows ? record_erasures(database, readers) : tl::unexpected(rows.error());
  if (committed) committed = database.commit();
  if (!committed) {
    database.rollback();
    return tl::unexpected(committed.error());
  }
  if (auto ok = database.truncate_wal(); !ok) return tl::unexpected(ok.error());
  log::notice("readers_erased", {{"jobs", std::to_string(erasures.size())}, {"rows", std::to_string(*rows)}});
  return erasures;
}

// One scan for all jobs. Returns false if it was stopped.
Result<bool> ErasureWorker::erase_keys(const std::vector<ErasureJob>& erasures, database::Database& database,
                                       const std::atomic<bool>& stop) {
  readers::ReaderNames names;
  for (const ErasureJob& each : erasures) readers::add_reader_names(names, each.reader, pseudonyms_);
  redis::Pipeline size;
  size.add("DBSIZE");
  FRESHET_TRY(counted, redis_.call_all(size));
  const auto expected = static_cast<std::size_t>(counted->front().integer().value_or(0));
  std::size_t scanned = 0;
  std::string cursor = "0";
  do {
    if (stop.load()) return false;
    redis::Pipeline progress;
    for (const ErasureJob& each : erasures)
      append_state(progress, each, "running", scanned, std::max(expected, scanned));
    if (auto saved = redis_.call_all(progress); !saved) return tl::unexpected(saved.error());
    FRESHET_TRY(page, redis::run_sync(readers::scan_personal_keys(redis_, keys_, names, cursor)));
    // First, because a job that starts again finds them only by their redirects.
    if (auto ok = record_merged_readers(database, page->merged_readers); !ok)
      return tl::unexpected(ok.error());
    auto erased = redis::run_sync(readers::erase_personal_keys(redis_, keys_, names, *page, tombstone_ttl_));
    if (!erased) return tl::unexpected(erased.error());
    scanned += page->scanned;
    cursor = page->cursor;
  } while (cursor != "0");
  scanned_keys_ = scanned;
  return true;
}

Result<void> ErasureWorker::record_merged_readers(database::Database& database,
                                                  const std::vector<std::string>& hashes) {
  if (hashes.empty()) return {};
  if (auto ok = database.begin(); !ok) return ok;
  Result<void> recorded;
  for (const std::string& each : hashes) {
    if (recorded) recorded = database.put_erasure(each, wall_now());
  }
  if (recorded) recorded = database.commit();
  if (!recorded) database.rollback();
  return recorded;
}

Result<void> ErasureWorker::raise_epochs(const std::vector<ErasureJob>& erasures) {
  if (!pseudonyms_.erasure) return {};
  redis::Pipeline command;
  for (const ErasureJob& each : erasures) {
    const std::string key = keys_.seen_epoch(pseudonyms_.erasure(each.reader));
    command.add("INCR", key).add("EXPIRE", key, redis::kSeenEpochTtl.count());
  }
  FRESHET_TRY(replies, redis_.call_all(command));
  return {};
}

// Needed if a backup that still contains the readers is restored, and for spools if Redis loses the
// tombstones.
Result<void> ErasureWorker::record_erasures(database::Database& database,
                                            const std::vector<ReaderId>& readers) {
  for (const ReaderId& each : readers) {
    for (const std::string& name : pseudonyms_.all(each)) {
      if (auto ok = database.put_erasure(name, wall_now()); !ok) return ok;
    }
  }
  return {};
}

// --- Reporting

void ErasureWorker::append_state(redis::Pipeline& out, const ErasureJob& erasure, std::string_view state,
                                 std::size_t done, std::size_t total) const {
  const std::string key = keys_.job(erasure.job_id);
  out.add("HSET", key, "state", state, "done", done, "total", total, "failed", state == "failed" ? 1 : 0);
  out.add("EXPIRE", key, tombstone_ttl_.count());
}

redis::Pipeline ErasureWorker::completion_commands(const std::vector<ErasureJob>& done) const {
  redis::Pipeline out;
  for (const PendingJob& each : pending_) {
    if (contains(done, each.erasure))
      append_state(out, each.erasure, each.in_spool ? "failed" : "done", scanned_keys_, scanned_keys_);
  }
  return out;
}

void ErasureWorker::remove_finished(const std::vector<ErasureJob>& done) {
  std::erase_if(pending_, [&](const PendingJob& each) { return contains(done, each.erasure); });
}

}  // namespace freshet::recorder
