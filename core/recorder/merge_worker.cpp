#include "core/recorder/merge_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
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
  bool post(redis::Pipeline, std::vector<redis::SpoolRecord>, OnReplies) override { return false; }
  Result<void> spool(const redis::SpoolRecord&) override {
    return fail(ErrorCode::kUnavailable, "spool_full");
  }
};

std::string no_id() { return {}; }

bool contains(const std::vector<MergeJob>& jobs, const MergeJob& job) {
  return std::ranges::any_of(jobs, [&](const MergeJob& each) { return each.entry == job.entry; });
}

// The entries of a merge are few, and a merge that waits for room would hold up the stream. Follows
// beyond waterfall.max_follows would be lost.
Settings without_limits(Settings settings) {
  settings.recorder.stream_max_len = std::numeric_limits<std::int64_t>::max() / 2;
  settings.timeline.max_follows = std::numeric_limits<int>::max();
  return settings;
}

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
      follows_(redis_, without_limits(settings_), keys_, no_id) {}

void MergeWorker::add(std::vector<MergeJob> merges) {
  for (MergeJob& each : merges) {
    const bool known = std::ranges::any_of(
        pending_, [&](const PendingJob& other) { return other.merge.entry == each.entry; });
    if (!known) pending_.push_back({std::move(each), Clock::now()});
  }
}

bool MergeWorker::needs_read() const {
  return was_interrupted_ || std::ranges::any_of(pending_, [now = Clock::now()](const PendingJob& each) {
           const bool waits = !each.merged_once && !each.erasures_up_to.empty();
           return (waits || !each.drain_target.empty()) && now >= each.retry_at;
         });
}

Result<std::vector<MergeJob>> MergeWorker::run(database::Database& database, Streams& streams,
                                               const IsBeingErased& is_being_erased,
                                               const std::atomic<bool>& stop, Clock::time_point now) {
  const Clock::time_point deadline = Clock::now() + kMaxRunTime;
  was_interrupted_ = false;
  std::vector<MergeJob> done;
  for (PendingJob& each : pending_) {
    if (now < each.retry_at) continue;
    was_interrupted_ = stop.load() || Clock::now() >= deadline;
    if (was_interrupted_) break;
    FRESHET_TRY(is_done, advance(each, database, streams, is_being_erased, now));
    if (*is_done) done.push_back(each.merge);
  }
  if (!done.empty()) log::notice("readers_merged", {{"jobs", std::to_string(done.size())}});
  return done;
}

// Returns whether the job is done.
Result<bool> MergeWorker::advance(PendingJob& job, database::Database& database, Streams& streams,
                                  const IsBeingErased& is_being_erased, Clock::time_point now) {
  const auto move = [&]() -> Result<bool> {
    database_failed_ = false;
    Result<bool> is_void = find_erasure(job.merge, is_being_erased);
    Result<void> moved = is_void ? Result<void>() : tl::unexpected(is_void.error());
    job.is_void = is_void && *is_void;
    if (moved && !job.is_void) moved = merge(job.merge, database);
    if (moved) {
      job.failing_since.reset();
      return true;
    }
    if (database_failed_) return tl::unexpected(moved.error());
    job.retry_at = now + kRetryInterval;
    const bool is_first = !job.failing_since;
    if (is_first) job.failing_since = now;
    job.has_failed = now >= *job.failing_since + kMaxRetryTime;
    if (job.has_failed || is_first)
      log::warning(job.has_failed ? "merge_failed" : "merge_postponed",
                   {{"job", job.merge.job_id},
                    {"reason", std::string(moved.error().reason)},
                    {"detail", moved.error().detail}});
    return false;
  };
  if (!job.merged_once) {
    FRESHET_TRY(has_read, has_read_erasures(job, streams));
    if (!*has_read) return false;
    FRESHET_TRY(moved, move());
    if (job.is_void || job.has_failed) return true;
    if (!*moved) return false;
    job.merged_once = true;
  }
  if (now < job.since + settle_time_) return false;
  if (job.drain_target.empty()) {
    FRESHET_TRY(last_ids, streams.last_generated_ids());
    job.drain_target = std::move((*last_ids)[job.merge.entry.stream]);
    return false;
  }
  if (!streams.is_delivered({job.merge.entry.stream, job.drain_target})) return false;
  FRESHET_TRY(moved, move());
  return *moved || job.has_failed;
}

// Returns whether every erasure of the target that was requested before the merge has been read. In
// a cluster it may be in another stream than the merge.
Result<bool> MergeWorker::has_read_erasures(PendingJob& job, Streams& streams) const {
  const unsigned stream = keys_.partition_of(job.merge.to.view());
  if (stream == job.merge.entry.stream) return true;
  if (job.erasures_up_to.empty()) {
    FRESHET_TRY(last_ids, streams.last_generated_ids());
    job.erasures_up_to = std::move((*last_ids)[stream]);
  }
  return streams.is_delivered({stream, job.erasures_up_to});
}

// Returns true if the source or the target is to be erased or was erased after the merge was
// requested: data to be erased must not escape to the target, and nothing may reach an erased one.
Result<bool> MergeWorker::find_erasure(const MergeJob& job, const IsBeingErased& is_being_erased) {
  if (is_being_erased(job.from) || is_being_erased(job.to)) return true;
  if (!pseudonyms_.erasure) return false;
  redis::Pipeline reads;
  for (const ReaderId& reader : {job.from, job.to})
    reads.add("GET", keys_.tombstone(pseudonyms_.erasure(reader)));
  FRESHET_TRY(tombstones, redis_.call_all(reads));
  const seconds requested_at{redis::to_int(job.entry.id.substr(0, job.entry.id.find('-'))) / 1000};
  return std::ranges::any_of(*tombstones, [&](const redis::Reply& each) {
    return !each.is_nil() && seconds{redis::to_int(each.text())} >= requested_at;
  });
}

Result<void> MergeWorker::merge(const MergeJob& job, database::Database& database) {
  const ReaderId &from = job.from, &to = job.to;
  if (from == to) return {};
  if (pseudonyms_.erasure) {
    if (auto ok = redirect(job); !ok) return ok;
  }
  FRESHET_TRY(views, redis::run_sync(readers_.merge_views(from, to)));
  FRESHET_TRY(records, redis::run_sync(readers::copy_records(redis_, settings_, keys_, from, to)));
  FRESHET_TRY(timeline_items, move_timelines(job));
  FRESHET_TRY(rows, move_rows(job, records->dismissals, database));
  // After the rows, which keep the times of the follows.
  FRESHET_TRY(follows, move_follows(job));
  if (auto ok = add_seen_names(job); !ok) return ok;
  if (auto ok = move_contributions(job); !ok) return ok;
  FRESHET_TRY(pages, unacknowledged_pages(from));

  const std::array<std::int64_t, readers::kMovedKinds.size()> moved{
      *views, std::ssize(records->interactions), std::ssize(records->dismissals), *timeline_items, *follows,
      *rows};
  redis::Pipeline counts;
  for (std::size_t i = 0; i < moved.size(); ++i)
    counts.add("HINCRBY", keys_.job(job.job_id), readers::kMovedKinds[i], moved[i]);
  counts.add("HSET", keys_.job(job.job_id), "state", "running");
  counts.add("EXPIRE", keys_.job(job.job_id), redis::kJobTtl.count());
  // The target's buffer may hold what the source has seen.
  counts.script(scripts::kFeedExternal).key(keys_.feed_state(to.view())).arg(redis::kPendingTtl.count());
  for (const std::string& page : *pages) counts.arg(page);
  if (auto ok = redis_.call_all(counts); !ok) return tl::unexpected(ok.error());

  if (auto ok = redis::run_sync(readers::remove_records(redis_, keys_, from, *records)); !ok) return ok;
  redis::Pipeline cleanup;
  for (const std::string& key : {keys_.feed_cache(from.view()), keys_.feed_state(from.view()),
                                 keys_.reader_event_ids(from.view()), keys_.merged_names(from.view())})
    cleanup.add("UNLINK", key);
  // The marks of cleared histories.
  cleanup.add("HDEL", keys_.view_times(from.view()), "t", "r");
  for (const std::string& channel : settings_.timeline.channels) {
    cleanup.add("ZREM", keys_.active_readers(channel), from.view());
    cleanup.add("ZREMRANGEBYSCORE", keys_.timeline(channel, from.view()), "-inf", "(0");  // marks of the key
  }
  if (auto ok = redis_.call_all(cleanup); !ok) return tl::unexpected(ok.error());
  return {};
}

// Leads the source's late events to the target. If the target was merged into the source before,
// directly or through others, that redirect ends.
Result<void> MergeWorker::redirect(const MergeJob& job) {
  redis::Pipeline writes;
  writes.add("SET", keys_.merged_into(pseudonyms_.erasure(job.from)), job.to.view(), "EX",
             settings_.spool.max_age.count());
  ReaderId reader = job.to;
  for (int merges = 0; merges < readers::kMaxMerges; ++merges) {
    redis::Pipeline read;
    const std::string key = keys_.merged_into(pseudonyms_.erasure(reader));
    read.add("GET", key);
    FRESHET_TRY(target, redis_.call_all(read));
    if (target->front().is_nil()) break;
    reader = ReaderId::trusted(std::string(target->front().text()));
    if (reader != job.from) continue;
    writes.add("UNLINK", key);
    break;
  }
  if (auto ok = redis_.call_all(writes); !ok) return tl::unexpected(ok.error());
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
    if ((*pushed)[0][1].integer() != 0) {  // the target's key is not a timeline; the items stay
      log::warning("timeline_not_merged",
                   {{"job", job.job_id}, {"error", std::string(redis::string_at((*pushed)[0], 2))}});
      continue;
    }
    moved += (*pushed)[0][0].integer().value_or(0);
    removal.command(2 + items.size()).arg("ZREM").arg(source);
    for (const std::string_view item : items) removal.arg(item);
    if (auto ok = redis_.call_all(removal); !ok) return tl::unexpected(ok.error());
  }
  return moved;
}

Result<std::int64_t> MergeWorker::move_follows(const MergeJob& job) {
  if (is_anonymous_reader(job.from)) return 0;
  FRESHET_TRY(authors, redis::run_sync(follows_.followed_authors(job.from)));
  for (const AuthorId& each : *authors) {
    if (auto ok = redis::run_sync(follows_.follow(job.to, each)); !ok) return tl::unexpected(ok.error());
    // Before unfollow(): a restart finds only the authors who are still followed.
    redis::Pipeline removal;
    removal.add("ZREM", keys_.followers(each.view()), job.from.view());
    if (auto ok = redis_.call_all(removal); !ok) return tl::unexpected(ok.error());
    if (auto ok = redis::run_sync(follows_.unfollow(job.from, each)); !ok) return tl::unexpected(ok.error());
  }
  return std::ssize(*authors);
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

// A revert of the target then finds what the source contributed to counters, and an erasure deletes
// it. The batch is named by its contents, so the same contributions are not added twice. A
// contribution whose revert was interrupted is not moved, since it may have been subtracted.
Result<void> MergeWorker::move_contributions(const MergeJob& job) {
  if (!pseudonyms_.visitor) return {};
  constexpr std::size_t kItemsPerCall = 1000;
  const std::string source = keys_.contributions(pseudonyms_.visitor(job.from)),
                    target = keys_.contributions(pseudonyms_.visitor(job.to));
  redis::Pipeline read, writes;
  read.add("HGETALL", source);
  FRESHET_TRY(replies, redis_.call_all(read));
  const redis::Reply& fields = replies->front();
  std::string_view network;
  std::vector<std::pair<std::string_view, std::string_view>> items;
  for (std::size_t i = 0; i + 1 < fields.size(); i += 2) {
    const std::string_view field = redis::string_at(fields, i), value = redis::string_at(fields, i + 1);
    if (field == "network") network = value;
    if (field.starts_with("a:")) items.emplace_back(field.substr(2), value);
  }
  std::ranges::sort(items);
  for (std::size_t from = 0; from < items.size(); from += kItemsPerCall) {
    const auto part = std::span(items).subspan(from, std::min(kItemsPerCall, items.size() - from));
    std::string contents;
    for (const auto& [item, contribution] : part) contents.append(item).append(contribution);
    writes.script(scripts::kContributions).key(target).arg(settings_.limits.contribution_ttl.count());
    writes.arg(fmt::format("{:016x}", std::hash<std::string>{}(contents)).substr(0, 8));
    writes.arg(network).arg(part.size());
    for (const auto& [item, contribution] : part) writes.arg(item).arg(contribution);
  }
  writes.barrier().add("UNLINK", source);
  if (auto ok = redis_.call_all(writes); !ok) return tl::unexpected(ok.error());
  return {};
}

// The source's feed pages whose impressions are not recorded, usually because a worker was killed
// (core/feed/parts/feed_state.lua). The target's next request records them.
Result<std::vector<std::string>> MergeWorker::unacknowledged_pages(const ReaderId& from) {
  redis::Pipeline read;
  read.add("HMGET", keys_.feed_state(from.view()), "0", "1", "2", "3", "late");
  FRESHET_TRY(fields, redis_.call_all(read));
  std::vector<std::string> out;
  for (std::size_t i = 0; i < fields->front().size(); ++i) {
    for (const std::string_view page : redis::split_words(redis::string_at(fields->front(), i), '\n')) {
      if (page.starts_with('0')) out.emplace_back(page);
    }
  }
  return out;
}

// An anonymous reader has no rows, but the target's dismissals are recorded.
Result<std::int64_t> MergeWorker::move_rows(const MergeJob& job,
                                            const std::vector<readers::DismissalRecord>& dismissals,
                                            database::Database& database) {
  database_failed_ = true;
  if (auto ok = database.begin(); !ok) return tl::unexpected(ok.error());
  auto rows = database.readers().move(job.from, job.to);
  Result<void> written = rows ? Result<void>() : tl::unexpected(rows.error());
  for (const readers::DismissalRecord& each : dismissals) {
    if (written) written = database.readers().put_dismissal(each.dismissal, each.at);
  }
  // An erasure of the target then also covers backups that still have the source. They have no
  // anonymous reader.
  if (written && pseudonyms_.erasure && !is_anonymous_reader(job.from))
    written = database.put_merge({pseudonyms_.erasure(job.from), pseudonyms_.erasure(job.to), wall_now()});
  if (written) written = database.commit();
  if (!written) {
    database.rollback();
    return tl::unexpected(written.error());
  }
  database_failed_ = false;
  return *rows;
}

redis::Pipeline MergeWorker::completion_commands(const std::vector<MergeJob>& done) const {
  redis::Pipeline out;
  for (const PendingJob& each : pending_) {
    if (!contains(done, each.merge)) continue;
    out.add("HSET", keys_.job(each.merge.job_id), "state", each.has_failed ? "failed" : "done", "done", 1,
            "failed", each.has_failed ? 1 : 0);
    if (pseudonyms_.erasure && !each.has_failed)
      out.add("UNLINK", keys_.merge_guard(pseudonyms_.erasure(each.merge.from)));
  }
  return out;
}

void MergeWorker::remove_finished(const std::vector<MergeJob>& done) {
  std::erase_if(pending_, [&](const PendingJob& each) { return contains(done, each.merge); });
}

}  // namespace freshet::recorder
