// What lists are made of: plain reads, by wall_now(), which is Redis' clock.

#include <algorithm>
#include <cmath>

#include "core/base/agreed_clock.h"
#include "core/hot/hot_store.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"

namespace freshet::hot {
namespace {

using redis::Pipeline;

constexpr std::int64_t kMostMembersRead = 2000;  // of a rank, for one page
constexpr std::int64_t kFirstChunk = 200;  // of them, where a filter leaves some out; then twice as many
constexpr std::int64_t kFew = 1000;  // so many of a tag or a window are read instead of walking down the rank

std::string above(std::int64_t score) { return "(" + std::to_string(score); }

template <class Each>
void append_of(Pipeline& out, std::string_view command, std::string_view key, const std::vector<Each>& some) {
  out.command(2 + some.size()).arg(command).arg(key);
  for (const Each& each : some) out.arg(each.item.view());
}

// What a page's filters leave of members: one trip.
class Filter {
 public:
  Filter(redis::Redis& redis, const redis::Keys& keys, const ListQuery& query)
      : redis_(redis), keys_(keys), tag_(query.tag), now_(wall_now()) {
    if (query.window.count() > 0) from_ = now_ - query.window;
  }

  bool some() const { return from_ || !tag_.empty(); }

  // The ids of a tag or a window that holds few; nullopt: they all hold many.
  Task<Result<std::optional<std::vector<ScoredItem>>>> few() const {
    Pipeline count;
    if (!tag_.empty()) count.add("SCARD", keys_.tag(tag_.view()));
    if (from_) count.add("ZCOUNT", keys_.published(), unix_s(*from_), unix_s(now_));
    FRESHET_CO_TRY(counts, co_await redis::run_all(redis_, count));
    const auto is_few = [](const redis::Reply& reply) { return reply.integer().value_or(kFew + 1) <= kFew; };
    Pipeline list;
    if (!tag_.empty() && is_few(counts->front()))
      list.add("SMEMBERS", keys_.tag(tag_.view()));
    else if (from_ && is_few(counts->back()))
      list.add("ZRANGEBYSCORE", keys_.published(), unix_s(*from_), unix_s(now_));
    else
      co_return std::nullopt;
    FRESHET_CO_TRY(ids, co_await redis::run_one(redis_, list));
    std::vector<ScoredItem> out;
    for (std::size_t i = 0; i < ids->size(); ++i)
      out.push_back({ItemId::trusted(std::string(redis::text_at(*ids, i))), 0});
    co_return out;
  }

  // Of each member whether it stays. One without a date is dated neither ahead nor within a window.
  Task<Result<std::vector<bool>>> keeps(const std::vector<ScoredItem>& members) const {
    std::vector<bool> out(members.size(), true);
    if (members.empty()) co_return out;
    Pipeline ask;
    append_of(ask, "ZMSCORE", keys_.published(), members);
    if (!tag_.empty()) append_of(ask, "SMISMEMBER", keys_.tag(tag_.view()), members);
    FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, ask));
    for (std::size_t i = 0; i < members.size(); ++i) {
      const auto date = redis::parse<double>(redis::text_at(replies->front(), i));
      out[i] = date ? *date <= number(now_) && (!from_ || *date >= number(*from_)) : !from_;
      if (!tag_.empty()) out[i] = out[i] && replies->back()[i].integer().value_or(0) == 1;
    }
    co_return out;
  }

 private:
  static double number(UnixSeconds at) { return static_cast<double>(unix_s(at)); }

  redis::Redis& redis_;
  const redis::Keys& keys_;
  const TagName tag_;
  const UnixSeconds now_;
  std::optional<UnixSeconds> from_;
};

// Highest first; equals as ZREVRANGE has them.
bool stands_before(const ScoredItem& a, const ScoredItem& b) {
  return a.score != b.score ? a.score > b.score : a.item > b.item;
}

// A page of those among `some` that the rank has and the filter keeps.
Task<Result<RankPage>> page_of(redis::Redis& redis, const std::string& rank, const Filter& filter,
                               std::vector<ScoredItem> some, std::int64_t offset, std::int64_t count) {
  RankPage page{{}, -1};
  if (some.empty()) co_return page;
  Pipeline scores;
  append_of(scores, "ZMSCORE", rank, some);
  FRESHET_CO_TRY(places, co_await redis::run_one(redis, scores));
  FRESHET_CO_TRY(keeps, co_await filter.keeps(some));
  std::vector<ScoredItem> all;
  for (std::size_t i = 0; i < some.size(); ++i) {
    const auto place = redis::parse<double>(redis::text_at(*places, i));
    if (place && (*keeps)[i]) all.push_back({std::move(some[i].item), *place});
  }
  std::sort(all.begin(), all.end(), stands_before);
  const std::int64_t size = std::ssize(all), end = std::min(offset + count, size);
  for (std::int64_t i = offset; i < end; ++i)
    page.items.push_back(std::move(all[static_cast<std::size_t>(i)]));
  if (end < size) page.next = end;
  co_return page;
}

std::vector<ScoredItem> scored(const redis::Reply& members) {
  std::vector<ScoredItem> out;
  for (std::size_t i = 0; i + 1 < members.size(); i += 2) {
    out.push_back({ItemId::trusted(std::string(redis::text_at(members, i))),
                   redis::parse_or_zero<double>(redis::text_at(members, i + 1))});
  }
  return out;
}

}  // namespace

void append_bucket_tidy(Pipeline& out, const redis::Keys& keys, std::int64_t hour,
                        const std::vector<std::string_view>& members) {
  out.script(scripts::kBucketTidy).key(keys.current_index()).key(keys.current(hour)).key(keys.published());
  out.arg(hour);
  for (const std::string_view each : members) out.arg(each);
}

// --- cached lists

Task<Result<CachedList>> RedisHotStore::cached_list(const ListQuery& query) {
  const std::int64_t now = wall_ms().count(), slice = settings_.list.slice.count();
  // The list is at least as new as what is read of it first, and the epoch at least as new as both.
  Pipeline read;
  read.add("HMGET", keys_.list_meta(query), "built_ms", "epoch").then();
  read.add("GET", keys_.list(query)).then();
  read.add("GET", keys_.epoch())
      .add("ZREVRANGEBYSCORE", keys_.hidden(), now / 1000, "-inf", "WITHSCORES", "LIMIT", 0, 1)
      .add("ZRANGEBYSCORE", keys_.hidden(), above(now / 1000), "(inf", "WITHSCORES", "LIMIT", 0, 1);
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, read));
  const redis::Reply& meta = (*replies)[0];
  CachedList out;
  out.built_ms = redis::parse_or_zero<std::int64_t>(redis::text_at(meta, 0));
  out.epoch = (*replies)[2].is_nil() ? "0" : std::string((*replies)[2].text());
  const auto last_end = redis::parse<double>(redis::text_at((*replies)[3], 1));
  const bool holds = redis::text_at(meta, 1) == out.epoch &&
                     !(last_end && *last_end > static_cast<double>(out.built_ms / 1000));
  if (holds) out.json = std::string((*replies)[1].text());
  if (const auto next = redis::parse<double>(redis::text_at((*replies)[4], 1)))
    out.due = milliseconds(static_cast<std::int64_t>(std::ceil(*next)) * 1000 - now);
  if (!out.json.empty() && out.built_ms / slice == now / slice) {
    out.state = CachedList::State::kFresh;
    co_return out;
  }
  Pipeline lock;
  lock.add("SET", keys_.list_lock(query), now, "NX", "PX", redis::kListLockTtl.count());
  FRESHET_CO_TRY(locked, co_await redis::run_one(redis_, lock));
  out.state = locked->is_nil() ? CachedList::State::kStale : CachedList::State::kBuild;
  if (out.state == CachedList::State::kBuild) out.built_ms = now;
  co_return out;
}

void RedisHotStore::store_list(const ListQuery& query, const CachedList& built) {
  Pipeline out;
  out.script(scripts::kListStore)
      .key(keys_.list(query))
      .key(keys_.list_meta(query))
      .key(keys_.list_lock(query))
      .key(keys_.epoch())
      .arg(built.json)
      .arg(built.built_ms)
      .arg(built.epoch)
      .arg(settings_.list.ttl.count());
  behind_.deferred.post(std::move(out));  // lost: the lock runs out and somebody builds again
}

// --- ranks

Task<Result<RankPage>> RedisHotStore::rank_page(const ListQuery& query, std::int64_t offset,
                                                std::int64_t count) {
  const std::string rank = keys_.rank(*query.model);
  const Filter filter(redis_, keys_, query);
  if (filter.some()) {
    FRESHET_CO_TRY(few, co_await filter.few());
    if (*few) co_return co_await page_of(redis_, rank, filter, std::move(**few), offset, count);
  }
  RankPage page{{}, offset};
  const std::int64_t last = offset + kMostMembersRead;
  for (std::int64_t chunk = filter.some() ? std::max(count, kFirstChunk) : count;
       std::ssize(page.items) < count && page.next < last; chunk *= 2) {
    chunk = std::min(chunk, last - page.next);
    Pipeline range;
    range.add("ZREVRANGE", rank, page.next, page.next + chunk - 1, "WITHSCORES");
    FRESHET_CO_TRY(reply, co_await redis::run_one(redis_, range));
    std::vector<ScoredItem> members = scored(*reply);
    FRESHET_CO_TRY(keeps, co_await filter.keeps(members));
    for (std::size_t i = 0; i < members.size() && std::ssize(page.items) < count; ++i) {
      ++page.next;
      if ((*keeps)[i]) page.items.push_back(std::move(members[i]));
    }
    if (std::ssize(members) < chunk && std::ssize(page.items) < count) page.next = -1;
    if (page.next < 0) break;
  }
  co_return page;
}

// --- mode = current

Task<Result<std::vector<Bucket>>> RedisHotStore::buckets() {
  Pipeline command;
  command.add("ZRANGE", keys_.current_index(), 0, -1, "WITHSCORES");
  FRESHET_CO_TRY(reply, co_await redis::run_one(redis_, command));
  std::vector<Bucket> out;
  out.reserve(reply->size() / 2);
  for (std::size_t i = 0; i + 1 < reply->size(); i += 2) {
    out.push_back({redis::parse_or_zero<std::int64_t>(redis::text_at(*reply, i)),
                   redis::parse_or_zero<double>(redis::text_at(*reply, i + 1))});
  }
  co_return out;
}

Task<Result<std::vector<BucketMember>>> RedisHotStore::bucket_heads(const std::vector<std::int64_t>& hours,
                                                                    std::int64_t offset, std::int64_t count) {
  std::vector<BucketMember> out;
  for (bool again = !hours.empty(); again;) {
    again = false;
    out.clear();
    Pipeline read, dates, tidy;
    for (const std::int64_t hour : hours)
      read.add("ZREVRANGE", keys_.current(hour), offset, offset + count - 1, "WITHSCORES");
    read.command(2 + hours.size()).arg("ZMSCORE").arg(keys_.current_index());
    for (const std::int64_t hour : hours) read.arg(hour);
    FRESHET_CO_TRY(heads, co_await redis::run_all(redis_, read));
    std::vector<ScoredItem> all;
    for (std::size_t k = 0; k < hours.size(); ++k) {
      for (ScoredItem& each : scored((*heads)[k])) all.push_back(std::move(each));
    }
    redis::Replies published;
    if (!all.empty()) {
      append_of(dates, "ZMSCORE", keys_.published(), all);
      FRESHET_CO_TRY(found, co_await redis::run_all(redis_, dates));
      published = std::move(*found);
    }
    std::size_t at = 0;
    for (std::size_t k = 0; k < hours.size(); ++k) {
      const redis::Reply& head = (*heads)[k];
      std::vector<std::string_view> strangers;
      for (const std::size_t end = at + head.size() / 2; at < end; ++at) {
        const auto text = redis::text_at(published.front(), at);
        // Beyond the cap of hot:published it has no date there.
        const std::int64_t date = text.empty() ? hours[k] * kHourSeconds : redis::whole(text);
        if (std::floor(static_cast<double>(date) / kHourSeconds) == static_cast<double>(hours[k]))
          out.push_back({all[at].item, all[at].score, UnixSeconds{seconds{date}}});
        else
          strangers.push_back(all[at].item.view());
      }
      const bool bounded = offset > 0 || redis::text_at(heads->back(), k) == redis::text_at(head, 1);
      again = again || !strangers.empty();
      if (bounded && strangers.empty()) continue;
      append_bucket_tidy(tidy, keys_, hours[k], strangers);
    }
    if (tidy.empty()) break;
    FRESHET_CO_TRY(tidied, co_await redis::run_all(redis_, tidy));
  }
  co_return out;
}

}  // namespace freshet::hot
