#include "core/recorder/fanout_worker.h"

#include <algorithm>
#include <utility>

#include "core/base/log.h"
#include "core/recorder/redis_timeout.h"
#include "core/recorder/stream.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"
#include "core/timeline/follow_store.h"

namespace freshet::recorder {
namespace {

using redis::Pipeline;

bool is_finished(std::string_view state) { return state == "done" || state == "failed"; }

// Errors that retrying cannot fix, such as a key of the wrong type or a broken script.
bool is_permanent(const Error& error) { return error.code == ErrorCode::kInternal; }

// A number for the job, below 2^52, computed from its entry. Jobs within half a year of each other
// have different numbers.
std::string job_number(const EntryId& entry) {
  constexpr std::uint64_t kSequences = 4096, kModulus = std::uint64_t{1} << 52U;
  const std::size_t dash = entry.id.find('-');
  const auto ms = redis::parse_or_zero<std::uint64_t>(std::string_view(entry.id).substr(0, dash));
  const auto sequence =
      dash == std::string::npos
          ? 0
          : redis::parse_or_zero<std::uint64_t>(std::string_view(entry.id).substr(dash + 1));
  const std::uint64_t in_stream = ms * kSequences + sequence % kSequences;
  return std::to_string((in_stream * redis::kMaxPartitions + entry.stream) % kModulus);
}

bool is_not_after(const EntryId& a, const EntryId& b) {
  return precedes(a.id, b.id) || (a.id == b.id && a.stream <= b.stream);
}

}  // namespace

FanoutWorker::FanoutWorker(const Settings& settings, redis::Endpoint endpoint)
    : redis_(std::move(endpoint), kRedisTimeout, redis::kAllScripts),
      keys_(settings.redis),
      timeline_settings_(settings.timeline) {}

void FanoutWorker::add(std::vector<FanoutJob> fanouts) {
  for (FanoutJob& each : fanouts) {
    const auto at = std::find_if(jobs_.begin(), jobs_.end(), [&](const FanoutJob& other) {
      return is_not_after(each.entry, other.entry);
    });
    if (at != jobs_.end() && at->entry == each.entry) continue;
    if (at == jobs_.begin()) cursor_ = kStartCursor;
    jobs_.insert(at, std::move(each));
  }
}

void FanoutWorker::remove_first() {
  jobs_.erase(jobs_.begin());
  cursor_ = kStartCursor;
}

std::size_t FanoutWorker::chunk_size() const {
  return std::clamp<std::size_t>(kMaxChunkPushes / jobs_.front().items.size(), 1, kMaxChunkReaders);
}

std::string FanoutWorker::timeline_key(const Follower& follower) const {
  return keys_.timeline(timeline_settings_.follow_channel, follower.reader);
}

Result<bool> FanoutWorker::step() {
  auto finished = advance();
  if (finished) return finished;
  return is_permanent(finished.error()) ? fail_job(finished.error()) : finished;
}

Result<bool> FanoutWorker::advance() {
  if (timeline_settings_.follow_channel.empty()) return fail(ErrorCode::kInternal, "no_follow_channel");
  FRESHET_TRY(found, read_progress());
  if (found->is_finished) return true;
  if (found->cursor != cursor_) {
    cursor_ = found->cursor;
    return false;
  }
  return push_chunk(*found);
}

Result<FanoutWorker::JobProgress> FanoutWorker::read_progress() {
  const FanoutJob& job = jobs_.front();
  const std::string readers = keys_.followers(job.author.view());
  Pipeline command;
  command.add("HMGET", keys_.job(job.job_id), "state", "cursor", "done", "total", "failed");
  command.add("ZCOUNT", readers, "(0", job.up_to_score);
  command.add("ZRANGEBYSCORE", readers, "(" + cursor_, job.up_to_score, "WITHSCORES", "LIMIT", 0,
              chunk_size());
  FRESHET_TRY(found, redis_.call_all(command));
  const redis::Reply &fields = (*found)[0], &pairs = (*found)[2];
  const auto number = [&fields](std::size_t i) {
    return redis::parse<std::int64_t>(redis::string_at(fields, i));
  };
  JobProgress out;
  out.is_finished = is_finished(redis::string_at(fields, 0));
  out.cursor = redis::string_at(fields, 1).empty() ? kStartCursor : redis::string_at(fields, 1);
  out.done = number(2).value_or(0);
  out.total = number(3).value_or((*found)[1].integer().value_or(0));
  out.failed = number(4).value_or(0);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2)
    out.followers.push_back(
        {std::string(redis::string_at(pairs, i)), std::string(redis::string_at(pairs, i + 1))});
  return out;
}

Result<bool> FanoutWorker::push_chunk(const JobProgress& progress) {
  const FanoutJob& job = jobs_.front();
  const bool last = progress.followers.size() < chunk_size();
  std::int64_t done = progress.done, failed = progress.failed;
  Pipeline updates;
  if (!progress.followers.empty()) {
    const std::string readers = keys_.followers(job.author.view());
    std::vector<std::string> timelines;
    for (const Follower& each : progress.followers) timelines.push_back(timeline_key(each));
    std::vector<std::string_view> items;
    for (const ItemId& each : job.items) items.push_back(each.view());
    Pipeline command;
    timeline::append_timeline_pushes(command, keys_, timeline_settings_, timelines, items,
                                     job_number(job.entry));
    command.barrier().command(2 + progress.followers.size()).arg("ZMSCORE").arg(readers);
    for (const Follower& each : progress.followers) command.arg(each.reader);
    FRESHET_TRY(pushed, redis_.call_all(command));
    const redis::Reply& following = pushed->back();
    for (std::size_t i = 0; i + 1 < pushed->size(); ++i) failed += (*pushed)[i][1].integer().value_or(0);
    done += static_cast<std::int64_t>(progress.followers.size()) - (failed - progress.failed);
    for (std::size_t i = 0; i < timelines.size(); ++i) {
      if (!following[i].is_nil()) continue;
      --done;
      timeline::append_withdrawal(updates, keys_, timeline_settings_, progress.followers[i].reader,
                                  job.author.view(), items);
    }
    updates.barrier();
  }
  const std::string cursor = progress.followers.empty() ? cursor_ : progress.followers.back().score;
  const std::int64_t total = last ? done + failed : progress.total;  // the others unfollowed
  updates.add("HSET", keys_.job(job.job_id), "state", last ? "done" : "running", "cursor", cursor, "done",
              done, "total", total, "failed", failed);
  updates.add("EXPIRE", keys_.job(job.job_id), redis::kJobTtl.count());
  FRESHET_TRY(saved, redis_.call_all(updates));
  cursor_ = cursor;
  return last;
}

// Fails the job, so that the following ones are not blocked forever.
Result<bool> FanoutWorker::fail_job(const Error& error) {
  const FanoutJob& job = jobs_.front();
  log::warning("fanout_failed",
               {{"job", job.job_id}, {"reason", std::string(error.reason)}, {"detail", error.detail}});
  Pipeline command;
  command.add("HSET", keys_.job(job.job_id), "state", "failed");
  command.add("EXPIRE", keys_.job(job.job_id), redis::kJobTtl.count());
  const auto saved = redis_.call_all(command);
  if (!saved && !is_permanent(saved.error())) return tl::unexpected(saved.error());
  return true;
}

}  // namespace freshet::recorder
