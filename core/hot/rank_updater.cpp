#include "core/hot/rank_updater.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <utility>

#include "core/config/config_override.h"
#include "core/redis/errors.h"
#include "core/redis/fields.h"
#include "core/redis/schema.h"
#include "core/redis/scripts.h"

namespace freshet::hot {
namespace {

using redis::Pipeline;
using redis::Reply;

constexpr std::size_t kArticlesPerBatch = 500;
// Writes per script call. One takes Redis 2 to 3 µs, and other clients are served between two
// calls.
constexpr std::size_t kWritesPerCall = 256;

std::int64_t hour_of(UnixSeconds published) { return unix_s(published) / kHourSeconds; }

void optional_number(Pipeline& out, const std::optional<double>& value) {
  value ? out.arg(*value) : out.arg("");
}

// Writes of one partition.
void append_script_call(const Model& model, Pipeline& out, std::span<const RankWrite* const> writes,
                        UnixSeconds now, const Settings& settings, const redis::PartitionKeys& keys,
                        std::int64_t max_members, RankTarget target) {
  const bool computed = model.is_computed(), staging = computed && target == RankTarget::kStaging;
  out.script(scripts::kRankUpdate)
      .key(staging ? keys.staging_rank(model) : keys.rank(model))
      .key(staging ? keys.staging_rank_versions(model) : keys.rank_versions(model))
      .key(keys.published())
      .key(keys.hidden())
      .key(keys.meta())
      .key(keys.unranked());
  std::map<std::int64_t, std::size_t> buckets;  // hour → index of its key in KEYS, from 1
  if (!computed) {
    out.key(keys.current_bucket_index());
    for (const RankWrite* each : writes) {
      const std::int64_t hour = hour_of(each->published);
      if (buckets.emplace(hour, 8 + buckets.size()).second) out.key(keys.current_bucket(hour));
    }
  }
  out.arg(computed ? rank_parameters(model, settings) : "")
      .arg(redis::kSchemaVersion)
      .arg(rank_meta_field(model, staging ? RankTarget::kStaging : RankTarget::kLive))
      .arg(min_rank_score(model, now, settings))
      .arg(max_members)
      .arg(settings.views.counter_ttl.count());
  for (const RankWrite* write : writes) {
    const RankWrite& each = *write;
    out.arg(each.id);
    optional_number(out, each.score);
    each.has_counters || each.score ? out.arg(unix_s(each.published)) : out.arg("");
    out.arg(each.version);
    if (computed) continue;
    each.views_total > 0 ? out.arg(each.views_total) : out.arg("");
    const std::int64_t hour = hour_of(each.published);
    out.arg(buckets[hour]).arg(hour);
  }
}

}  // namespace

std::string rank_parameters(const Model& model, const Settings& settings) {
  std::string out;
  for (const std::string_view name : model.parameters) {
    std::array<char, 32> text;
    const auto end =
        std::to_chars(text.data(), text.data() + text.size(), directive_value(name, settings)).ptr;
    out.append(out.empty() ? "" : " ").append(text.data(), end);
  }
  return out;
}

std::string rank_meta_field(const Model& model, RankTarget target) {
  return (target == RankTarget::kStaging ? "next:" : "") + std::string(model.name);
}

RankWrite rank_write_for(const Model& model, std::string id, const Article& article,
                         const Settings& settings) {
  return {std::move(id),
          rank_score(article, model, settings),
          article.published.value_or(article.decay_start),
          article.version,
          article.has_counters(),
          article.views_total};
}

void add_rank_writes(RankWrites& to, const std::string& id, const Article& article, const Settings& settings,
                     RemovalPolicy removal) {
  for (const Model& model : kModels) {
    RankWrite write = rank_write_for(model, id, article, settings);
    if (write.score || removal == RemovalPolicy::kAll ||
        (removal == RemovalPolicy::kComputed && model.is_computed()))
      to.at(index_of(model)).push_back(std::move(write));
  }
}

std::int64_t max_rank_members(const Settings& settings, const redis::Keys& keys) {
  constexpr std::int64_t kSpare = 1000;
  return std::min(settings.list.max_members, settings.list.max_members / keys.partition_count() + kSpare);
}

std::size_t append_rank_writes(Pipeline& out, const RankWrites& writes, UnixSeconds now,
                               const Settings& settings, const redis::Keys& keys, RankTarget target) {
  std::size_t first_model_calls = 0;
  for (const Model& model : kModels) {
    std::vector<std::vector<const RankWrite*>> by_partition(keys.partition_count());
    for (const RankWrite& each : writes.at(index_of(model)))
      by_partition[keys.partition_of(each.id)].push_back(&each);
    for (unsigned g = 0; g < keys.partition_count(); ++g) {
      for (std::span<const RankWrite* const> remaining = by_partition[g]; !remaining.empty();) {
        const auto batch = remaining.first(std::min(remaining.size(), kWritesPerCall));
        append_script_call(model, out, batch, now, settings, keys.partition(g),
                           max_rank_members(settings, keys), target);
        if (index_of(model) == 0) ++first_model_calls;
        remaining = remaining.subspan(batch.size());
      }
    }
  }
  return first_model_calls;
}

Task<Result<std::int64_t>> rank_articles(redis::Redis& redis, std::span<const std::string> ids,
                                         const Settings& settings, const redis::Keys& keys,
                                         RankTarget target) {
  std::int64_t ranked = 0;
  for (std::size_t from = 0; from < ids.size(); from += kArticlesPerBatch) {
    const auto batch = ids.subspan(from, std::min(kArticlesPerBatch, ids.size() - from));
    Pipeline read;
    read.add("TIME");
    for (const std::string& id : batch) append_article_read(read, keys, id);
    FRESHET_CO_TRY(found, co_await redis::run_all(redis, read));
    const UnixSeconds now{seconds{redis::to_int(redis::string_at(found->front(), 0))}};
    RankWrites writes;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const Article article = parse_article((*found)[i + 1], now, settings);
      if (article.version != 0 && is_rankable(article))
        add_rank_writes(writes, batch[i], article, settings, RemovalPolicy::kComputed);
    }
    Pipeline write;
    const std::size_t first_model_calls = append_rank_writes(write, writes, now, settings, keys, target);
    if (write.empty()) continue;
    FRESHET_CO_TRY(done, co_await redis::run_all(redis, write));
    for (std::size_t i = 0; i < first_model_calls; ++i) ranked += (*done)[i].integer().value_or(0);
  }
  co_return ranked;
}

RankUpdater::RankUpdater(redis::WriteQueue& write_queue, const Settings& settings, redis::Keys keys,
                         redis::RunAfter after, CrashJournal* journal)
    : write_queue_(write_queue),
      settings_(settings),
      keys_(std::move(keys)),
      timer_(std::move(after), kFlushInterval, [this] { flush(); }),
      in_flight_(journal, kInFlightTtl) {}

void RankUpdater::add(const Model& model, RankWrite write, UnixSeconds now) {
  latest_event_time_ = std::max(latest_event_time_, now);
  const auto [at, is_new] = writes_.at(index_of(model)).try_emplace(write.id, write);
  if (is_new) ++pending_;
  if (at->second.version <= write.version) at->second = std::move(write);
  if (pending_ >= kMaxEntries) return flush();
  timer_.start();
}

void RankUpdater::flush() {
  RankWrites writes;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    for (auto& [id, write] : std::exchange(writes_.at(i), {})) writes.at(i).push_back(std::move(write));
  }
  pending_ = 0;
  Pipeline out;
  append_rank_writes(out, writes, latest_event_time_, settings_, keys_);
  if (out.empty()) return;
  const auto sent = std::make_shared<RankWrites>(std::move(writes));
  const bool is_queued = write_queue_.post(std::move(out), {}, [this, sent](std::span<const Reply> replies) {
    const auto is_refused = [](const Reply& each) {
      return each.is_error() && is_unavailable(redis::classify(each.error()));
    };
    if (std::ranges::all_of(replies, is_refused)) keep(std::move(*sent));  // or no replies
  });
  if (!is_queued) keep(std::move(*sent));
}

void RankUpdater::rank_again(std::string id) {
  if (rank_again_.size() >= kMaxEntries) return;
  mark_in_flight(id);
  rank_again_.insert_or_assign(std::move(id), kRankAgainTimes);
}

std::vector<std::string> RankUpdater::begin_rank_again() {
  std::vector<std::string> ids;
  for (auto& [id, remaining] : rank_again_) {
    mark_in_flight(id);
    --remaining;
    ids.push_back(id);
  }
  return ids;
}

void RankUpdater::end_rank_again(bool succeeded) {
  if (succeeded)
    std::erase_if(rank_again_, [](const auto& each) { return each.second <= 0; });
  else
    for (auto& [id, remaining] : rank_again_) remaining = kRankAgainTimes;
}

// Old writes are lost: the article's next event or rank maintenance repeats them. They must not be
// repeated, since Redis forgets the version of an article that has left the rank.
void RankUpdater::keep(RankWrites writes) {
  const std::int64_t oldest = std::chrono::microseconds((wall_now() - kMaxAge).time_since_epoch()).count();
  for (std::size_t i = 0; i < writes.size(); ++i) {
    for (RankWrite& each : writes.at(i)) {
      if (pending_ >= kMaxEntries / 2) break;
      if (each.version < oldest) continue;
      mark_in_flight(each.id);
      const auto [at, is_new] = writes_.at(i).try_emplace(each.id, each);
      if (is_new)
        ++pending_;
      else if (at->second.version < each.version)
        at->second = std::move(each);
    }
  }
  timer_.start();
}

}  // namespace freshet::hot
