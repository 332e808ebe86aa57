#include "core/recorder/eraser.h"

#include <algorithm>

#include "core/base/log.h"
#include "core/recorder/blocking.h"
#include "core/redis/scripts.h"
#include "core/redis/spool.h"

namespace freshet::recorder {
namespace {

bool has(const std::vector<Erasure>& some, const Erasure& one) {
  return std::any_of(some.begin(), some.end(), [&](const Erasure& each) { return each.entry == one.entry; });
}

}  // namespace

Eraser::Eraser(const Settings& settings, redis::Endpoint endpoint, readers::ReaderPseudonyms hashes,
               milliseconds settle)
    : redis_(std::move(endpoint), kRedisTimeout, redis::kAllScripts),
      keys_(settings.redis),
      hashes_(std::move(hashes)),
      spool_(settings.spool.path),
      job_ttl_(redis::tombstone_ttl(settings.spool.max_age)),
      settle_(settle) {}

void Eraser::add(std::vector<Erasure> erasures) {
  for (Erasure& each : erasures) {
    const bool known = std::any_of(waiting_.begin(), waiting_.end(),
                                   [&](const Waiting& other) { return other.erasure.entry == each.entry; });
    if (!known) waiting_.push_back({std::move(each), Clock::now()});
  }
}

// --- when

Result<bool> Eraser::due(Waiting& one, Streams& streams, Clock::time_point now) const {
  if (now < one.since + settle_) return false;
  if (!one.after.empty()) return streams.handed_out({one.erasure.entry.stream, one.after});
  one.spool_holds = in_spool(one);
  if (one.spool_holds) return now >= one.since + kSpoolPatience;
  // Asked after the look: what left a spool before it is in the stream now.
  FRESHET_TRY(given, streams.last_generated());
  one.after = std::move((*given)[one.erasure.entry.stream]);
  return false;
}

bool Eraser::wants_a_read() const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [](const Waiting& each) { return !each.after.empty(); });
}

// A file that cannot be read is taken to mention the reader.
bool Eraser::in_spool(Waiting& one) const {
  std::error_code absent;  // no folder, no spool
  for (const auto& entry : std::filesystem::directory_iterator(spool_, absent)) {
    if (entry.path().extension() != redis::kSpoolSuffix) continue;
    const auto found = redis::Spool::mentions(entry.path(), one.erasure.reader.view());
    if (found && !*found) continue;
    if (!std::exchange(one.told, true))
      log::warning("erasure_waits", {{"job", one.erasure.job},
                                     {"for", entry.path().string()},
                                     {"why", found ? "it mentions the reader" : found.error().detail}});
    return true;
  }
  return false;
}

// --- what

Result<std::vector<Erasure>> Eraser::run(database::Database& database, Streams& streams,
                                         const std::atomic<bool>& stop, Clock::time_point now) {
  std::vector<Erasure> erasures;
  std::vector<ReaderId> readers;
  for (Waiting& each : waiting_) {
    FRESHET_TRY(now_due, due(each, streams, now));
    if (!*now_due) continue;
    erasures.push_back(each.erasure);
    readers.push_back(each.erasure.reader);
  }
  if (erasures.empty()) return erasures;
  FRESHET_TRY(walked, erase_keys(erasures, stop));
  if (!*walked) return std::vector<Erasure>();
  if (auto ok = raise_epochs(erasures); !ok) return tl::unexpected(ok.error());
  if (auto ok = database.begin(); !ok) return tl::unexpected(ok.error());
  auto rows = database.readers().erase(readers);
  Result<void> committed = rows ? note(database, readers) : tl::unexpected(rows.error());
  if (committed) committed = database.commit();
  if (!committed) {
    database.rollback();
    return tl::unexpected(committed.error());
  }
  if (auto ok = database.truncate_wal(); !ok) return tl::unexpected(ok.error());
  log::notice("readers_erased", {{"jobs", std::to_string(erasures.size())}, {"rows", std::to_string(*rows)}});
  return erasures;
}

// One walk for all of them. False: it was stopped.
Result<bool> Eraser::erase_keys(const std::vector<Erasure>& erasures, const std::atomic<bool>& stop) {
  readers::ReaderNames names;
  for (const Erasure& each : erasures) readers::add_reader_names(names, each.reader, hashes_);
  redis::Pipeline size;
  size.add("DBSIZE");
  FRESHET_TRY(counted, redis_.call_all(size));
  const auto expected = static_cast<std::size_t>(counted->front().integer().value_or(0));
  std::size_t looked_at = 0;
  std::string cursor = "0";
  do {
    if (stop.load()) return false;
    redis::Pipeline progress;
    for (const Erasure& each : erasures)
      append_state(progress, each, "running", looked_at, std::max(expected, looked_at));
    if (auto told = redis_.call_all(progress); !told) return tl::unexpected(told.error());
    FRESHET_TRY(page, redis::run_sync(readers::scan_personal_keys(redis_, keys_, names, cursor)));
    if (auto ok = redis::run_sync(readers::erase_personal_keys(redis_, names, *page)); !ok)
      return tl::unexpected(ok.error());
    looked_at += page->scanned;
    cursor = page->cursor;
  } while (cursor != "0");
  total_ = looked_at;
  return true;
}

Result<void> Eraser::raise_epochs(const std::vector<Erasure>& erasures) {
  if (!hashes_.erasure) return {};
  redis::Pipeline command;
  for (const Erasure& each : erasures) {
    const std::string key = keys_.seen_epoch(hashes_.erasure(each.reader));
    command.add("INCR", key).add("EXPIRE", key, redis::kSeenEpochTtl.count());
  }
  FRESHET_TRY(replies, redis_.call_all(command));
  return {};
}

// For a backup that still has them, and for spools when Redis has lost the tombstones.
Result<void> Eraser::note(database::Database& database, const std::vector<ReaderId>& readers) {
  for (const ReaderId& each : readers) {
    for (const std::string& name : hashes_.all(each)) {
      if (auto ok = database.put_erasure(name, wall_now()); !ok) return ok;
    }
  }
  return {};
}

// --- and that it is done

void Eraser::append_state(redis::Pipeline& out, const Erasure& erasure, std::string_view state,
                          std::size_t done, std::size_t total) const {
  const std::string key = keys_.job(erasure.job);
  out.add("HSET", key, "state", state, "done", done, "total", total, "failed", state == "failed" ? 1 : 0);
  out.add("EXPIRE", key, job_ttl_.count());
}

redis::Pipeline Eraser::result_of(const std::vector<Erasure>& done) const {
  redis::Pipeline out;
  for (const Waiting& each : waiting_) {
    if (has(done, each.erasure))
      append_state(out, each.erasure, each.spool_holds ? "failed" : "done", total_, total_);
  }
  return out;
}

void Eraser::finished(const std::vector<Erasure>& done) {
  std::erase_if(waiting_, [&](const Waiting& each) { return has(done, each.erasure); });
}

}  // namespace freshet::recorder
