#include "core/recorder/fanout.h"

#include <algorithm>
#include <utility>

#include "core/base/log.h"
#include "core/recorder/blocking.h"
#include "core/recorder/stream.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"
#include "core/timeline/follow_store.h"

namespace freshet::recorder {
namespace {

using redis::Pipeline;

bool is_over(std::string_view state) { return state == "done" || state == "failed"; }

// What no waiting cures: a key of another type, a script that is wrong.
bool is_final(const Error& error) { return error.code == ErrorCode::kInternal; }

// A job's own number, below 2^52, of its entry: those of jobs that follow each other within half a
// year differ.
std::string number_of(const EntryId& entry) {
  constexpr std::uint64_t kSequences = 4096, kMost = std::uint64_t{1} << 52U;
  const std::size_t dash = entry.id.find('-');
  const auto ms = redis::parse_or_zero<std::uint64_t>(std::string_view(entry.id).substr(0, dash));
  const auto sequence =
      dash == std::string::npos
          ? 0
          : redis::parse_or_zero<std::uint64_t>(std::string_view(entry.id).substr(dash + 1));
  const std::uint64_t in_stream = ms * kSequences + sequence % kSequences;
  return std::to_string((in_stream * redis::kMaxPartitions + entry.stream) % kMost);
}

// Before, or the same.
bool comes_no_later(const EntryId& a, const EntryId& b) {
  return below(a.id, b.id) || (a.id == b.id && a.stream <= b.stream);
}

}  // namespace

Pusher::Pusher(const Settings& settings, redis::Endpoint endpoint)
    : redis_(std::move(endpoint), kRedisTimeout, redis::kAllScripts),
      keys_(settings.redis),
      waterfall_(settings.timeline) {}

void Pusher::add(std::vector<Fanout> fanouts) {
  for (Fanout& each : fanouts) {
    const auto at = std::find_if(waiting_.begin(), waiting_.end(), [&](const Fanout& other) {
      return comes_no_later(each.entry, other.entry);
    });
    if (at != waiting_.end() && at->entry == each.entry) continue;
    if (at == waiting_.begin()) cursor_ = kBegin;
    waiting_.insert(at, std::move(each));
  }
}

void Pusher::finished() {
  waiting_.erase(waiting_.begin());
  cursor_ = kBegin;
}

std::size_t Pusher::chunk() const {
  return std::clamp<std::size_t>(kChunkPushes / waiting_.front().items.size(), 1, kChunkReaders);
}

std::string Pusher::timeline_of(const Follower& follower) const {
  return keys_.timeline(waterfall_.follow_channel, follower.reader);
}

Result<bool> Pusher::step() {
  auto over = advance();
  if (over) return over;
  return is_final(over.error()) ? give_up(over.error()) : over;
}

Result<bool> Pusher::advance() {
  if (waterfall_.follow_channel.empty()) return fail(ErrorCode::kInternal, "no_follow_channel");
  FRESHET_TRY(found, look());
  if (found->over) return true;
  if (found->cursor != cursor_) {
    cursor_ = found->cursor;
    return false;
  }
  return push(*found);
}

Result<Pusher::Look> Pusher::look() {
  const Fanout& job = waiting_.front();
  const std::string readers = keys_.followers(job.author.view());
  Pipeline command;
  command.add("HMGET", keys_.job(job.job), "state", "cursor", "done", "total", "failed");
  command.add("ZCOUNT", readers, "(0", job.upto);
  command.add("ZRANGEBYSCORE", readers, "(" + cursor_, job.upto, "WITHSCORES", "LIMIT", 0, chunk());
  FRESHET_TRY(found, redis_.call_all(command));
  const redis::Reply &was = (*found)[0], &pairs = (*found)[2];
  const auto number = [&was](std::size_t i) { return redis::parse<std::int64_t>(redis::string_at(was, i)); };
  Look out;
  out.over = is_over(redis::string_at(was, 0));
  out.cursor = redis::string_at(was, 1).empty() ? kBegin : redis::string_at(was, 1);
  out.done = number(2).value_or(0);
  out.total = number(3).value_or((*found)[1].integer().value_or(0));
  out.failed = number(4).value_or(0);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2)
    out.followers.push_back(
        {std::string(redis::string_at(pairs, i)), std::string(redis::string_at(pairs, i + 1))});
  return out;
}

Result<bool> Pusher::push(const Look& from) {
  const Fanout& job = waiting_.front();
  const bool last = from.followers.size() < chunk();
  std::int64_t done = from.done, failed = from.failed;
  Pipeline tell;
  if (!from.followers.empty()) {
    const std::string readers = keys_.followers(job.author.view());
    std::vector<std::string> timelines;
    for (const Follower& each : from.followers) timelines.push_back(timeline_of(each));
    std::vector<std::string_view> items;
    for (const ItemId& each : job.items) items.push_back(each.view());
    Pipeline command;
    timeline::append_timeline_pushes(command, keys_, waterfall_, timelines, items, number_of(job.entry));
    command.barrier().command(2 + from.followers.size()).arg("ZMSCORE").arg(readers);
    for (const Follower& each : from.followers) command.arg(each.reader);
    FRESHET_TRY(pushed, redis_.call_all(command));
    const redis::Reply& following = pushed->back();
    for (std::size_t i = 0; i + 1 < pushed->size(); ++i) failed += (*pushed)[i][1].integer().value_or(0);
    done += static_cast<std::int64_t>(from.followers.size()) - (failed - from.failed);
    for (std::size_t i = 0; i < timelines.size(); ++i) {
      if (!following[i].is_nil()) continue;
      --done;
      tell.command(2 + items.size()).arg("ZREM").arg(timelines[i]);
      for (const std::string_view item : items) tell.arg(item);
    }
    tell.barrier();
  }
  const std::string cursor = from.followers.empty() ? cursor_ : from.followers.back().score;
  const std::int64_t total = last ? done + failed : from.total;  // the others left
  tell.add("HSET", keys_.job(job.job), "state", last ? "done" : "running", "cursor", cursor, "done", done,
           "total", total, "failed", failed);
  tell.add("EXPIRE", keys_.job(job.job), redis::kJobTtl.count());
  FRESHET_TRY(told, redis_.call_all(tell));
  cursor_ = cursor;
  return last;
}

// Those behind it shall not wait for ever.
Result<bool> Pusher::give_up(const Error& why) {
  const Fanout& job = waiting_.front();
  log::warning("fanout_failed", {{"job", job.job}, {"why", std::string(why.reason)}, {"detail", why.detail}});
  Pipeline command;
  command.add("HSET", keys_.job(job.job), "state", "failed");
  command.add("EXPIRE", keys_.job(job.job), redis::kJobTtl.count());
  const auto told = redis_.call_all(command);
  if (!told && !is_final(told.error())) return tl::unexpected(told.error());
  return true;
}

}  // namespace freshet::recorder
