// What lists are made of: plain reads, by wall_now(), which is Redis' clock.

#include <algorithm>
#include <cmath>

#include "core/base/agreed_clock.h"
#include "core/hot/hot_store.h"
#include "core/redis/fields.h"
#include "core/redis/groups/by_group.h"
#include "core/redis/groups/group_merge.h"
#include "core/redis/scripts.h"

namespace freshet::hot {
namespace {

using redis::Pipeline;

constexpr std::int64_t kMostMembersRead = 2000;  // of a rank, for one page
constexpr std::int64_t kFirstChunk = 200;  // of them, where a filter leaves some out; then twice as many
constexpr std::int64_t kFew = 1000;  // so many of a tag or a window are read instead of walking down the rank

std::string above(std::int64_t score) { return "(" + std::to_string(score); }

redis::PartitionedCommand by_group(const redis::Keys& keys, const std::vector<ScoredItem>& some) {
  std::vector<std::string_view> ids;
  ids.reserve(some.size());
  for (const ScoredItem& each : some) ids.push_back(each.item.view());
  return {keys, std::move(ids)};
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
    Pipeline count, list;
    const auto of_tag = [&](Pipeline& out, const char* command) {
      for (const redis::PartitionKeys& each : keys_.partitions()) out.add(command, each.tagged_items(tag_.view()));
    };
    const auto of_window = [&](Pipeline& out, const char* command) {
      for (const redis::PartitionKeys& each : keys_.partitions())
        out.add(command, each.published(), unix_s(*from_), unix_s(now_));
    };
    if (!tag_.empty()) of_tag(count, "SCARD");
    if (from_) of_window(count, "ZCOUNT");
    FRESHET_CO_TRY(counts, co_await redis::run_all(redis_, count));
    const auto is_few = [&](std::size_t first) {
      std::int64_t all = 0;
      for (std::size_t i = first; i < first + keys_.partition_count(); ++i)
        all += (*counts)[i].integer().value_or(kFew + 1);
      return all <= kFew;
    };
    if (!tag_.empty() && is_few(0))
      of_tag(list, "SMEMBERS");
    else if (from_ && is_few(counts->size() - keys_.partition_count()))
      of_window(list, "ZRANGEBYSCORE");
    else
      co_return std::nullopt;
    FRESHET_CO_TRY(lists, co_await redis::run_all(redis_, list));
    std::vector<ScoredItem> out;
    for (const redis::Reply& ids : *lists) {
      for (std::size_t i = 0; i < ids.size(); ++i)
        out.push_back({ItemId::trusted(std::string(redis::string_at(ids, i))), 0});
    }
    co_return out;
  }

  // Of each member whether it stays. One without a date is dated neither ahead nor within a window.
  Task<Result<std::vector<bool>>> keeps(const std::vector<ScoredItem>& members) const {
    std::vector<bool> out(members.size(), true);
    if (members.empty()) co_return out;
    const redis::PartitionedCommand of = by_group(keys_, members);
    Pipeline ask;
    of.append(ask, "ZMSCORE", [](const redis::PartitionKeys& group) { return group.published(); });
    const auto tag = [this](const redis::PartitionKeys& group) { return group.tagged_items(tag_.view()); };
    if (!tag_.empty()) of.append(ask, "SMISMEMBER", tag);
    FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, ask));
    for (std::size_t i = 0; i < members.size(); ++i) {
      const auto date = redis::parse<double>(of.text(replies->data(), i));
      out[i] = date ? *date <= number(now_) && (!from_ || *date >= number(*from_)) : !from_;
      if (!tag_.empty()) out[i] = out[i] && of.is_one(replies->data() + of.command_count(), i);
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
Task<Result<RankPage>> page_of(redis::Redis& redis, const redis::Keys& keys, const Model& model,
                               const Filter& filter, std::vector<ScoredItem> some, std::int64_t offset,
                               std::int64_t count) {
  RankPage page;
  if (some.empty()) co_return page;
  const redis::PartitionedCommand of = by_group(keys, some);
  Pipeline scores;
  of.append(scores, "ZMSCORE", [&](const redis::PartitionKeys& group) { return group.rank(model); });
  FRESHET_CO_TRY(places, co_await redis::run_all(redis, scores));
  FRESHET_CO_TRY(keeps, co_await filter.keeps(some));
  std::vector<ScoredItem> all;
  for (std::size_t i = 0; i < some.size(); ++i) {
    const auto place = redis::parse<double>(of.text(places->data(), i));
    if (place && (*keeps)[i]) all.push_back({some[i].item, *place});
  }
  std::sort(all.begin(), all.end(), stands_before);
  const std::int64_t size = std::ssize(all), end = std::min(offset + count, size);
  for (std::int64_t i = offset; i < end; ++i)
    page.items.push_back(std::move(all[static_cast<std::size_t>(i)]));
  if (end < size) page.next = RankPlace{end};
  co_return page;
}

// Reads up to `chunk` members of each group that the merge waits for, and gives it those that the
// filter keeps. Returns how many were read of the group that gave most.
Task<Result<std::int64_t>> read_more(redis::Redis& redis, const redis::Keys& keys, const Model& model,
                                     const Filter& filter, redis::KWayMerge& merge, std::int64_t chunk) {
  const std::vector<unsigned> groups = merge.inputs_to_read();
  Pipeline range;
  for (const unsigned each : groups) {
    const std::int64_t from = merge.read_count(each);
    range.add("ZREVRANGE", keys.partition(each).rank(model), from, from + chunk - 1, "WITHSCORES");
  }
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis, range));
  std::vector<std::vector<redis::ScoredMember>> found;
  std::vector<ScoredItem> members;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    found.push_back(redis::parse_scored_members((*replies)[i], merge.read_count(groups[i])));
    for (const redis::ScoredMember& each : found.back())
      members.push_back({ItemId::trusted(each.member), each.score});
  }
  FRESHET_CO_TRY(keeps, co_await filter.keeps(members));
  std::int64_t most = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::int64_t read = std::ssize(found[i]);
    most = std::max(most, read);
    std::erase_if(found[i], [&](const redis::ScoredMember&) { return !(*keeps)[at++]; });
    merge.add(groups[i], std::move(found[i]), read, read < chunk);
  }
  co_return most;
}

}  // namespace

void append_bucket_tidy(Pipeline& out, const redis::PartitionKeys& keys, std::int64_t hour,
                        const std::vector<std::string_view>& members) {
  out.script(scripts::kBucketTidy).key(keys.current_bucket_index()).key(keys.current_bucket(hour)).key(keys.published());
  out.arg(hour);
  for (const std::string_view each : members) out.arg(each);
}

// --- cached lists

Task<Result<CachedList>> RedisHotStore::cached_list(const ListQuery& query) {
  const std::int64_t now = wall_ms().count(), slice = settings_.list.rebuild_interval.count();
  // The list is at least as new as what is read of it first, and the epoch at least as new as both.
  Pipeline read;
  read.add("HMGET", keys_.list_meta(query), "built_ms", "epoch").barrier();
  read.add("GET", keys_.list(query)).barrier();
  read.add("GET", keys_.epoch());
  for (const redis::PartitionKeys& each : keys_.partitions()) {
    const std::string hidden = each.hidden();
    read.add("ZREVRANGEBYSCORE", hidden, now / 1000, "-inf", "WITHSCORES", "LIMIT", 0, 1);
    read.add("ZRANGEBYSCORE", hidden, above(now / 1000), "(inf", "WITHSCORES", "LIMIT", 0, 1);
  }
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, read));
  const redis::Reply& meta = (*replies)[0];
  CachedList out;
  out.built_ms = redis::parse_or_zero<std::int64_t>(redis::string_at(meta, 0));
  out.epoch = (*replies)[2].is_nil() ? "0" : std::string((*replies)[2].text());
  bool holds = redis::string_at(meta, 1) == out.epoch;
  const std::int64_t built_s = out.built_ms / 1000;
  for (std::size_t i = 3; i < replies->size(); i += 2) {
    const auto last_end = redis::parse<double>(redis::string_at((*replies)[i], 1));
    holds = holds && !(last_end && *last_end > static_cast<double>(built_s));
    const auto next = redis::parse<double>(redis::string_at((*replies)[i + 1], 1));
    if (!next) continue;
    const milliseconds due(static_cast<std::int64_t>(std::ceil(*next)) * 1000 - now);
    out.due = std::min(out.due.value_or(due), due);
  }
  if (holds) out.json = std::string((*replies)[1].text());
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

Task<Result<RankPage>> RedisHotStore::rank_page(const ListQuery& query, RankPlace from, std::int64_t count) {
  const Filter filter(redis_, keys_, query);
  if (filter.some()) {
    FRESHET_CO_TRY(few, co_await filter.few());
    const std::int64_t offset = from.empty() ? 0 : from.front();
    if (*few)
      co_return co_await page_of(redis_, keys_, *query.model, filter, std::move(**few), offset, count);
  }
  from.resize(keys_.partition_count());
  redis::KWayMerge merge(from);
  RankPage page;
  std::int64_t left = redis::read_size(kMostMembersRead, keys_.partition_count());
  for (std::int64_t chunk = filter.some() ? std::max(count, kFirstChunk) : count;; chunk *= 2) {
    while (std::ssize(page.items) < count) {
      auto next = merge.pop();
      if (!next) break;
      page.items.push_back({ItemId::trusted(std::move(next->member)), next->score});
    }
    if (merge.is_exhausted()) co_return page;
    if (std::ssize(page.items) == count || left == 0) break;
    const std::int64_t share = std::min(redis::read_size(chunk, keys_.partition_count()), left);
    FRESHET_CO_TRY(read, co_await read_more(redis_, keys_, *query.model, filter, merge, share));
    left -= *read;
  }
  page.next = merge.consumed();
  co_return page;
}

// --- mode = current

Task<Result<std::vector<BucketBound>>> RedisHotStore::buckets() {
  Pipeline command;
  for (const redis::PartitionKeys& each : keys_.partitions())
    command.add("ZRANGE", each.current_bucket_index(), 0, -1, "WITHSCORES");
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
  std::vector<BucketBound> out;
  for (unsigned group = 0; group < keys_.partition_count(); ++group) {
    const redis::Reply& index = (*replies)[group];
    for (std::size_t i = 0; i + 1 < index.size(); i += 2) {
      out.push_back({{redis::parse_or_zero<std::int64_t>(redis::string_at(index, i)), group},
                     redis::parse_or_zero<double>(redis::string_at(index, i + 1))});
    }
  }
  co_return out;
}

Task<Result<std::vector<BucketMember>>> RedisHotStore::bucket_heads(const std::vector<BucketName>& buckets,
                                                                    std::int64_t offset, std::int64_t count) {
  std::vector<BucketMember> out;
  std::vector<std::vector<std::size_t>> of_group(keys_.partition_count());
  for (std::size_t k = 0; k < buckets.size(); ++k) of_group[buckets[k].group].push_back(k);
  for (bool again = !buckets.empty(); again;) {
    again = false;
    out.clear();
    Pipeline read, dates, tidy;
    for (const BucketName& each : buckets) {
      const std::string bucket = keys_.partition(each.group).current_bucket(each.hour);
      read.add("ZREVRANGE", bucket, offset, offset + count - 1, "WITHSCORES");
    }
    for (unsigned g = 0; g < keys_.partition_count(); ++g) {
      if (of_group[g].empty()) continue;
      read.command(2 + of_group[g].size()).arg("ZMSCORE").arg(keys_.partition(g).current_bucket_index());
      for (const std::size_t k : of_group[g]) read.arg(buckets[k].hour);
    }
    FRESHET_CO_TRY(heads, co_await redis::run_all(redis_, read));
    std::vector<ScoredItem> all;
    for (std::size_t k = 0; k < buckets.size(); ++k) {
      for (redis::ScoredMember& each : redis::parse_scored_members((*heads)[k], 0))
        all.push_back({ItemId::trusted(std::move(each.member)), each.score});
    }
    std::vector<std::string_view> bounds(buckets.size());  // what the index says
    std::size_t reply = buckets.size();
    for (const auto& some : of_group) {
      for (std::size_t i = 0; i < some.size(); ++i) bounds[some[i]] = redis::string_at((*heads)[reply], i);
      if (!some.empty()) ++reply;
    }
    const redis::PartitionedCommand of = by_group(keys_, all);
    redis::Replies published;
    if (!all.empty()) {
      of.append(dates, "ZMSCORE", [](const redis::PartitionKeys& group) { return group.published(); });
      FRESHET_CO_TRY(found, co_await redis::run_all(redis_, dates));
      published = std::move(*found);
    }
    std::size_t at = 0;
    for (std::size_t k = 0; k < buckets.size(); ++k) {
      const redis::Reply& head = (*heads)[k];
      const auto [hour, group] = buckets[k];
      std::vector<std::string_view> strangers;
      for (const std::size_t end = at + head.size() / 2; at < end; ++at) {
        const auto text = of.text(published.data(), at);
        // Beyond the cap of hot:published it has no date there.
        const std::int64_t date = text.empty() ? hour * kHourSeconds : redis::to_int(text);
        if (std::floor(static_cast<double>(date) / kHourSeconds) == static_cast<double>(hour))
          out.push_back({all[at].item, all[at].score, UnixSeconds{seconds{date}}, group});
        else
          strangers.push_back(all[at].item.view());
      }
      const bool bounded = offset > 0 || bounds[k] == redis::string_at(head, 1);
      again = again || !strangers.empty();
      if (bounded && strangers.empty()) continue;
      append_bucket_tidy(tidy, keys_.partition(group), hour, strangers);
    }
    if (tidy.empty()) break;
    FRESHET_CO_TRY(tidied, co_await redis::run_all(redis_, tidy));
  }
  co_return out;
}

}  // namespace freshet::hot
