#include "core/timeline/follow_store.h"

#include <algorithm>
#include <map>

#include "core/readers/reader_entries.h"
#include "core/redis/errors.h"
#include "core/redis/fields.h"
#include "core/redis/script_words.h"
#include "core/redis/scripts.h"

namespace freshet::timeline {
namespace {

using redis::Pipeline;

Error too_many_follows() {
  return {ErrorCode::kConflict, "too_many_follows", "author", "the reader follows as many authors as may be"};
}

constexpr int kMostAttempts = 4;  // to follow; each is begun when the reader was let go of meanwhile
constexpr std::size_t kItemsACommand = 1000;
constexpr std::size_t kReadersAScript = 50;  // some 300 µs of Redis for one item; beyond it little is saved

}  // namespace

void append_push(Pipeline& out, const std::string& key, std::optional<std::int64_t> most,
                 const std::vector<std::string_view>& ids) {
  out.script(scripts::kFollowPush).key(key);
  most ? out.arg(*most) : out.arg("");
  for (const std::string_view each : ids) out.arg(each);
}

void append_timeline_pushes(Pipeline& out, const redis::Keys& keys, const TimelineSettings& settings,
                            const std::vector<std::string>& timelines,
                            const std::vector<std::string_view>& items, std::string_view job) {
  std::map<unsigned, std::vector<std::string_view>> calls;
  for (const std::string& each : timelines) calls[keys.slot_or_zero(each)].push_back(each);
  for (const auto& [call, of_it] : calls) {
    for (std::size_t begin = 0; begin < of_it.size(); begin += kReadersAScript) {
      out.script(scripts::kTimelinePush);
      for (std::size_t i = begin; i < std::min(begin + kReadersAScript, of_it.size()); ++i) out.key(of_it[i]);
      out.arg(settings.ttl.count()).arg(settings.max_items).arg(job);
      for (const std::string_view item : items) out.arg(item);
    }
  }
}

void append_join(Pipeline& out, const TimelineSettings& settings, const Join& join) {
  out.script(scripts::kFollowJoin).key(join.timeline).key(join.marks);
  out.arg(settings.max_items).arg(settings.ttl.count()).arg(join.authors.size());
  for (const Join::Author& each : join.authors) out.arg(each.author).arg(each.mark).arg(each.upto);
  for (const std::string& each : join.items) out.arg(each);
}

RedisFollowStore::RedisFollowStore(redis::Redis& redis, const Settings& settings, redis::Keys keys,
                                   std::function<std::string()> new_job_id)
    : redis_(redis),
      waterfall_(settings.timeline),
      fanout_(settings.fanout),
      keys_(std::move(keys)),
      stream_max_(keys_.per_partition(settings.recorder.stream_max_len)),
      new_job_id_(std::move(new_job_id)) {}

std::string RedisFollowStore::timeline_of(const ReaderId& reader) const {
  return keys_.timeline(waterfall_.follow_channel, reader.view());
}

Result<void> RedisFollowStore::may_tell(const redis::Reply& waiting) const {
  if (waiting.integer().value_or(0) >= stream_max_) return redis::stream_full();
  return {};
}

// --- following

Task<Result<void>> RedisFollowStore::follow(const ReaderId& reader, const AuthorId& author) {
  const std::string authors = keys_.followed_authors(reader.view()), readers = keys_.followers(author.view()),
                    stream = keys_.partition_for(reader.view()).stream();
  Pipeline look, enter, begin;
  look.add("ZSCORE", authors, author.view()).add("ZSCORE", readers, reader.view());
  look.add("ZCARD", authors).add("XLEN", stream).add("TIME");
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    FRESHET_CO_TRY(found, co_await redis::run_all(redis_, look));
    const std::string mark((*found)[0].text());
    if (!mark.empty() && !(*found)[1].is_nil()) break;
    if (mark.empty() && (*found)[2].integer().value_or(0) >= waterfall_.max_follows)
      co_return tl::unexpected(too_many_follows());
    if (const auto may = may_tell((*found)[3]); !may) co_return may;

    enter.clear();
    // In this order: what is published from now on is pushed; or pulled, or in the outbox already.
    append_push(enter, readers, std::nullopt, {reader.view()});
    enter.barrier().add("ZSCORE", keys_.pull_outbox(author.view()), ":").barrier();
    enter.add("ZREVRANGEBYSCORE", keys_.outbox(author.view()), "+inf", "(0", "LIMIT", 0, waterfall_.backfill);
    enter.add("XADD", stream, "*", "op", "follow", "reader", reader.view(), "author", author.view(), "at",
              redis::string_at((*found)[4], 0));
    FRESHET_CO_TRY(entered, co_await redis::run_all(redis_, enter));
    const redis::Reply& published = (*entered)[2];  // the newest first
    Join join{timeline_of(reader), authors, {}, {}};
    join.authors.push_back(
        {author.str(), mark, mark.empty() ? -redis::to_int((*entered)[1].text()) : redis::to_int(mark)});
    for (std::size_t i = published.size(); i > 0; --i)
      join.items.emplace_back(redis::string_at(published, i - 1));

    begin.clear();
    append_join(begin, waterfall_, join);
    begin.barrier().add("ZSCORE", readers, reader.view());
    FRESHET_CO_TRY(begun, co_await redis::run_all(redis_, begin));
    // Else the reader was let go of meanwhile, or the mark is another's.
    if ((*begun)[0].integer().value_or(0) == 1 && !(*begun)[1].is_nil()) break;
  }
  co_return Result<void>();
}

Task<Result<void>> RedisFollowStore::unfollow(const ReaderId& reader, const AuthorId& author) {
  const std::string stream = keys_.partition_for(reader.view()).stream();
  Pipeline look, leave, clear;
  look.add("XLEN", stream);
  FRESHET_CO_TRY(waiting, co_await redis::run_all(redis_, look));
  if (const auto may = may_tell(waiting->front()); !may) co_return may;
  leave.add("XADD", stream, "*", "op", "unfollow", "reader", reader.view(), "author", author.view())
      .add("ZREM", keys_.followed_authors(reader.view()), author.view())
      .add("ZREM", keys_.followers(author.view()), reader.view())
      .barrier()  // what is published from now on is not the reader's
      .add("ZRANGEBYSCORE", keys_.outbox(author.view()), "(0", "+inf")
      .add("ZRANGEBYSCORE", keys_.pull_outbox(author.view()), "(0", "+inf");
  FRESHET_CO_TRY(left, co_await redis::run_all(redis_, leave));
  for (const std::size_t outbox : {std::size_t{3}, std::size_t{4}}) {
    const redis::Reply& items = (*left)[outbox];
    for (std::size_t from = 0; from < items.size(); from += kItemsACommand) {
      const std::size_t end = std::min(from + kItemsACommand, items.size());
      clear.command(2 + end - from).arg("ZREM").arg(timeline_of(reader));
      for (std::size_t i = from; i < end; ++i) clear.arg(redis::string_at(items, i));
    }
  }
  if (clear.empty()) co_return Result<void>();
  FRESHET_CO_TRY(cleared, co_await redis::run_all(redis_, clear));
  co_return Result<void>();
}

Task<Result<std::vector<AuthorId>>> RedisFollowStore::authors_of(const ReaderId& reader) {
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
  Pipeline look, join, tell;
  const std::string readers = keys_.followers(author.view()),
                    stream = keys_.partition_for(author.view()).stream();
  const auto count = [&](Pipeline& out) { out.add("ZCOUNT", readers, "(0", "+inf"); };
  look.add("XLEN", stream);
  count(look);
  FRESHET_CO_TRY(found, co_await redis::run_all(redis_, look));
  const std::int64_t before = (*found)[1].integer().value_or(0);
  const bool pulls = before > fanout_.max_push_followers;
  if (const auto may = may_tell(found->front()); before > 0 && !pulls && !may)
    co_return tl::unexpected(may.error());
  // In this order: who enters meanwhile finds it in the outbox, or is among those who are looked up
  // behind it. What stands in the one to pull is in the other.
  std::vector<std::string_view> ids;
  ids.reserve(items.size());
  for (const ItemId& each : items) ids.push_back(each.view());
  append_push(join, keys_.outbox(author.view()), fanout_.outbox_size, ids);
  join.barrier();
  if (pulls) append_push(join, keys_.pull_outbox(author.view()), fanout_.outbox_size, ids);
  count(join);
  join.add("ZSCORE", readers, ":");
  FRESHET_CO_TRY(joined, co_await redis::run_all(redis_, join));
  const std::int64_t followers = pulls ? 0 : (*joined)[1].integer().value_or(0);
  const std::string_view pulled = pulls ? redis::string_at((*joined)[1], 0) : std::string_view();

  std::string job = new_job_id_();
  if (!pulled.empty()) tell.add("ZADD", keys_.pull_authors(), "GT", pulled, author.view());
  tell.add("HSET", keys_.job(job), "state", followers > 0 ? "queued" : "done", "done", 0, "total", followers,
           "failed", 0);
  tell.add("EXPIRE", keys_.job(job), redis::kJobTtl.count());
  if (followers > 0) {
    std::string names;
    for (const std::string_view each : ids) names.append(names.empty() ? "" : " ").append(each);
    tell.barrier().add("XADD", stream, "*", "op", "fanout", "author", author.view(), "items", names, "upto",
                    -redis::to_int(joined->back().text()), "job", job);
  }
  FRESHET_CO_TRY(told, co_await redis::run_all(redis_, tell));
  co_return job;
}

}  // namespace freshet::timeline
