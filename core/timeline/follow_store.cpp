#include "core/timeline/follow_store.h"

#include <algorithm>
#include <map>

#include "core/readers/reader_entries.h"
#include "core/redis/errors.h"
#include "core/redis/fields.h"
#include "core/redis/script_errors.h"
#include "core/redis/scripts.h"

namespace freshet::timeline {
namespace {

using redis::Pipeline;

Error too_many_follows() {
  return {ErrorCode::kConflict, "too_many_follows", "author",
          "the reader already follows the maximum number of authors"};
}

constexpr int kMaxFollowAttempts = 4;  // follow() restarts if the reader unfollows concurrently
constexpr std::size_t kItemsPerCommand = 1000;
constexpr std::size_t kReadersPerScript = 50;  // about 300 µs of Redis for one item; larger calls save little

}  // namespace

void append_push(Pipeline& out, const std::string& key, std::optional<std::int64_t> max_ids,
                 const std::vector<std::string_view>& ids) {
  out.script(scripts::kFollowPush).key(key);
  max_ids ? out.arg(*max_ids) : out.arg("");
  for (const std::string_view each : ids) out.arg(each);
}

void append_timeline_pushes(Pipeline& out, const redis::Keys& keys, const TimelineSettings& settings,
                            const std::vector<std::string>& timelines,
                            const std::vector<std::string_view>& items, std::string_view job) {
  std::map<unsigned, std::vector<std::string_view>> calls;
  for (const std::string& each : timelines) calls[keys.slot_or_zero(each)].push_back(each);
  for (const auto& [call, timeline_keys] : calls) {
    for (std::size_t begin = 0; begin < timeline_keys.size(); begin += kReadersPerScript) {
      out.script(scripts::kTimelinePush);
      for (std::size_t i = begin; i < std::min(begin + kReadersPerScript, timeline_keys.size()); ++i)
        out.key(timeline_keys[i]);
      out.arg(settings.ttl.count()).arg(settings.max_items).arg(job);
      for (const std::string_view item : items) out.arg(item);
    }
  }
}

void append_join(Pipeline& out, const TimelineSettings& settings, const TimelineJoin& join) {
  out.script(scripts::kFollowJoin).key(join.timeline_key).key(join.marks_key);
  out.arg(settings.max_items).arg(settings.ttl.count()).arg(join.authors.size());
  for (const TimelineJoin::Author& each : join.authors)
    out.arg(each.author).arg(each.mark).arg(each.new_mark);
  for (const std::string& each : join.items) out.arg(each);
}

void append_withdrawal(Pipeline& out, const redis::Keys& keys, const TimelineSettings& settings,
                       std::string_view reader, std::string_view author,
                       const std::vector<std::string_view>& items) {
  out.script(scripts::kFollowWithdraw)
      .key(keys.timeline(settings.follow_channel, reader))
      .key(keys.followed_authors(reader))
      .arg(author);
  for (const std::string_view each : items) out.arg(each);
}

RedisFollowStore::RedisFollowStore(redis::Redis& redis, const Settings& settings, redis::Keys keys,
                                   std::function<std::string()> new_job_id)
    : redis_(redis),
      timeline_settings_(settings.timeline),
      fanout_settings_(settings.fanout),
      keys_(std::move(keys)),
      stream_max_(keys_.per_partition(settings.recorder.stream_max_len)),
      new_job_id_(std::move(new_job_id)) {}

std::string RedisFollowStore::timeline_key(const ReaderId& reader) const {
  return keys_.timeline(timeline_settings_.follow_channel, reader.view());
}

Result<void> RedisFollowStore::check_stream_room(const redis::Reply& stream_length) const {
  if (stream_length.integer().value_or(0) >= stream_max_) return redis::stream_full();
  return {};
}

// --- following

Task<Result<void>> RedisFollowStore::follow(const ReaderId& reader, const AuthorId& author) {
  const std::string authors = keys_.followed_authors(reader.view()), readers = keys_.followers(author.view()),
                    stream = keys_.partition_for(reader.view()).stream();
  Pipeline reads, registration, backfill;
  reads.add("ZSCORE", authors, author.view()).add("ZSCORE", readers, reader.view());
  reads.add("ZCARD", authors).add("XLEN", stream).add("TIME");
  for (int attempt = 0; attempt < kMaxFollowAttempts; ++attempt) {
    FRESHET_CO_TRY(read_replies, co_await redis::run_all(redis_, reads));
    const std::string mark((*read_replies)[0].text());
    if (!mark.empty() && !(*read_replies)[1].is_nil()) break;
    if (mark.empty() && (*read_replies)[2].integer().value_or(0) >= timeline_settings_.max_follows)
      co_return tl::unexpected(too_many_follows());
    if (const auto has_room = check_stream_room((*read_replies)[3]); !has_room) co_return has_room;

    registration.clear();
    // The order matters: an item published from now on is pushed; or it is pulled, or already in
    // the outbox.
    append_push(registration, readers, std::nullopt, {reader.view()});
    registration.barrier().add("ZSCORE", keys_.pull_outbox(author.view()), redis::kHighestMark).barrier();
    registration.add("ZREVRANGEBYSCORE", keys_.outbox(author.view()), "+inf", "(0", "LIMIT", 0,
                     timeline_settings_.backfill);
    registration.add("XADD", stream, "*", "op", "follow", "reader", reader.view(), "author", author.view(),
                     "at", redis::string_at((*read_replies)[4], 0));
    FRESHET_CO_TRY(registered, co_await redis::run_all(redis_, registration));
    const redis::Reply& published = (*registered)[2];  // newest first
    TimelineJoin join{timeline_key(reader), authors, {}, {}};
    join.authors.push_back(
        {author.str(), mark, mark.empty() ? -redis::to_int((*registered)[1].text()) : redis::to_int(mark)});
    for (std::size_t i = published.size(); i > 0; --i)
      join.items.emplace_back(redis::string_at(published, i - 1));

    backfill.clear();
    append_join(backfill, timeline_settings_, join);
    backfill.barrier().add("ZSCORE", readers, reader.view());
    FRESHET_CO_TRY(backfilled, co_await redis::run_all(redis_, backfill));
    // Otherwise the reader has unfollowed, or another call has changed the mark: try again.
    if ((*backfilled)[0].integer().value_or(0) == 1 && !(*backfilled)[1].is_nil()) break;
  }
  co_return Result<void>();
}

Task<Result<void>> RedisFollowStore::unfollow(const ReaderId& reader, const AuthorId& author) {
  const std::string stream = keys_.partition_for(reader.view()).stream();
  Pipeline reads, removals, timeline_removals;
  reads.add("XLEN", stream);
  FRESHET_CO_TRY(stream_length, co_await redis::run_all(redis_, reads));
  if (const auto has_room = check_stream_room(stream_length->front()); !has_room) co_return has_room;
  removals.add("XADD", stream, "*", "op", "unfollow", "reader", reader.view(), "author", author.view())
      .add("ZREM", keys_.followed_authors(reader.view()), author.view())
      .add("ZREM", keys_.followers(author.view()), reader.view())
      .barrier()  // items published from now on no longer reach the reader
      .add("ZRANGEBYSCORE", keys_.outbox(author.view()), "(0", "+inf")
      .add("ZRANGEBYSCORE", keys_.pull_outbox(author.view()), "(0", "+inf");
  FRESHET_CO_TRY(removed, co_await redis::run_all(redis_, removals));
  for (const std::size_t outbox : {std::size_t{3}, std::size_t{4}}) {
    const redis::Reply& items = (*removed)[outbox];
    for (std::size_t from = 0; from < items.size(); from += kItemsPerCommand) {
      const std::size_t end = std::min(from + kItemsPerCommand, items.size());
      timeline_removals.command(2 + end - from).arg("ZREM").arg(timeline_key(reader));
      for (std::size_t i = from; i < end; ++i) timeline_removals.arg(redis::string_at(items, i));
    }
  }
  if (timeline_removals.empty()) co_return Result<void>();
  FRESHET_CO_TRY(cleared, co_await redis::run_all(redis_, timeline_removals));
  co_return Result<void>();
}

Task<Result<std::vector<AuthorId>>> RedisFollowStore::followed_authors(const ReaderId& reader) {
  Pipeline command;
  command.add("ZRANGE", keys_.followed_authors(reader.view()), 0, -1);
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis_, command));
  std::vector<AuthorId> out;
  out.reserve(reply->size());
  for (std::size_t i = 0; i < reply->size(); ++i)
    out.push_back(AuthorId::trusted(std::string(redis::string_at(*reply, i))));
  std::sort(out.begin(), out.end());
  co_return out;
}

// --- publishing

Task<Result<std::string>> RedisFollowStore::publish(const AuthorId& author,
                                                    const std::vector<ItemId>& items) {
  Pipeline reads, outbox_writes, notifications;
  const std::string readers = keys_.followers(author.view()),
                    stream = keys_.partition_for(author.view()).stream();
  const auto append_follower_count = [&](Pipeline& out) { out.add("ZCOUNT", readers, "(0", "+inf"); };
  reads.add("XLEN", stream);
  append_follower_count(reads);
  FRESHET_CO_TRY(read_replies, co_await redis::run_all(redis_, reads));
  const std::int64_t followers_before = (*read_replies)[1].integer().value_or(0);
  const bool is_pulled = followers_before > fanout_settings_.max_push_followers;
  if (const auto has_room = check_stream_room(read_replies->front());
      followers_before > 0 && !is_pulled && !has_room)
    co_return tl::unexpected(has_room.error());
  // The order matters: a reader who follows concurrently either finds the items in the outbox or is
  // counted among the followers read after it. Items in the pull outbox are also in the outbox.
  std::vector<std::string_view> ids;
  ids.reserve(items.size());
  for (const ItemId& each : items) ids.push_back(each.view());
  append_push(outbox_writes, keys_.outbox(author.view()), fanout_settings_.outbox_size, ids);
  outbox_writes.barrier();
  if (is_pulled)
    append_push(outbox_writes, keys_.pull_outbox(author.view()), fanout_settings_.outbox_size, ids);
  append_follower_count(outbox_writes);
  outbox_writes.add("ZSCORE", readers, redis::kHighestMark);
  FRESHET_CO_TRY(outbox_replies, co_await redis::run_all(redis_, outbox_writes));
  const std::int64_t followers = is_pulled ? 0 : (*outbox_replies)[1].integer().value_or(0);
  const std::string_view pulled_up_to =
      is_pulled ? redis::string_at((*outbox_replies)[1], 0) : std::string_view();

  std::string job = new_job_id_();
  if (!pulled_up_to.empty())
    notifications.add("ZADD", keys_.pull_authors(), "GT", pulled_up_to, author.view());
  notifications.add("HSET", keys_.job(job), "state", followers > 0 ? "queued" : "done", "done", 0, "total",
                    followers, "failed", 0);
  notifications.add("EXPIRE", keys_.job(job), redis::kJobTtl.count());
  if (followers > 0) {
    std::string item_ids;
    for (const std::string_view each : ids)
      item_ids.append(item_ids.empty() ? 0 : 1, kIdSeparator).append(each);
    notifications.barrier().add("XADD", stream, "*", "op", "fanout", "author", author.view(), "items",
                                item_ids, "upto", -redis::to_int(outbox_replies->back().text()), "job", job);
  }
  FRESHET_CO_TRY(notified, co_await redis::run_all(redis_, notifications));
  co_return job;
}

}  // namespace freshet::timeline
