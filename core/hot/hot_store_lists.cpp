// Plain reads that lists are built from. They use wall_now(), which follows Redis' clock.

#include <algorithm>
#include <cmath>

#include "core/base/redis_clock.h"
#include "core/hot/hot_store.h"
#include "core/redis/fields.h"
#include "core/redis/partitions/partitioned_command.h"
#include "core/redis/partitions/partitioned_top_n.h"
#include "core/redis/scripts.h"

namespace freshet::hot {
namespace {

using redis::Pipeline;

constexpr std::int64_t kMaxMembersRead = 2000;  // from a rank, per page
constexpr std::int64_t kInitialChunk = 200;     // first read with filters; doubled with each further one
// A tag or window of at most this many articles is read instead of scanning the rank.
constexpr std::int64_t kMaxSmallSet = 1000;
// Begins a stored list that is below the floor, which the list's own key must say: another process
// may replace list and metadata during a read.
constexpr char kBelowFloor = ' ';
constexpr std::string_view kSlow = "slow";  // value of a lock: the last build ran out of time

std::string exclusive_min(std::int64_t score) { return "(" + std::to_string(score); }

redis::PartitionedCommand by_partition(const redis::Keys& keys, const std::vector<ScoredItem>& items) {
  std::vector<std::string_view> ids;
  ids.reserve(items.size());
  for (const ScoredItem& each : items) ids.push_back(each.item.view());
  return {keys, std::move(ids)};
}

// Filters rank members by window and tag. One round trip.
class RankFilter {
 public:
  RankFilter(redis::Redis& redis, const redis::Keys& keys, const ListQuery& query)
      : redis_(redis), keys_(keys), tag_(query.tag), now_(wall_now()) {
    if (query.window.count() > 0) from_ = now_ - query.window;
  }

  bool is_active() const { return from_ || !tag_.empty(); }

  // The ids of the tag or the window if either is small; nullopt otherwise.
  Task<Result<std::optional<std::vector<ScoredItem>>>> small_candidate_set() const {
    Pipeline count, list;
    const auto append_tag = [&](Pipeline& out, const char* command) {
      for (const redis::PartitionKeys& each : keys_.partitions())
        out.add(command, each.tagged_items(tag_.view()));
    };
    const auto append_window = [&](Pipeline& out, const char* command) {
      for (const redis::PartitionKeys& each : keys_.partitions())
        out.add(command, each.published(), unix_s(*from_), unix_s(now_));
    };
    if (!tag_.empty()) append_tag(count, "SCARD");
    if (from_) append_window(count, "ZCOUNT");
    FRESHET_CO_TRY(counts, co_await redis::run_all(redis_, count));
    const auto is_small = [&](std::size_t first) {
      std::int64_t total = 0;
      for (std::size_t i = first; i < first + keys_.partition_count(); ++i)
        total += (*counts)[i].integer().value_or(kMaxSmallSet + 1);
      return total <= kMaxSmallSet;
    };
    if (!tag_.empty() && is_small(0))
      append_tag(list, "SMEMBERS");
    else if (from_ && is_small(counts->size() - keys_.partition_count()))
      append_window(list, "ZRANGEBYSCORE");
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

  // For each member whether it matches. A member without a known date counts as published, but
  // matches no window.
  Task<Result<std::vector<bool>>> matches(const std::vector<ScoredItem>& members) const {
    std::vector<bool> out(members.size(), true);
    if (members.empty()) co_return out;
    const redis::PartitionedCommand partitioned = by_partition(keys_, members);
    Pipeline query;
    partitioned.append(query, "ZMSCORE",
                       [](const redis::PartitionKeys& partition) { return partition.published(); });
    const auto tag = [this](const redis::PartitionKeys& partition) {
      return partition.tagged_items(tag_.view());
    };
    if (!tag_.empty()) partitioned.append(query, "SMISMEMBER", tag);
    FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, query));
    for (std::size_t i = 0; i < members.size(); ++i) {
      const auto date = redis::parse<double>(partitioned.text(replies->data(), i));
      out[i] = date ? *date <= to_double(now_) && (!from_ || *date >= to_double(*from_)) : !from_;
      if (!tag_.empty())
        out[i] = out[i] && partitioned.is_one(replies->data() + partitioned.command_count(), i);
    }
    co_return out;
  }

 private:
  static double to_double(UnixSeconds at) { return static_cast<double>(unix_s(at)); }

  redis::Redis& redis_;
  const redis::Keys& keys_;
  const TagName tag_;
  const UnixSeconds now_;
  std::optional<UnixSeconds> from_;
};

// Highest first; ties as in ZREVRANGE.
bool ranks_before(const ScoredItem& a, const ScoredItem& b) {
  return a.score != b.score ? a.score > b.score : a.item > b.item;
}

// Reads the publish times of items that are not among the newest of the site. 1 RTT if there are
// any.
Task<Result<void>> read_missing_dates(redis::Redis& redis, const redis::Keys& keys,
                                      const std::vector<ScoredItem>& items,
                                      std::vector<std::optional<double>>& dates) {
  Pipeline read;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!dates[i]) read.add("HGET", keys.article(items[i].item.view()), "date");
  }
  if (read.empty()) co_return Result<void>();
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis, read));
  auto reply = replies->begin();
  for (std::optional<double>& each : dates) {
    if (!each) each = redis::parse<double>((reply++)->text());
  }
  co_return Result<void>();
}

// A page of those candidates that are in the rank and match the filter.
Task<Result<RankPage>> read_candidate_page(redis::Redis& redis, const redis::Keys& keys, const Model& model,
                                           const RankFilter& filter, std::vector<ScoredItem> candidates,
                                           std::int64_t offset, std::int64_t count) {
  RankPage page;
  if (candidates.empty()) co_return page;
  const redis::PartitionedCommand partitioned = by_partition(keys, candidates);
  Pipeline scores;
  partitioned.append(scores, "ZMSCORE",
                     [&](const redis::PartitionKeys& partition) { return partition.rank(model); });
  FRESHET_CO_TRY(rank_scores, co_await redis::run_all(redis, scores));
  std::vector<std::optional<double>> found_scores;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    found_scores.push_back(redis::parse<double>(partitioned.text(rank_scores->data(), i)));
  if (&model == &kNewestItems) {
    if (auto ok = co_await read_missing_dates(redis, keys, candidates, found_scores); !ok)
      co_return tl::unexpected(ok.error());
  }
  FRESHET_CO_TRY(matching, co_await filter.matches(candidates));
  std::vector<ScoredItem> found;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (found_scores[i] && (*matching)[i]) found.push_back({candidates[i].item, *found_scores[i]});
  }
  std::sort(found.begin(), found.end(), ranks_before);
  const std::int64_t size = std::ssize(found), end = std::min(offset + count, size);
  for (std::int64_t i = offset; i < end; ++i)
    page.items.push_back(std::move(found[static_cast<std::size_t>(i)]));
  if (end < size) page.next = RankCursor{end};
  co_return page;
}

// Reads up to `chunk` members from each partition that the merge is waiting for, and gives it those
// that match the filter. Returns the largest number of members read from one partition.
Task<Result<std::int64_t>> read_next_chunk(redis::Redis& redis, const redis::Keys& keys, const Model& model,
                                           const RankFilter& filter, redis::KWayMerge& merge,
                                           std::int64_t chunk) {
  const std::vector<unsigned> partitions = merge.inputs_to_read();
  Pipeline range;
  for (const unsigned each : partitions) {
    const std::int64_t from = merge.read_count(each);
    range.add("ZREVRANGE", keys.partition(each).rank(model), from, from + chunk - 1, "WITHSCORES");
  }
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis, range));
  std::vector<std::vector<redis::ScoredMember>> found;
  std::vector<ScoredItem> members;
  for (std::size_t i = 0; i < partitions.size(); ++i) {
    found.push_back(redis::parse_scored_members((*replies)[i], merge.read_count(partitions[i])));
    for (const redis::ScoredMember& each : found.back())
      members.push_back({ItemId::trusted(each.member), each.score});
  }
  FRESHET_CO_TRY(matching, co_await filter.matches(members));
  std::int64_t longest_read = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < partitions.size(); ++i) {
    const std::int64_t read = std::ssize(found[i]);
    longest_read = std::max(longest_read, read);
    std::erase_if(found[i], [&](const redis::ScoredMember&) { return !(*matching)[at++]; });
    merge.add(partitions[i], std::move(found[i]), read, read < chunk);
  }
  co_return longest_read;
}

}  // namespace

void append_bucket_repair(Pipeline& out, const redis::PartitionKeys& keys, std::int64_t hour,
                          const std::vector<std::string_view>& members) {
  out.script(scripts::kBucketRepair)
      .key(keys.current_bucket_index())
      .key(keys.current_bucket(hour))
      .key(keys.published());
  out.arg(hour);
  for (const std::string_view each : members) out.arg(each);
}

// --- cached lists

Task<Result<CachedList>> RedisHotStore::cached_list(const ListQuery& query) {
  const std::int64_t now = wall_ms().count(), interval = settings_.list.rebuild_interval.count();
  // Order matters: the list must be at least as new as its metadata, and the epoch at least as new
  // as both.
  Pipeline read;
  read.add("HMGET", keys_.list_meta(query), "built_ms", "epoch").barrier();
  read.add("GET", keys_.list(query)).barrier();
  read.add("GET", keys_.epoch());
  for (const redis::PartitionKeys& each : keys_.partitions()) {
    const std::string hidden = each.hidden();
    read.add("ZREVRANGEBYSCORE", hidden, now / 1000, "-inf", "WITHSCORES", "LIMIT", 0, 1);
    read.add("ZRANGEBYSCORE", hidden, exclusive_min(now / 1000), "(inf", "WITHSCORES", "LIMIT", 0, 1);
  }
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, read));
  const redis::Reply& meta = (*replies)[0];
  CachedList out;
  out.built_ms = redis::parse_or_zero<std::int64_t>(redis::string_at(meta, 0));
  out.epoch = (*replies)[2].is_nil() ? "0" : std::string((*replies)[2].text());
  bool is_valid = redis::string_at(meta, 1) == out.epoch;
  const std::int64_t built_s = out.built_ms / 1000;
  for (std::size_t i = 3; i < replies->size(); i += 2) {
    const auto last_reveal = redis::parse<double>(redis::string_at((*replies)[i], 1));
    is_valid = is_valid && !(last_reveal && *last_reveal > static_cast<double>(built_s));
    const auto next = redis::parse<double>(redis::string_at((*replies)[i + 1], 1));
    if (!next) continue;
    const milliseconds due(static_cast<std::int64_t>(std::ceil(*next)) * 1000 - now);
    out.expires_in = std::min(out.expires_in.value_or(due), due);
  }
  if (is_valid) out.json = std::string((*replies)[1].text());
  out.below_floor = out.json.starts_with(kBelowFloor);
  if (out.below_floor) out.json.erase(0, 1);
  if (!out.json.empty() && out.built_ms / interval == now / interval) {
    out.freshness = CachedList::Freshness::kFresh;
    co_return out;
  }
  Pipeline lock;
  lock.add("SET", keys_.list_lock(query), now, "NX", "PX", redis::kListLockTtl.count());
  lock.add("GET", keys_.list_lock(query));
  FRESHET_CO_TRY(locked, co_await redis::run_all(redis_, lock));
  if (!(*locked)[0].is_nil()) {
    out.freshness = CachedList::Freshness::kMustBuild;
    out.built_ms = now;
  } else {
    const bool is_slow = (*locked)[1].text() == kSlow;
    out.freshness = is_slow ? CachedList::Freshness::kTooSlow : CachedList::Freshness::kStale;
  }
  co_return out;
}

void RedisHotStore::store_list(const ListQuery& query, const CachedList& built) {
  Pipeline out;
  out.script(scripts::kListStore)
      .key(keys_.list(query))
      .key(keys_.list_meta(query))
      .key(keys_.list_lock(query))
      .key(keys_.epoch())
      .arg(built.below_floor ? kBelowFloor + built.json : built.json)
      .arg(built.built_ms)
      .arg(built.epoch)
      .arg(settings_.list.ttl.count());
  // If lost, the lock expires and another process rebuilds the list.
  writers_.write_queue.post(std::move(out));
}

void RedisHotStore::mark_list_slow(const ListQuery& query) {
  Pipeline out;
  out.add("SET", keys_.list_lock(query), kSlow, "PX", kSlowListTtl.count());
  writers_.write_queue.post(std::move(out));
}

// --- ranks

Task<Result<RankPage>> RedisHotStore::rank_page(const ListQuery& query, RankCursor from, std::int64_t count) {
  const RankFilter filter(redis_, keys_, query);
  if (filter.is_active()) {
    FRESHET_CO_TRY(small_set, co_await filter.small_candidate_set());
    const std::int64_t offset = from.empty() ? 0 : from.front();
    if (*small_set)
      co_return co_await read_candidate_page(redis_, keys_, *query.model, filter, std::move(**small_set),
                                             offset, count);
  }
  from.resize(keys_.partition_count());
  redis::KWayMerge merge(from);
  RankPage page;
  std::int64_t read_budget = redis::read_size(kMaxMembersRead, keys_.partition_count());
  for (std::int64_t chunk = filter.is_active() ? std::max(count, kInitialChunk) : count;; chunk *= 2) {
    while (std::ssize(page.items) < count) {
      auto next = merge.pop();
      if (!next) break;
      page.items.push_back({ItemId::trusted(std::move(next->member)), next->score});
    }
    if (merge.is_exhausted()) co_return page;
    if (std::ssize(page.items) == count || read_budget == 0) break;
    const std::int64_t per_partition =
        std::min(redis::read_size(chunk, keys_.partition_count()), read_budget);
    FRESHET_CO_TRY(read, co_await read_next_chunk(redis_, keys_, *query.model, filter, merge, per_partition));
    read_budget -= *read;
  }
  page.next = merge.consumed();
  co_return page;
}

// --- mode = current

Task<Result<bool>> RedisHotStore::has_items(const TagName& tag) {
  Pipeline count;
  for (const redis::PartitionKeys& each : keys_.partitions())
    count.add("SCARD", each.tagged_items(tag.view()));
  FRESHET_CO_TRY(counts, co_await redis::run_all(redis_, count));
  co_return std::any_of(counts->begin(), counts->end(),
                        [](const redis::Reply& each) { return each.integer().value_or(1) > 0; });
}

Task<Result<std::vector<BucketUpperBound>>> RedisHotStore::buckets() {
  Pipeline command;
  for (const redis::PartitionKeys& each : keys_.partitions())
    command.add("ZRANGE", each.current_bucket_index(), 0, -1, "WITHSCORES");
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
  std::vector<BucketUpperBound> out;
  for (unsigned partition = 0; partition < keys_.partition_count(); ++partition) {
    const redis::Reply& index = (*replies)[partition];
    for (std::size_t i = 0; i + 1 < index.size(); i += 2) {
      out.push_back({{redis::parse_or_zero<std::int64_t>(redis::string_at(index, i)), partition},
                     redis::parse_or_zero<double>(redis::string_at(index, i + 1))});
    }
  }
  co_return out;
}

Task<Result<std::vector<BucketMember>>> RedisHotStore::bucket_heads(const std::vector<BucketName>& buckets,
                                                                    std::int64_t offset, std::int64_t count) {
  std::vector<BucketMember> out;
  std::vector<std::vector<std::size_t>> buckets_by_partition(keys_.partition_count());
  for (std::size_t k = 0; k < buckets.size(); ++k) buckets_by_partition[buckets[k].partition].push_back(k);
  for (bool retry = !buckets.empty(); retry;) {
    retry = false;
    out.clear();
    Pipeline read, dates, repair;
    for (const BucketName& each : buckets) {
      const std::string bucket = keys_.partition(each.partition).current_bucket(each.hour);
      read.add("ZREVRANGE", bucket, offset, offset + count - 1, "WITHSCORES");
    }
    for (unsigned g = 0; g < keys_.partition_count(); ++g) {
      if (buckets_by_partition[g].empty()) continue;
      read.command(2 + buckets_by_partition[g].size())
          .arg("ZMSCORE")
          .arg(keys_.partition(g).current_bucket_index());
      for (const std::size_t k : buckets_by_partition[g]) read.arg(buckets[k].hour);
    }
    FRESHET_CO_TRY(heads, co_await redis::run_all(redis_, read));
    std::vector<ScoredItem> all;
    for (std::size_t k = 0; k < buckets.size(); ++k) {
      for (redis::ScoredMember& each : redis::parse_scored_members((*heads)[k], 0))
        all.push_back({ItemId::trusted(std::move(each.member)), each.score});
    }
    std::vector<std::string_view> bounds(buckets.size());  // as stored in the index
    std::size_t reply = buckets.size();
    for (const auto& indices : buckets_by_partition) {
      for (std::size_t i = 0; i < indices.size(); ++i)
        bounds[indices[i]] = redis::string_at((*heads)[reply], i);
      if (!indices.empty()) ++reply;
    }
    const redis::PartitionedCommand partitioned = by_partition(keys_, all);
    redis::Replies published;
    if (!all.empty()) {
      partitioned.append(dates, "ZMSCORE",
                         [](const redis::PartitionKeys& partition) { return partition.published(); });
      FRESHET_CO_TRY(found, co_await redis::run_all(redis_, dates));
      published = std::move(*found);
    }
    std::size_t at = 0;
    for (std::size_t k = 0; k < buckets.size(); ++k) {
      const redis::Reply& head = (*heads)[k];
      const auto [hour, partition] = buckets[k];
      std::vector<std::string_view> misplaced;
      for (const std::size_t end = at + head.size() / 2; at < end; ++at) {
        const auto text = partitioned.text(published.data(), at);
        // hot:published is capped: an article beyond the cap has no date there.
        const std::int64_t date = text.empty() ? hour * kHourSeconds : redis::to_int(text);
        if (std::floor(static_cast<double>(date) / kHourSeconds) == static_cast<double>(hour))
          out.push_back({all[at].item, all[at].score, UnixSeconds{seconds{date}}, partition});
        else
          misplaced.push_back(all[at].item.view());
      }
      const bool bound_is_exact = offset > 0 || bounds[k] == redis::string_at(head, 1);
      retry = retry || !misplaced.empty();
      if (bound_is_exact && misplaced.empty()) continue;
      append_bucket_repair(repair, keys_.partition(partition), hour, misplaced);
    }
    if (repair.empty()) break;
    FRESHET_CO_TRY(repaired, co_await redis::run_all(redis_, repair));
  }
  co_return out;
}

}  // namespace freshet::hot
