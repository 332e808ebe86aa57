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
#include "core/recorder/consumer_groups.h"
#include "core/recorder/covisit_publisher.h"
#include "core/recorder/fanout_worker.h"
#include "core/recorder/merge_worker.h"
#include "core/recorder/restore_from_database.h"
#include "core/recorder/stream.h"
#include "core/recorder/write_batch.h"
#include "core/redis/schema.h"
#include "core/search/search_index.h"

namespace freshet::recorder {
namespace {

constexpr milliseconds kMinBackoff{100};
// A dead recorder's lease is acquired at most half a second after it expires.
constexpr milliseconds kMaxBackoff{500};
constexpr milliseconds kStopPollInterval{20};  // how often a wait checks for a stop
// Bound for changes in memory that wait for the index.
constexpr std::size_t kMaxUnindexedChanges = 5000;
// Items that a rebuild of the index adds between two reads of the streams: about 0.1 s.
constexpr std::int64_t kReindexedAtOnce = 100;
constexpr std::size_t kReindexedBytes = 1 << 20;  // of their texts
constexpr std::chrono::minutes kPruneInterval{30};

using Clock = std::chrono::steady_clock;

struct ReasonRow {
  std::string_view prefix;  // of Error::reason; the first matching row applies
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
                              ReasonRow{"redis_data_lost_again", RecorderPauseReason::kRedisUnavailable},
                              ReasonRow{"schema_mismatch", RecorderPauseReason::kRedisUnavailable},
                              ReasonRow{"restore_interrupted", RecorderPauseReason::kRedisUnavailable},
                              ReasonRow{"partitions_mismatch", RecorderPauseReason::kRedisUnavailable},
                              ReasonRow{"lease_held", RecorderPauseReason::kLeaseHeld},
                              ReasonRow{"lease_lost", RecorderPauseReason::kLeaseHeld},
                              ReasonRow{"database_mismatch", RecorderPauseReason::kDatabaseMismatch},
                              ReasonRow{"", RecorderPauseReason::kDatabaseError}};

RecorderPauseReason reason_of(const Error& error) {
  const auto row = std::find_if(kReasons.begin(), kReasons.end(),
                                [&](const ReasonRow& each) { return error.reason.starts_with(each.prefix); });
  return row->reason;
}

std::int64_t unix_now() { return wall_now().time_since_epoch().count(); }

void sleep_until(Clock::time_point until, const std::atomic<bool>& stop) {
  for (auto now = Clock::now(); !stop.load() && now < until; now = Clock::now())
    std::this_thread::sleep_for(std::min<Clock::duration>(kStopPollInterval, until - now));
}

}  // namespace

struct Recorder::Impl {
  Impl(const Settings& s, const redis::Endpoint& endpoint, RecorderReport& r,
       readers::ReaderPseudonyms pseudonyms, milliseconds settle, milliseconds ttl)
      : settings(s),
        report(r),
        streams(settings, endpoint),
        lease(streams.keys(), ttl),
        erasure_worker(settings, endpoint, pseudonyms, settle),
        merge_worker(settings, endpoint, std::move(pseudonyms), settle),
        fanout_worker(settings, endpoint) {}

  Result<void> run_once(const std::atomic<bool>& stop);
  Result<void> begin_session();
  Result<void> acquire_lease();
  Result<void> create_missing_groups();
  Result<void> open_files();
  Result<void> open_database();
  Result<void> apply(EntryBatch batch);
  Result<void> prune_counts();
  bool is_index_due() const { return Clock::now() >= index_committed_at + kIndexCommitInterval; }
  Result<void> commit_unindexed();
  Result<void> write_index();
  bool is_reindex_due() const {
    return index && index->version() != index->current_version() && Clock::now() >= reindex_due;
  }
  Result<void> reindex_some();
  Result<void> finish_reindex(std::int64_t done);
  void postpone_reindex(const Error& error);
  bool rebuilds_automatically() const { return settings.recorder.rebuild == "auto"; }
  Result<void> rebuild(const std::atomic<bool>& stop);
  Result<void> run_erasures(const std::atomic<bool>& stop);
  Result<void> run_merges(const std::atomic<bool>& stop);
  Result<void> run_fanout();
  Result<void> acknowledge(const EntryBatch& batch, const redis::Pipeline& followup = {});
  void publish_lag(const Backlog& backlog);
  Result<void> check_consistency();
  void on_failed(const Error& error);
  void on_recovered();

  const Settings settings;
  RecorderReport& report;
  Streams streams;
  Lease lease;
  ErasureWorker erasure_worker;
  MergeWorker merge_worker;
  FanoutWorker fanout_worker;
  CovisitPublisher covisits;
  std::uint64_t database_token = 0;  // the last token we wrote to the database
  bool has_lease = false;            // and it has not been reported lost
  bool in_session = false;
  std::string data_loss;                   // recorded_data_loss() at the start of the session
  bool checked = false;                    // Redis, database and index were compared since they were opened
  EntryBatch unindexed;                    // committed to the database, but not yet indexed and acknowledged
  Clock::time_point index_committed_at{};  // time of the last index commit
  Clock::time_point prune_due{};           // next pruning of counts of views and pairs
  std::unique_ptr<database::Database> database;
  std::unique_ptr<search::SearchIndex> index;
  std::string reindexed_up_to;  // the last item of a rebuild of the index
  Clock::time_point reindex_started_at{};
  Clock::time_point reindex_due{};  // later after a failure
};

Recorder::Recorder(const Settings& settings, const redis::Endpoint& endpoint, RecorderReport& report,
                   readers::ReaderPseudonyms pseudonyms, milliseconds settle, milliseconds lease)
    : impl_(std::make_unique<Impl>(settings, endpoint, report, std::move(pseudonyms), settle, lease)) {}
Recorder::~Recorder() = default;

int Recorder::run(const std::atomic<bool>& stop) {
  milliseconds wait = kMinBackoff;
  while (!stop.load()) {
    const auto outcome = impl_->run_once(stop);
    if (outcome) {
      impl_->on_recovered();
      wait = kMinBackoff;
      continue;
    }
    if (stop.load()) break;
    impl_->on_failed(outcome.error());
    sleep_until(Clock::now() + wait, stop);
    wait = std::min(2 * wait, kMaxBackoff);
  }
  if (!impl_->unindexed.empty()) (void)impl_->commit_unindexed();  // the next run retries a failure
  if (impl_->has_lease) impl_->lease.release(impl_->streams.redis());
  return 0;
}

// --- Processing

// After a failure, everything pending is processed again before anything new.
Result<void> Recorder::Impl::run_once(const std::atomic<bool>& stop) {
  const bool is_new_session = !in_session;
  if (is_new_session) {
    if (auto ok = begin_session(); !ok) return ok;
  }
  if (auto ok = open_files(); !ok) return ok;
  // All pending entries are delivered and written again, in order. If unindexed ones were
  // acknowledged after only some of them had been redelivered, older rows would overwrite newer
  // ones.
  if (is_new_session && !unindexed.empty()) {
    if (auto ok = write_index(); !ok) return ok;
    unindexed = {};
  }
  if (!data_loss.empty() && rebuilds_automatically()) {
    if (auto ok = rebuild(stop); !ok) return ok;
  }
  const bool busy = fanout_worker.pending_count() > 0 || erasure_worker.needs_read() ||
                    merge_worker.needs_read() || is_reindex_due();
  const bool full = unindexed.item_changes.size() >= kMaxUnindexedChanges;
  if (full || (!busy && streams.is_drained())) sleep_until(index_committed_at + kIndexCommitInterval, stop);
  if (!full) {
    const auto wait =
        busy || !unindexed.empty() ? Streams::ReadMode::kNonBlocking : Streams::ReadMode::kBlocking;
    FRESHET_TRY(batch, streams.has_claimed_all() ? streams.read(wait) : streams.claim_pending());
    erasure_worker.add(std::exchange(batch->erasures, {}));
    merge_worker.add(std::exchange(batch->merges, {}));
    fanout_worker.add(std::exchange(batch->fanouts, {}));
    if (!batch->empty()) {
      if (auto ok = apply(*std::move(batch)); !ok) return ok;
    }
  }
  if (is_index_due()) {
    if (auto ok = commit_unindexed(); !ok) return ok;
  }
  if (Clock::now() >= prune_due) {
    if (auto ok = prune_counts(); !ok) return ok;
  }
  if (covisits.is_due()) {
    if (auto ok = covisits.publish(streams.redis(), streams.keys(), *database); !ok) return ok;
  }
  if (fanout_worker.pending_count() > 0) {
    if (auto ok = run_fanout(); !ok) return ok;
  }
  streams.pin(fanout_worker.jobs());
  if (merge_worker.pending_count() > 0 && streams.has_claimed_all()) {
    if (auto ok = run_merges(stop); !ok) return ok;
  }
  if (erasure_worker.pending_count() > 0) {
    if (auto ok = run_erasures(stop); !ok) return ok;
  }
  if (is_reindex_due()) {
    if (auto ok = commit_unindexed(); !ok) return ok;
    if (auto done = reindex_some(); !done) {
      postpone_reindex(done.error());
      return {};
    }
  }
  return streams.has_claimed_all() && !checked && unindexed.empty() ? check_consistency() : Result<void>();
}

Result<void> Recorder::Impl::begin_session() {
  if (auto ok = redis::run_sync(redis::check_schema(streams.redis(), streams.keys())); !ok) return ok;
  if (auto ok = acquire_lease(); !ok) return ok;
  FRESHET_TRY(have_groups, has_groups(streams.redis(), streams.keys()));
  if (!*have_groups) {
    if (auto ok = create_missing_groups(); !ok) return ok;
  }
  FRESHET_TRY(recorded_loss, recorded_data_loss(streams.redis(), streams.keys()));
  data_loss = std::move(*recorded_loss);
  if (!data_loss.empty())
    log::error("redis_data_lost",
               {{"at_ms", data_loss},
                {"fix", rebuilds_automatically() ? "recorder.rebuild" : "freshetctl rebuild-redis"}});
  streams.restart();
  in_session = true;
  checked = false;
  return {};
}

// Acquires the lease for the current database. Unindexed changes are kept if no other recorder
// has written since; otherwise they are pending and will be delivered again.
Result<void> Recorder::Impl::acquire_lease() {
  if (!database) {
    if (auto ok = open_database(); !ok) return ok;
  }
  FRESHET_TRY(last, database->stored_fencing_token());
  if (*last != database_token) unindexed = {};
  if (auto ok = lease.acquire(streams.redis(), database->database_id(), *last); !ok) return ok;
  has_lease = true;
  auto token_set = database->set_fencing_token(lease.token());
  if (token_set) database_token = lease.token();
  return token_set;
}

// Only the database knows whether there were groups before.
Result<void> Recorder::Impl::create_missing_groups() {
  FRESHET_TRY(recorded, database->has_recorded_entries());
  return *recorded ? recreate_groups_after_loss(streams.redis(), streams.keys())
                   : recorder::create_groups(streams.redis(), streams.keys());
}

Result<void> Recorder::Impl::open_files() {
  if (!database) {
    if (auto ok = acquire_lease(); !ok) return ok;
  }
  if (!index) {
    FRESHET_TRY(opened, search::SearchIndex::open(settings.search));
    index = std::move(*opened);
    checked = false;
  }
  return {};
}

Result<void> Recorder::Impl::open_database() {
  FRESHET_TRY(opened, database::Database::open(settings.recorder.database, database::Database::Mode::kWrite));
  database = std::move(*opened);
  report.items.store(database->item_count());
  checked = false;
  return {};
}

// Rebuilds Redis from the database. Concurrent writes wait in the stream.
Result<void> Recorder::Impl::rebuild(const std::atomic<bool>& stop) {
  const auto on_progress = [&](std::int64_t) {
    return stop.load() ? fail(ErrorCode::kUnavailable, "stopped") : acknowledge(EntryBatch());
  };
  FRESHET_TRY(done, restore_from_database(streams.redis(), *database, settings, false, on_progress));
  if (auto ok = end_data_loss(streams.redis(), streams.keys(), data_loss); !ok) return ok;
  data_loss.clear();
  log::notice("redis_rebuilt", {{"items", std::to_string(done->items)}});
  return {};
}

Result<void> Recorder::Impl::apply(EntryBatch batch) {
  if (auto ok = write_batch(*database, batch, streams.keys()); !ok) return ok;
  covisits.add(batch.view_counts);
  batch.reader_changes.clear();
  batch.view_counts.clear();
  unindexed.append(std::move(batch));
  return {};
}

Result<void> Recorder::Impl::prune_counts() {
  if (auto ok = database->begin(); !ok) return ok;
  auto pruned = database->prune_view_counts(wall_now());
  if (pruned) pruned = database->prune_covisits(wall_now());
  if (pruned) pruned = database->prune_merges();
  if (pruned) pruned = database->commit();
  if (!pruned) database->rollback();
  if (pruned) prune_due = Clock::now() + kPruneInterval;
  return pruned;
}

// Commits the index and acknowledges. Without unindexed changes, it only reads the backlog.
Result<void> Recorder::Impl::commit_unindexed() {
  if (!unindexed.empty()) {
    if (auto ok = write_index(); !ok) return ok;
    // Check this last: changes written to a deleted file must not be acknowledged.
    if (database->was_replaced())
      return fail(ErrorCode::kUnavailable, "database_absent", {}, "deleted or replaced while it was open");
    report.last_commit.store(unix_now());
    report.items.store(database->item_count());
  }
  const EntryBatch done = std::exchange(unindexed, {});
  return acknowledge(done);
}

Result<void> Recorder::Impl::write_index() {
  Result<void> written;
  for (const ItemChange& each : unindexed.item_changes) {
    written =
        each.operation == ItemChange::Operation::kPut ? index->put(each.item) : index->remove(each.item.id);
    if (!written) break;
  }
  // We hold the index lock, so a new recorder cannot have written anything newer yet.
  if (written) written = database->verify_fencing_token();
  if (written) {
    written = index->commit();
    index_committed_at = Clock::now();
  }
  if (!written) index->rollback();
  return written;
}

// Rebuilds an outdated index a few items at a time, while the old one is searched. Changes that are
// recorded meanwhile go to both.
Result<void> Recorder::Impl::reindex_some() {
  if (!index->is_rebuilding()) {
    if (auto ok = index->begin_rebuild(); !ok) return ok;
    if (!index->is_rebuilding()) return {};  // `freshetctl reindex` has replaced it
    reindexed_up_to.clear();
    reindex_started_at = Clock::now();
    report.reindexed_items.store(0);
    report.items_to_reindex.store(database->item_count());
    log::notice("index_rebuild_started",
                {{"version", index->current_version()}, {"found", index->version()}});
  }
  std::int64_t count = 0;
  std::size_t bytes = 0;
  for (bool more = true; more && count < kReindexedAtOnce && bytes < kReindexedBytes;) {
    more = false;
    const std::string after = reindexed_up_to;
    const auto read = database->for_some_items(after, 1, [&](const items::Item& item) -> Result<void> {
      more = true;
      ++count;
      bytes += item.text.size();
      reindexed_up_to = item.id.str();
      return index->put_rebuilt(item);
    });
    if (!read) return read;
    if (!more) return finish_reindex(report.reindexed_items.fetch_add(count) + count);
  }
  report.reindexed_items.fetch_add(count);
  return {};
}

Result<void> Recorder::Impl::finish_reindex(std::int64_t done) {
  if (auto ok = index->finish_rebuild(); !ok) return ok;
  report.reindexed_items.store(0);
  report.items_to_reindex.store(0);
  const auto took = std::chrono::duration_cast<seconds>(Clock::now() - reindex_started_at);
  log::notice("index_rebuilt", {{"items", std::to_string(done)}, {"seconds", std::to_string(took.count())}});
  return {};
}

// The old index stays in use. A full disk or another rebuild must not stop the recording.
void Recorder::Impl::postpone_reindex(const Error& error) {
  constexpr std::chrono::hours kPause{1};
  log::warning("index_rebuild_failed", {{"reason", std::string(error.reason)}, {"detail", error.detail}});
  index.reset();  // removes the unfinished index when it is opened again
  report.reindexed_items.store(0);
  report.items_to_reindex.store(0);
  reindex_due = Clock::now() + kPause;
}

// Runs the erasures that are due. Their entries are acknowledged last, which trims the stream up to
// them.
Result<void> Recorder::Impl::run_erasures(const std::atomic<bool>& stop) {
  FRESHET_TRY(done, erasure_worker.run(*database, streams, stop));
  if (done->empty()) return {};
  if (database->was_replaced())
    return fail(ErrorCode::kUnavailable, "database_absent", {}, "deleted or replaced while it was open");
  // The reader's other entries must leave the stream with the job.
  if (auto ok = commit_unindexed(); !ok) return ok;
  EntryBatch batch;
  for (const ErasureJob& each : *done) batch.entries.push_back(each.entry);
  if (auto ok = acknowledge(batch, erasure_worker.completion_commands(*done)); !ok) return ok;
  erasure_worker.remove_finished(*done);
  return {};
}

// Runs the merges that are due.
Result<void> Recorder::Impl::run_merges(const std::atomic<bool>& stop) {
  const auto is_being_erased = [this](const ReaderId& reader) { return erasure_worker.is_pending(reader); };
  FRESHET_TRY(done, merge_worker.run(*database, streams, is_being_erased, stop));
  if (done->empty()) return {};
  EntryBatch batch;
  for (const MergeJob& each : *done) batch.entries.push_back(each.entry);
  if (auto ok = acknowledge(batch, merge_worker.completion_commands(*done)); !ok) return ok;
  merge_worker.remove_finished(*done);
  return {};
}

// Pushes to some followers of the first job. Other entries are processed in between.
Result<void> Recorder::Impl::run_fanout() {
  FRESHET_TRY(over, fanout_worker.step());
  if (!*over) return {};
  EntryBatch batch;
  batch.entries.push_back(fanout_worker.jobs().front().entry);
  if (auto ok = acknowledge(batch); !ok) return ok;
  fanout_worker.remove_first();
  return {};
}

// Acknowledges and reports the lag.
Result<void> Recorder::Impl::acknowledge(const EntryBatch& batch, const redis::Pipeline& followup) {
  FRESHET_TRY(backlog, streams.acknowledge(lease, batch, followup));
  report.entries.fetch_add(batch.entries.size());
  report.malformed.fetch_add(batch.malformed_count);
  publish_lag(*backlog);
  // Others are pending although ours are done: they were delivered to another consumer.
  const std::size_t own_pending = unindexed.entries.size() + erasure_worker.pending_count() +
                                  merge_worker.pending_count() + fanout_worker.pending_count();
  if (backlog->pending > own_pending && streams.has_claimed_all()) streams.restart();
  return {};
}

void Recorder::Impl::publish_lag(const Backlog& backlog) {
  report.lag_entries.store(backlog.entries);
  report.lag_age_ms.store(backlog.oldest_age_ms);
}

// Losses elsewhere are logged, not repaired.
Result<void> Recorder::Impl::check_consistency() {
  FRESHET_TRY(visible_items, database->count_visible());
  const auto items = static_cast<std::uint64_t>(*visible_items);
  if (items != index->documents()) {
    // Reindexing from a database that has lost items would lose them in the index, too.
    const bool database_lost = items < index->documents();
    log::warning("index_mismatch_found",
                 {{"items", std::to_string(items)},
                  {"documents", std::to_string(index->documents())},
                  {"fix", database_lost ? "freshetctl import" : "freshetctl reindex"}});
  }
  FRESHET_TRY(generated, streams.last_generated_ids());
  for (unsigned each = 0; each < generated->size(); ++each) {
    FRESHET_TRY(last, database->last_entry(streams.keys().partition(each).hash_tag()));
    if (data_loss.empty() && precedes((*generated)[each], *last))
      log::warning("redis_items_lost", {{"stream", streams.keys().partition(each).stream()},
                                        {"recorded_up_to", *last},
                                        {"stream_at", (*generated)[each]},
                                        {"fix", "freshetctl rebuild-redis --force"}});
  }
  checked = true;
  return {};
}

// --- Failures

void Recorder::Impl::on_failed(const Error& error) {
  const RecorderPauseReason reason = reason_of(error);
  const bool refused =
      reason == RecorderPauseReason::kLeaseHeld || reason == RecorderPauseReason::kDatabaseMismatch;
  streams.restart();
  // Unindexed changes are in the database. If Redis has lost their entries, they will not be
  // delivered again, so keep them.
  if (reason != RecorderPauseReason::kRedisUnavailable && !refused) unindexed = {};
  // The connection or the descriptors may be broken for good, so reopen them.
  if (reason == RecorderPauseReason::kRedisUnavailable || refused) in_session = has_lease = false;
  if (refused) {  // the jobs belong to another recorder now
    erasure_worker.clear();
    merge_worker.clear();
    fanout_worker.clear();
  }
  if (reason == RecorderPauseReason::kIndexError) {
    index.reset();
  } else if (reason != RecorderPauseReason::kIndexLocked &&
             reason != RecorderPauseReason::kRedisUnavailable) {
    database.reset();
    index.reset();  // a rebuild has read the old database
  }
  if (report.state.load() != RecorderState::kPaused) report.paused_since.store(unix_now());
  if (report.state.exchange(RecorderState::kPaused) != RecorderState::kPaused ||
      report.reason.load() != reason)
    log::warning("recorder_paused", {{"reason", std::string(error.reason)}, {"detail", error.detail}});
  report.reason.store(reason);
  if (reason == RecorderPauseReason::kRedisUnavailable) return;
  if (has_lease)
    (void)acknowledge(EntryBatch());  // resumes when the cause has been fixed
  else if (const auto backlog = streams.backlog())
    publish_lag(*backlog);
}

void Recorder::Impl::on_recovered() {
  const RecorderState before = report.state.load();
  if (before == RecorderState::kRunning) return;
  report.reason.store(RecorderPauseReason::kNone);
  report.paused_since.store(0);
  report.state.store(RecorderState::kRunning);
  log::notice(before == RecorderState::kPaused ? "recorder_resumed" : "recorder_started",
              {{"items", std::to_string(report.items.load())}});
}

}  // namespace freshet::recorder
