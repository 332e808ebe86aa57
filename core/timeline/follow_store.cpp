#include "core/timeline/follow_store.h"

#include <algorithm>

#include "core/readers/reader_entries.h"
#include "core/readers/reader_replies.h"
#include "core/redis/script_words.h"
#include "core/redis/scripts.h"

namespace freshet::timeline {
namespace {

using redis::Pipeline;

Error too_many_follows() {
  return {ErrorCode::kConflict, "too_many_follows", "author", "the reader follows as many authors as may be"};
}

Error error_of(const redis::Reply& reply) {
  return redis::says(reply.error(), redis::word::kTooManyFollows) ? too_many_follows()
                                                                  : readers::reader_error(reply);
}

}  // namespace

void append_push(Pipeline& out, const std::string& key, std::optional<std::int64_t> most,
                 std::optional<seconds> ttl, const std::vector<std::string_view>& ids) {
  out.script(scripts::kFollowPush, 1, 2 + ids.size()).arg(key);
  most ? out.arg(*most) : out.arg("");
  ttl ? out.arg(ttl->count()) : out.arg("");
  for (const std::string_view each : ids) out.arg(each);
}

RedisFollowStore::RedisFollowStore(redis::Redis& redis, const Settings& settings, redis::Keys keys,
                                   std::function<std::string()> new_job_id)
    : redis_(redis),
      waterfall_(settings.waterfall),
      fanout_(settings.fanout),
      stream_max_(settings.recorder.stream_max_len),
      keys_(std::move(keys)),
      new_job_id_(std::move(new_job_id)) {}

std::string RedisFollowStore::timeline_of(const ReaderId& reader) const {
  return keys_.timeline(waterfall_.follow_channel, reader.view());
}

Task<Result<redis::Replies>> RedisFollowStore::all_of(const Pipeline& commands) {
  FRESHET_CO_TRY(replies, co_await redis_.run(commands));
  for (const redis::Reply& each : *replies) {
    if (each.is_error()) co_return tl::unexpected(error_of(each));
  }
  co_return std::move(replies);
}

// The keys that follow_add.lua and follow_remove.lua begin with.
void RedisFollowStore::append_keys_of_both(Pipeline& out, const ReaderId& reader,
                                           const AuthorId& author) const {
  out.arg(keys_.authors_of(reader.view())).arg(keys_.readers_of(author.view()));
  out.arg(keys_.outbox(author.view())).arg(keys_.pull_outbox(author.view()));
  out.arg(timeline_of(reader)).arg(keys_.stream());
}

// --- following

Task<Result<void>> RedisFollowStore::follow(const ReaderId& reader, const AuthorId& author) {
  Pipeline command;
  command.script(scripts::kFollowAdd, 6, 7);
  append_keys_of_both(command, reader, author);
  command.arg(reader.view()).arg(author.view()).arg(waterfall_.max_follows).arg(waterfall_.backfill);
  command.arg(waterfall_.max_items).arg(waterfall_.ttl.count()).arg(stream_max_);
  FRESHET_CO_TRY(done, co_await all_of(command));
  co_return Result<void>();
}

Task<Result<void>> RedisFollowStore::unfollow(const ReaderId& reader, const AuthorId& author) {
  Pipeline command;
  command.script(scripts::kFollowRemove, 6, 3);
  append_keys_of_both(command, reader, author);
  command.arg(reader.view()).arg(author.view()).arg(stream_max_);
  FRESHET_CO_TRY(done, co_await all_of(command));
  co_return Result<void>();
}

Task<Result<std::vector<AuthorId>>> RedisFollowStore::authors_of(const ReaderId& reader) {
  Pipeline command;
  command.add("ZRANGE", keys_.authors_of(reader.view()), 0, -1);
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis_, command));
  std::vector<AuthorId> out;
  out.reserve(reply->size());
  for (std::size_t i = 0; i < reply->size(); ++i)
    out.push_back(AuthorId::trusted(std::string(redis::text_at(*reply, i))));
  std::sort(out.begin(), out.end());
  co_return out;
}

// --- publishing

Task<Result<std::string>> RedisFollowStore::publish(const AuthorId& author,
                                                    const std::vector<ItemId>& items) {
  std::string job = new_job_id_();
  Pipeline command;
  command.script(scripts::kFollowPublish, 6, 6 + items.size())
      .arg(keys_.outbox(author.view()))
      .arg(keys_.readers_of(author.view()))
      .arg(keys_.pull_outbox(author.view()))
      .arg(keys_.pulled())
      .arg(keys_.job(job))
      .arg(keys_.stream());
  command.arg(author.view()).arg(job).arg(fanout_.outbox).arg(fanout_.max_push).arg(stream_max_);
  command.arg(redis::kJobTtl.count());
  for (const ItemId& each : items) command.arg(each.view());
  FRESHET_CO_TRY(done, co_await all_of(command));
  co_return job;
}

}  // namespace freshet::timeline
