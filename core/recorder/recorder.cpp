#include "core/recorder/recorder.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "core/base/log.h"
#include "core/base/time.h"
#include "core/database/database.h"
#include "core/recorder/fanout.h"
#include "core/recorder/group.h"
#include "core/recorder/refill.h"
#include "core/recorder/stream.h"
#include "core/recorder/write_batch.h"
#include "core/redis/schema.h"
#include "core/search/search_index.h"

namespace freshet::recorder {
namespace {

constexpr milliseconds kFirstWait{100};
constexpr milliseconds kLongestWait{
    500};                            // so the lease of a dead recorder is taken half a second later at most
constexpr milliseconds kGlance{20};  // how often a wait looks whether it shall stop
// So many changes wait for the index at most, in memory.
constexpr std::size_t kMostHeld = 5000;

using Clock = std::chrono::steady_clock;

struct ReasonRow {
  std::string_view prefix;  // of Error::reason; the first row that fits
  RecorderPauseReason reason;
};
constexpr std::array kReasons{ReasonRow{"disk_full", RecorderPauseReason::kDatabaseFull},
                              ReasonRow{"database_readonly", RecorderPauseReason::kDatabaseReadOnly},
                              ReasonRow{"database_locked", RecorderPauseReason::kDatabaseLocked},
                              ReasonRow{"database_newer", RecorderPauseReason::kDatabaseNewer},
                              ReasonRow{"index_locked", RecorderPauseReason::kIndexLocked},
                              ReasonRow{"index", RecorderPauseReason::kIndexError},
                              ReasonRow{"bad_stemmer", RecorderPauseReason::kIndexError},
                              ReasonRow{"redis", RecorderPauseReason::kRedisUnavailable},
                              ReasonRow{"no_cluster", RecorderPauseReason::kRedisUnavailable},
                              ReasonRow{"lost_again", RecorderPauseReason::kRedisUnavailable},
                              ReasonRow{"other_schema", RecorderPauseReason::kRedisUnavailable},
                              ReasonRow{"other_groups", RecorderPauseReason::kRedisUnavailable},
                              ReasonRow{"other_recorder", RecorderPauseReason::kLeaseHeld},
                              ReasonRow{"lease_lost", RecorderPauseReason::kLeaseHeld},
                              ReasonRow{"other_database", RecorderPauseReason::kDatabaseMismatch},
                              ReasonRow{"", RecorderPauseReason::kDatabaseError}};

RecorderPauseReason reason_of(const Error& error) {
  const auto row = std::find_if(kReasons.begin(), kReasons.end(),
                                [&](const ReasonRow& each) { return error.reason.starts_with(each.prefix); });
  return row->reason;
}

std::int64_t unix_now() { return wall_now().time_since_epoch().count(); }

void wait_until(Clock::time_point until, const std::atomic<bool>& stop) {
  for (auto now = Clock::now(); !stop.load() && now < until; now = Clock::now())
    std::this_thread::sleep_for(std::min<Clock::duration>(kGlance, until - now));
}

}  // namespace

struct Recorder::State {
  State(const Settings& s, const redis::Endpoint& endpoint, RecorderReport& r, readers::ReaderPseudonyms hashes,
        milliseconds settle, milliseconds ttl)
      : settings(s),
        report(r),
        streams(settings, endpoint),
        lease(streams.keys(), ttl),
        eraser(settings, endpoint, std::move(hashes), settle),
        pusher(settings, endpoint) {}

  Result<void> turn(const std::atomic<bool>& stop);
  Result<void> join();
  Result<void> take_lease();
  Result<void> make_groups();
  Result<void> open_files();
  Result<void> open_database();
  Result<void> apply(Batch batch);
  bool index_is_due() const { return Clock::now() >= indexed + kIndexPause; }
  Result<void> finish_held();
  Result<void> write_index();
  bool rebuilds() const { return settings.recorder.rebuild == "auto"; }
  Result<void> rebuild(const std::atomic<bool>& stop);
  Result<void> erase(const std::atomic<bool>& stop);
  Result<void> push();
  Result<void> settle(const Batch& batch, const redis::Pipeline& then = {});
  void tell(const Backlog& backlog);
  Result<void> compare();
  void failed(const Error& error);
  void went_well();

  const Settings settings;
  RecorderReport& report;
  Streams streams;
  Lease lease;
  Eraser eraser;
  Pusher pusher;
  std::uint64_t wrote_as = 0;  // the last token that the database had from us
  bool leased = false;         // and nobody said since that it is lost
  bool joined = false;
  std::string loss;             // when it joined: as noted_loss() has it
  bool compared = false;        // with each other, Redis, database and index, since they were opened
  Batch held;                   // in the database, and not yet in the index and acknowledged
  Clock::time_point indexed{};  // when the index was last committed
  std::unique_ptr<database::Database> database;
  std::unique_ptr<search::SearchIndex> index;
};

Recorder::Recorder(const Settings& settings, const redis::Endpoint& endpoint, RecorderReport& report,
                   readers::ReaderPseudonyms hashes, milliseconds settle, milliseconds lease)
    : state_(std::make_unique<State>(settings, endpoint, report, std::move(hashes), settle, lease)) {}
Recorder::~Recorder() = default;

int Recorder::run(const std::atomic<bool>& stop) {
  milliseconds wait = kFirstWait;
  while (!stop.load()) {
    const auto outcome = state_->turn(stop);
    if (outcome) {
      state_->went_well();
      wait = kFirstWait;
      continue;
    }
    if (stop.load()) break;
    state_->failed(outcome.error());
    wait_until(Clock::now() + wait, stop);
    wait = std::min(2 * wait, kLongestWait);
  }
  if (!state_->held.empty()) (void)state_->finish_held();  // else when it starts again
  if (state_->leased) state_->lease.give_back(state_->streams.redis());
  return 0;
}

// --- One batch

// After a failure everything that is pending comes again before anything new.
Result<void> Recorder::State::turn(const std::atomic<bool>& stop) {
  const bool again = !joined;
  if (again) {
    if (auto ok = join(); !ok) return ok;
  }
  if (auto ok = open_files(); !ok) return ok;
  // All that is pending comes again and is written again, in its order: were what is held
  // acknowledged when only some came, older rows would stay over newer ones.
  if (again && !held.empty()) {
    if (auto ok = write_index(); !ok) return ok;
    held = {};
  }
  if (!loss.empty() && rebuilds()) {
    if (auto ok = rebuild(stop); !ok) return ok;
  }
  const bool busy = pusher.waiting() > 0 || eraser.wants_a_read();
  const bool full = held.changes.size() >= kMostHeld;
  if (full || (!busy && streams.drained())) wait_until(indexed + kIndexPause, stop);
  if (!full) {
    const auto wait = busy || !held.empty() ? Streams::Wait::kNot : Streams::Wait::kForEntries;
    FRESHET_TRY(batch, streams.done() ? streams.read(wait) : streams.claim());
    eraser.add(std::exchange(batch->erasures, {}));
    pusher.add(std::exchange(batch->fanouts, {}));
    if (!batch->empty()) {
      if (auto ok = apply(*std::move(batch)); !ok) return ok;
    }
  }
  if (index_is_due()) {
    if (auto ok = finish_held(); !ok) return ok;
  }
  if (pusher.waiting() > 0) {
    if (auto ok = push(); !ok) return ok;
  }
  streams.hold(pusher.jobs());
  if (eraser.waiting() > 0) {
    if (auto ok = erase(stop); !ok) return ok;
  }
  return streams.done() && !compared && held.empty() ? compare() : Result<void>();
}

Result<void> Recorder::State::join() {
  if (auto ok = redis::run_sync(redis::check_schema(streams.redis(), streams.keys())); !ok) return ok;
  if (auto ok = take_lease(); !ok) return ok;
  FRESHET_TRY(there, has_groups(streams.redis(), streams.keys()));
  if (!*there) {
    if (auto ok = make_groups(); !ok) return ok;
  }
  FRESHET_TRY(noted, noted_loss(streams.redis(), streams.keys()));
  loss = std::move(*noted);
  if (!loss.empty())
    log::error("redis_lost",
               {{"at_ms", loss}, {"cure", rebuilds() ? "recorder.rebuild" : "freshetctl rebuild-redis"}});
  streams.restart();
  joined = true;
  compared = false;
  return {};
}

// For the database as it is now. What is held goes on where nobody wrote since; else it is pending,
// and comes again.
Result<void> Recorder::State::take_lease() {
  if (!database) {
    if (auto ok = open_database(); !ok) return ok;
  }
  FRESHET_TRY(last, database->stored_fencing_token());
  if (*last != wrote_as) held = {};
  if (auto ok = lease.take(streams.redis(), database->database_id(), *last); !ok) return ok;
  leased = true;
  auto ours = database->set_fencing_token(lease.token());
  if (ours) wrote_as = lease.token();
  return ours;
}

// Only the database knows whether there was one before.
Result<void> Recorder::State::make_groups() {
  FRESHET_TRY(recorded, database->has_recorded_entries());
  return *recorded ? make_lost_groups(streams.redis(), streams.keys())
                   : recorder::make_groups(streams.redis(), streams.keys());
}

Result<void> Recorder::State::open_files() {
  if (!database) {
    if (auto ok = take_lease(); !ok) return ok;
  }
  if (!index) {
    FRESHET_TRY(opened, search::SearchIndex::open(settings.search));
    index = std::move(*opened);
    compared = false;
  }
  return {};
}

Result<void> Recorder::State::open_database() {
  FRESHET_TRY(opened, database::Database::open(settings.recorder.database, database::Database::Mode::kWrite));
  database = std::move(*opened);
  report.items.store(database->item_count());
  compared = false;
  return {};
}

// What is written meanwhile waits in the stream.
Result<void> Recorder::State::rebuild(const std::atomic<bool>& stop) {
  const auto go_on = [&](std::int64_t) {
    return stop.load() ? fail(ErrorCode::kUnavailable, "stopped") : settle(Batch());
  };
  FRESHET_TRY(done, refill(streams.redis(), *database, settings, false, go_on));
  if (auto ok = end_loss(streams.redis(), streams.keys(), loss); !ok) return ok;
  loss.clear();
  log::notice("redis_rebuilt", {{"items", std::to_string(done->items)}});
  return {};
}

Result<void> Recorder::State::apply(Batch batch) {
  if (auto ok = write_batch(*database, batch, streams.keys()); !ok) return ok;
  batch.readers.clear();
  held.append(std::move(batch));
  return {};
}

// Brings the index up to the database, and acknowledges; with nothing held it only looks how far
// behind we are.
Result<void> Recorder::State::finish_held() {
  if (!held.empty()) {
    if (auto ok = write_index(); !ok) return ok;
    // Looked at last: what was written into a file that is gone shall not be acknowledged.
    if (database->was_replaced())
      return fail(ErrorCode::kUnavailable, "database_absent", {}, "deleted or replaced while it was open");
    report.last_commit.store(unix_now());
    report.items.store(database->item_count());
  }
  const Batch done = std::exchange(held, {});
  return settle(done);
}

Result<void> Recorder::State::write_index() {
  Result<void> written;
  for (const Change& each : held.changes) {
    written = each.kind == Change::Kind::kPut ? index->put(each.item) : index->remove(each.item.id);
    if (!written) break;
  }
  // We have the index' lock: who took over since has not written yet what is newer.
  if (written) written = database->verify_fencing_token();
  if (written) {
    written = index->commit();
    indexed = Clock::now();
  }
  if (!written) index->rollback();
  return written;
}

// Jobs that are due. Their entries go last, and the stream up to them with it.
Result<void> Recorder::State::erase(const std::atomic<bool>& stop) {
  FRESHET_TRY(done, eraser.run(*database, streams, stop));
  if (done->empty()) return {};
  if (database->was_replaced())
    return fail(ErrorCode::kUnavailable, "database_absent", {}, "deleted or replaced while it was open");
  if (auto ok = finish_held(); !ok) return ok;  // what mentions the reader leaves the stream with the job
  Batch batch;
  for (const Erasure& each : *done) batch.entries.push_back(each.entry);
  if (auto ok = settle(batch, eraser.result_of(*done)); !ok) return ok;
  eraser.finished(*done);
  return {};
}

// Some followers of the first job; what else is in the stream goes on in between.
Result<void> Recorder::State::push() {
  FRESHET_TRY(over, pusher.step());
  if (!*over) return {};
  Batch batch;
  batch.entries.push_back(pusher.jobs().front().entry);
  if (auto ok = settle(batch); !ok) return ok;
  pusher.finished();
  return {};
}

// Acknowledges, and says how far behind we are.
Result<void> Recorder::State::settle(const Batch& batch, const redis::Pipeline& then) {
  FRESHET_TRY(backlog, streams.acknowledge(lease, batch, then));
  report.entries.fetch_add(batch.entries.size());
  report.malformed.fetch_add(batch.malformed);
  tell(*backlog);
  // Pending although ours are done: another consumer was given them.
  const std::size_t ours = held.entries.size() + eraser.waiting() + pusher.waiting();
  if (backlog->pending > ours && streams.done()) streams.restart();
  return {};
}

void Recorder::State::tell(const Backlog& backlog) {
  report.lag_entries.store(backlog.entries);
  report.lag_age_ms.store(backlog.oldest_ms);
}

// What has been lost by others is not repaired here, but said.
Result<void> Recorder::State::compare() {
  FRESHET_TRY(shown, database->count_visible());
  const auto items = static_cast<std::uint64_t>(*shown);
  if (items != index->documents()) {
    // An index made from a database that has lost items would lose them too.
    const bool database_lost = items < index->documents();
    log::warning("index_differs", {{"items", std::to_string(items)},
                                   {"documents", std::to_string(index->documents())},
                                   {"cure", database_lost ? "freshetctl import" : "freshetctl reindex"}});
  }
  FRESHET_TRY(generated, streams.last_generated());
  for (unsigned each = 0; each < generated->size(); ++each) {
    FRESHET_TRY(last, database->last_entry(streams.keys().partition(each).hash_tag()));
    if (loss.empty() && below((*generated)[each], *last))
      log::warning("redis_lost_items", {{"stream", streams.keys().partition(each).stream()},
                                        {"recorded_up_to", *last},
                                        {"stream_at", (*generated)[each]},
                                        {"cure", "freshetctl rebuild-redis --force"}});
  }
  compared = true;
  return {};
}

// --- When something is away

void Recorder::State::failed(const Error& error) {
  const RecorderPauseReason reason = reason_of(error);
  const bool refused = reason == RecorderPauseReason::kLeaseHeld || reason == RecorderPauseReason::kDatabaseMismatch;
  streams.restart();
  // What is held is in the database: a Redis that lost the entries meanwhile gives them no second
  // time.
  if (reason != RecorderPauseReason::kRedisUnavailable && !refused) held = {};
  // What failed may have failed for good on this connection, these descriptors.
  if (reason == RecorderPauseReason::kRedisUnavailable || refused) joined = leased = false;
  if (refused) {  // jobs are another's now
    eraser.clear();
    pusher.clear();
  }
  if (reason == RecorderPauseReason::kIndexError)
    index.reset();
  else if (reason != RecorderPauseReason::kIndexLocked && reason != RecorderPauseReason::kRedisUnavailable)
    database.reset();
  if (report.state.load() != RecorderState::kPaused) report.paused_since.store(unix_now());
  if (report.state.exchange(RecorderState::kPaused) != RecorderState::kPaused ||
      report.reason.load() != reason)
    log::warning("recorder_waits", {{"for", std::string(error.reason)}, {"why", error.detail}});
  report.reason.store(reason);
  if (reason == RecorderPauseReason::kRedisUnavailable) return;
  if (leased)
    (void)settle(Batch());  // we go on when it is over
  else if (const auto backlog = streams.backlog())
    tell(*backlog);
}

void Recorder::State::went_well() {
  const RecorderState before = report.state.load();
  if (before == RecorderState::kRunning) return;
  report.reason.store(RecorderPauseReason::kNone);
  report.paused_since.store(0);
  report.state.store(RecorderState::kRunning);
  log::notice(before == RecorderState::kPaused ? "recorder_resumes" : "recorder_runs",
              {{"items", std::to_string(report.items.load())}});
}

}  // namespace freshet::recorder
