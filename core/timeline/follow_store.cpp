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

// What stands in an outbox, as the reply of ZRANGEBYSCORE.
std::vector<std::string_view> ids_in(const redis::Reply& reply) {
  std::vector<std::string_view> out;
  out.reserve(reply.size());
  for (std::size_t i = 0; i < reply.size(); ++i) out.push_back(redis::text_at(reply, i));
  return out;
}

std::string joined(const std::vector<std::string_view>& items) {
  std::string out;
  for (const std::string_view each : items) out.append(out.empty() ? "" : " ").append(each);
  return out;
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
  if (keys_.hash_tags()) {
    auto followed = co_await follow_with_tags(reader, author);
    co_return followed;
  }
  Pipeline command;
  command.script(scripts::kFollowAdd, 6, 7);
  append_keys_of_both(command, reader, author);
  command.arg(reader.view()).arg(author.view()).arg(waterfall_.max_follows).arg(waterfall_.backfill);
  command.arg(waterfall_.max_items).arg(waterfall_.ttl.count()).arg(stream_max_);
  FRESHET_CO_TRY(done, co_await all_of(command));
  co_return Result<void>();
}

Task<Result<void>> RedisFollowStore::follow_with_tags(const ReaderId& reader, const AuthorId& author) {
  const std::string authors = keys_.authors_of(reader.view());
  Pipeline asking;
  asking.add("XLEN", keys_.stream()).add("TIME").add("ZCARD", authors).add("ZSCORE", authors, author.view());
  asking.add("ZSCORE", keys_.readers_of(author.view()), reader.view());
  asking.add("ZSCORE", keys_.pull_outbox(author.view()), ":");
  FRESHET_CO_TRY(found, co_await all_of(asking));
  const bool follows = !(*found)[3].is_nil();
  if (follows && !(*found)[4].is_nil()) co_return Result<void>();
  if (!follows && (*found)[2].integer().value_or(0) >= waterfall_.max_follows)
    co_return tl::unexpected(too_many_follows());
  if ((*found)[0].integer().value_or(0) >= stream_max_) co_return tl::unexpected(redis::stream_full());

  Pipeline joining;
  joining.add("XADD", keys_.stream(), "*", "op", readers::kOpFollow, "reader", reader.view(), "author",
              author.view(), "at", redis::text_at((*found)[1], 0));
  append_push(joining, keys_.readers_of(author.view()), std::nullopt, std::nullopt, {reader.view()});
  joining.add("ZREVRANGEBYSCORE", keys_.outbox(author.view()), "+inf", "(0", "LIMIT", 0, waterfall_.backfill);
  FRESHET_CO_TRY(joined_now, co_await all_of(joining));

  auto newest = ids_in((*joined_now)[2]);
  std::reverse(newest.begin(), newest.end());
  const std::int64_t last_pulled = -redis::whole((*found)[5].string().value_or(""));
  Pipeline noting;
  if (!newest.empty()) append_push(noting, timeline_of(reader), waterfall_.max_items, waterfall_.ttl, newest);
  noting.add("ZADD", authors, "NX", last_pulled, author.view());
  FRESHET_CO_TRY(noted, co_await all_of(noting));
  co_return Result<void>();
}

Task<Result<void>> RedisFollowStore::unfollow(const ReaderId& reader, const AuthorId& author) {
  if (keys_.hash_tags()) {
    auto left = co_await unfollow_with_tags(reader, author);
    co_return left;
  }
  Pipeline command;
  command.script(scripts::kFollowRemove, 6, 3);
  append_keys_of_both(command, reader, author);
  command.arg(reader.view()).arg(author.view()).arg(stream_max_);
  FRESHET_CO_TRY(done, co_await all_of(command));
  co_return Result<void>();
}

Task<Result<void>> RedisFollowStore::unfollow_with_tags(const ReaderId& reader, const AuthorId& author) {
  Pipeline asking;
  asking.add("XLEN", keys_.stream());
  FRESHET_CO_TRY(length, co_await all_of(asking));
  if (length->front().integer().value_or(0) >= stream_max_) co_return tl::unexpected(redis::stream_full());
  Pipeline leaving;
  leaving.add("XADD", keys_.stream(), "*", "op", readers::kOpUnfollow, "reader", reader.view(), "author",
              author.view());
  leaving.add("ZREM", keys_.readers_of(author.view()), reader.view());
  leaving.add("ZREM", keys_.authors_of(reader.view()), author.view());
  for (const auto& outbox : {keys_.outbox(author.view()), keys_.pull_outbox(author.view())})
    leaving.add("ZRANGEBYSCORE", outbox, "(0", "+inf");
  FRESHET_CO_TRY(left, co_await all_of(leaving));
  Pipeline cleaning;
  for (const std::size_t outbox : {std::size_t{3}, std::size_t{4}}) {
    const auto items = ids_in((*left)[outbox]);
    if (items.empty()) continue;
    cleaning.command(2 + items.size()).arg("ZREM").arg(timeline_of(reader));
    for (const std::string_view each : items) cleaning.arg(each);
  }
  if (cleaning.empty()) co_return Result<void>();
  FRESHET_CO_TRY(cleaned, co_await all_of(cleaning));
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

void RedisFollowStore::append_job(Pipeline& out, const std::string& job, std::int64_t followers) const {
  out.add("HSET", keys_.job(job), "state", followers > 0 ? "queued" : "done", "done", 0, "total", followers,
          "failed", 0);
  out.add("EXPIRE", keys_.job(job), redis::kJobTtl.count());
}

Task<Result<std::string>> RedisFollowStore::publish(const AuthorId& author,
                                                    const std::vector<ItemId>& items) {
  std::string job = new_job_id_();
  if (keys_.hash_tags()) {
    FRESHET_CO_TRY(published, co_await publish_with_tags(author, items, job));
    co_return job;
  }
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

Task<Result<void>> RedisFollowStore::publish_with_tags(const AuthorId& author,
                                                       const std::vector<ItemId>& items,
                                                       const std::string& job) {
  Pipeline asking;
  asking.add("XLEN", keys_.stream());
  FRESHET_CO_TRY(length, co_await all_of(asking));
  if (length->front().integer().value_or(0) >= stream_max_) co_return tl::unexpected(redis::stream_full());

  std::vector<std::string_view> ids;
  ids.reserve(items.size());
  for (const ItemId& each : items) ids.push_back(each.view());
  const std::string readers = keys_.readers_of(author.view());
  Pipeline publishing;
  append_push(publishing, keys_.outbox(author.view()), fanout_.outbox, std::nullopt, ids);
  publishing.add("ZCOUNT", readers, "(0", "+inf").add("ZSCORE", readers, ":");
  FRESHET_CO_TRY(published, co_await all_of(publishing));
  const std::int64_t followers = (*published)[1].integer().value_or(0);
  if (followers > fanout_.max_push) {
    auto pulled = co_await publish_to_pull(author, ids, job);
    co_return pulled;
  }
  Pipeline queueing;
  append_job(queueing, job, followers);
  if (followers > 0) {
    const std::int64_t upto = -redis::whole((*published)[2].string().value_or(""));
    queueing.add("XADD", keys_.stream(), "*", "op", readers::kOpFanout, "author", author.view(), "items",
                 joined(ids), "upto", upto, "job", job);
  }
  FRESHET_CO_TRY(queued, co_await all_of(queueing));
  co_return Result<void>();
}

Task<Result<void>> RedisFollowStore::publish_to_pull(const AuthorId& author,
                                                     const std::vector<std::string_view>& items,
                                                     const std::string& job) {
  Pipeline pushing;
  append_push(pushing, keys_.pull_outbox(author.view()), fanout_.outbox, std::nullopt, items);
  FRESHET_CO_TRY(pushed, co_await all_of(pushing));
  Pipeline telling;
  telling.add("ZADD", keys_.pulled(), "GT", redis::text_at(pushed->front(), 1), author.view());
  append_job(telling, job, 0);
  FRESHET_CO_TRY(told, co_await all_of(telling));
  co_return Result<void>();
}

}  // namespace freshet::timeline
