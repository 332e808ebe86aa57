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

}  // namespace

Pusher::Pusher(const Settings& settings, redis::Endpoint endpoint)
    : redis_(std::move(endpoint), kRedisTimeout, redis::kAllScripts),
      keys_(settings.redis.key_prefix),
      waterfall_(settings.waterfall) {}

void Pusher::add(std::vector<Fanout> fanouts) {
  for (Fanout& each : fanouts) {
    const auto at = std::find_if(waiting_.begin(), waiting_.end(),
                                 [&](const Fanout& other) { return !below(other.entry, each.entry); });
    if (at != waiting_.end() && at->entry == each.entry) continue;
    if (at == waiting_.begin()) progress_.reset();
    waiting_.insert(at, std::move(each));
  }
}

void Pusher::finished() {
  waiting_.erase(waiting_.begin());
  progress_.reset();
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
  progress_.reset();
  return is_final(over.error()) ? give_up(over.error()) : over;
}

Result<bool> Pusher::advance() {
  if (waterfall_.follow_channel.empty()) return fail(ErrorCode::kInternal, "no_follow_channel");
  if (!progress_) {
    auto over = begin();
    if (!over || *over) return over;
  }
  FRESHET_TRY(followers, next_followers());
  const bool last = followers->size() < chunk();
  return push(*followers, last);
}

Result<bool> Pusher::begin() {
  const Fanout& job = waiting_.front();
  Pipeline command;
  command.add("HMGET", keys_.job(job.job), "state", "cursor", "done", "total", "failed");
  command.add("ZCOUNT", keys_.readers_of(job.author.view()), "(0", job.upto);
  FRESHET_TRY(found, redis_.call_all(command));
  const redis::Reply& was = found->front();
  if (is_over(redis::text_at(was, 0))) return true;
  progress_ = Progress();
  Progress& progress = *progress_;
  if (!redis::text_at(was, 1).empty()) progress.cursor = redis::text_at(was, 1);
  progress.done = redis::parse_or_zero<std::int64_t>(redis::text_at(was, 2));
  progress.total =
      redis::parse<std::int64_t>(redis::text_at(was, 3)).value_or((*found)[1].integer().value_or(0));
  progress.failed = redis::parse_or_zero<std::int64_t>(redis::text_at(was, 4));
  return false;
}

Result<std::vector<Pusher::Follower>> Pusher::next_followers() {
  const Fanout& job = waiting_.front();
  Pipeline command;
  command.add("ZRANGEBYSCORE", keys_.readers_of(job.author.view()), "(" + progress_->cursor, job.upto,
              "WITHSCORES", "LIMIT", 0, chunk());
  FRESHET_TRY(found, redis_.call_all(command));
  const redis::Reply& pairs = found->front();
  std::vector<Follower> out;
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2)
    out.push_back({std::string(redis::text_at(pairs, i)), std::string(redis::text_at(pairs, i + 1))});
  return out;
}

Result<bool> Pusher::push(const std::vector<Follower>& followers, bool last) {
  const Fanout& job = waiting_.front();
  Pipeline command;
  command.script(scripts::kFanoutChunk);
  command.key(keys_.job(job.job)).key(keys_.readers_of(job.author.view()));
  for (const Follower& each : followers) command.key(timeline_of(each));
  command.arg(progress_->cursor).arg(followers.empty() ? progress_->cursor : followers.back().score);
  command.arg(last ? 1 : 0).arg(job.upto).arg(waterfall_.max_items).arg(waterfall_.ttl.count());
  command.arg(redis::kJobTtl.count()).arg(job.items.size());
  for (const ItemId& each : job.items) command.arg(each.view());
  for (const Follower& each : followers) command.arg(each.reader).arg(each.score);
  FRESHET_TRY(done, redis_.call_all(command));
  progress_->cursor = redis::text_at(done->front(), 1);
  return is_over(redis::text_at(done->front(), 0));
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
