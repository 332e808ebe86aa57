#include "core/recorder/merge_worker.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "core/base/log.h"
#include "core/feed/seen_epoch.h"
#include "core/readers/reader_entries.h"
#include "core/readers/reader_merge.h"
#include "core/recorder/redis_timeout.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"

namespace freshet::recorder {
namespace {

class NoQueue final : public redis::WriteQueue {
 public:
  bool post(redis::Pipeline, std::vector<redis::SpoolRecord>) override { return false; }
  Result<void> spool(const redis::SpoolRecord&) override {
    return fail(ErrorCode::kUnavailable, "spool_full");
  }
};

std::string no_id() { return {}; }

}  // namespace

MergeWorker::MergeWorker(const Settings& settings, redis::Endpoint endpoint,
                         readers::ReaderPseudonyms pseudonyms, milliseconds settle)
    : redis_(std::move(endpoint), kRedisTimeout, redis::kAllScripts),
      settings_(settings),
      keys_(settings.redis),
      pseudonyms_(std::move(pseudonyms)),
      settle_time_(settle),
      no_queue_(std::make_unique<NoQueue>()),
      readers_(redis_, *no_queue_, settings_, keys_, no_id),
      follows_(redis_, settings_, keys_, no_id) {}

void MergeWorker::add(std::vector<MergeJob> merges) {
  for (MergeJob& each : merges) {
    const bool known = std::ranges::any_of(
        pending_, [&](const PendingJob& other) { return other.merge.entry == each.entry; });
    if (!known) pending_.push_back({std::move(each), Clock::now(), false, {}});
  }
}

bool MergeWorker::needs_read() const {
  return std::ranges::any_of(pending_, [](const PendingJob& each) { return !each.drain_target.empty(); });
}

Result<std::vector<MergeJob>> MergeWorker::run(database::Database& database, Streams& streams,
                                               Clock::time_point now) {
  std::vector<MergeJob> done;
  for (PendingJob& each : pending_) {
    if (!each.merged_once) {
      if (auto ok = merge(each.merge, database); !ok) return tl::unexpected(ok.error());
      each.merged_once = true;
    }
    if (now < each.since + settle_time_) continue;
    if (each.drain_target.empty()) {
      FRESHET_TRY(last_ids, streams.last_generated_ids());
      each.drain_target = std::move((*last_ids)[each.merge.entry.stream]);
      continue;
    }
    if (!streams.is_delivered({each.merge.entry.stream, each.drain_target})) continue;
    if (auto ok = merge(each.merge, database); !ok) return tl::unexpected(ok.error());
    done.push_back(each.merge);
  }
  if (!done.empty()) log::notice("readers_merged", {{"jobs", std::to_string(done.size())}});
  return done;
}

Result<void> MergeWorker::merge(const MergeJob& job, database::Database& database) {
  const ReaderId &from = job.from, &to = job.to;
  if (from == to) return {};
  if (pseudonyms_.erasure) {
    redis::Pipeline redirect;
    redirect.add("SET", keys_.merged_into(pseudonyms_.erasure(from)), to.view(), "EX",
                 settings_.spool.max_age.count());
    // Not the other way, if the target was once merged into the source.
    redirect.add("UNLINK", keys_.merged_into(pseudonyms_.erasure(to)));
    if (auto ok = redis_.call_all(redirect); !ok) return tl::unexpected(ok.error());
  }
  FRESHET_TRY(views, redis::run_sync(readers_.merge_views(from, to)));
  FRESHET_TRY(records, redis::run_sync(readers::copy_records(redis_, settings_, keys_, from, to)));
  FRESHET_TRY(timeline_items, move_timelines(job));
  FRESHET_TRY(follows, move_follows(job));
  if (auto ok = add_seen_names(job); !ok) return ok;
  FRESHET_TRY(rows, move_rows(job, records->dismissals, database));

  const std::array<std::int64_t, readers::kMovedKinds.size()> moved{
      *views, std::ssize(records->interactions), std::ssize(records->dismissals), *timeline_items, *follows,
      *rows};
  redis::Pipeline counts;
  for (std::size_t i = 0; i < moved.size(); ++i)
    counts.add("HINCRBY", keys_.job(job.job_id), readers::kMovedKinds[i], moved[i]);
  counts.add("HSET", keys_.job(job.job_id), "state", "running");
  counts.add("EXPIRE", keys_.job(job.job_id), redis::kJobTtl.count());
  // The target's buffer may hold what the source has seen.
  counts.script(scripts::kFeedExternal).key(keys_.feed_state(to.view()));
  if (auto ok = redis_.call_all(counts); !ok) return tl::unexpected(ok.error());

  if (auto ok = redis::run_sync(readers::remove_records(redis_, keys_, from, *records)); !ok) return ok;
  redis::Pipeline cleanup;
  for (const std::string& key : {keys_.feed_cache(from.view()), keys_.feed_state(from.view()),
                                 keys_.reader_event_ids(from.view()), keys_.merged_names(from.view())})
    cleanup.add("UNLINK", key);
  for (const std::string& channel : settings_.timeline.channels)
    cleanup.add("ZREM", keys_.active_readers(channel), from.view());
  if (auto ok = redis_.call_all(cleanup); !ok) return tl::unexpected(ok.error());
  return {};
}

// The items join the target's timelines at the head, in their order.
Result<std::int64_t> MergeWorker::move_timelines(const MergeJob& job) {
  if (is_anonymous_reader(job.from)) return 0;
  std::int64_t moved = 0;
  for (const std::string& channel : settings_.timeline.channels) {
    const std::string source = keys_.timeline(channel, job.from.view());
    redis::Pipeline read, push, removal;
    read.add("ZRANGEBYSCORE", source, "(0", "+inf");
    FRESHET_TRY(replies, redis_.call_all(read));
    const redis::Reply& members = replies->front();
    std::vector<std::string_view> items;
    for (std::size_t i = 0; i < members.size(); ++i) items.push_back(redis::string_at(members, i));
    if (items.empty()) continue;
    timeline::append_timeline_pushes(push, keys_, settings_.timeline,
                                     {keys_.timeline(channel, job.to.view())}, items, {});
    FRESHET_TRY(pushed, redis_.call_all(push));
    moved += (*pushed)[0][0].integer().value_or(0);
    removal.command(2 + items.size()).arg("ZREM").arg(source);
    for (const std::string_view item : items) removal.arg(item);
    if (auto ok = redis_.call_all(removal); !ok) return tl::unexpected(ok.error());
  }
  return moved;
}

// Follows beyond the target's limit are dropped.
Result<std::int64_t> MergeWorker::move_follows(const MergeJob& job) {
  if (is_anonymous_reader(job.from)) return 0;
  FRESHET_TRY(authors, redis::run_sync(follows_.followed_authors(job.from)));
  std::int64_t moved = 0;
  for (const AuthorId& each : *authors) {
    const auto followed = redis::run_sync(follows_.follow(job.to, each));
    if (!followed && followed.error().code != ErrorCode::kConflict) return tl::unexpected(followed.error());
    if (auto ok = redis::run_sync(follows_.unfollow(job.from, each)); !ok) return tl::unexpected(ok.error());
    moved += followed ? 1 : 0;
  }
  return moved;
}

// The source's name in the seen filter, and those of readers who were merged into it.
Result<void> MergeWorker::add_seen_names(const MergeJob& job) {
  redis::Pipeline reads, writes;
  reads.add("TIME").add("ZRANGE", keys_.merged_names(job.from.view()), 0, -1);
  if (pseudonyms_.erasure) reads.add("GET", keys_.seen_epoch(pseudonyms_.erasure(job.from)));
  FRESHET_TRY(replies, redis_.call_all(reads));
  const std::string_view now = redis::string_at((*replies)[0], 0);
  const std::int64_t epoch = pseudonyms_.erasure ? redis::to_int((*replies)[2].text()) : 0;
  const std::string names = keys_.merged_names(job.to.view());
  for (std::size_t i = 0; i < (*replies)[1].size(); ++i)
    writes.add("ZADD", names, now, redis::string_at((*replies)[1], i));
  writes.add("ZADD", names, now, feed::SeenEpochs::name(job.from, epoch).view());
  writes.add("ZREMRANGEBYRANK", names, 0, -redis::kMaxMergedNames - 1);
  writes.add("EXPIRE", names, redis::kPendingTtl.count());
  if (auto ok = redis_.call_all(writes); !ok) return tl::unexpected(ok.error());
  return {};
}

// An anonymous reader has no rows, but the target's dismissals are recorded.
Result<std::int64_t> MergeWorker::move_rows(const MergeJob& job,
                                            const std::vector<readers::DismissalRecord>& dismissals,
                                            database::Database& database) {
  if (auto ok = database.begin(); !ok) return tl::unexpected(ok.error());
  auto rows = database.readers().move(job.from, job.to);
  Result<void> written = rows ? Result<void>() : tl::unexpected(rows.error());
  for (const readers::DismissalRecord& each : dismissals) {
    if (written) written = database.readers().put_dismissal(each.dismissal, each.at);
  }
  if (written) written = database.commit();
  if (!written) {
    database.rollback();
    return tl::unexpected(written.error());
  }
  return *rows;
}

redis::Pipeline MergeWorker::completion_commands(const std::vector<MergeJob>& done) const {
  redis::Pipeline out;
  for (const MergeJob& each : done) out.add("HSET", keys_.job(each.job_id), "state", "done", "done", 1);
  return out;
}

void MergeWorker::remove_finished(const std::vector<MergeJob>& done) {
  std::erase_if(pending_, [&](const PendingJob& each) {
    return std::ranges::any_of(done, [&](const MergeJob& job) { return job.entry == each.merge.entry; });
  });
}

}  // namespace freshet::recorder
