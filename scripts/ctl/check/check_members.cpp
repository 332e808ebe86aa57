#include "scripts/ctl/check/check_members.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <thread>
#include <utility>

#include "core/hot/article.h"
#include "core/hot/placing.h"
#include "core/redis/fields.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/commands/redis_walk.h"

namespace freshet::ctl {

using hot::kModels;
using hot::Model;
using redis::PartitionKeys;
using redis::Pipeline;
using redis::Reply;
using redis::string_at;

namespace {

// KEYS 1 hot:current:{hour}  2 hot:current:index  ARGV 1 hour. At one moment: both move together.
constexpr std::string_view kBestAndBound =
    "local best = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES') "
    "return {best[2] or '', redis.call('ZSCORE', KEYS[2], ARGV[1]) or ''}";
// From a report to its article's place, with room: at most so old is what may be wrong.
constexpr milliseconds kPlacingTime{2000};

}  // namespace

Result<void> MemberCheck::bucket(const std::string& key, std::string_view hour) {
  Pipeline pipeline;
  pipeline.add("EVAL", kBestAndBound, 2, key, keys_.partition_in_key(key).current_bucket_index(), hour);
  FRESHET_TRY(replies, ask(redis_, pipeline));
  const auto best = redis::parse<double>(string_at(replies->front(), 0));
  const auto bound = redis::parse<double>(string_at(replies->front(), 1));
  if (best && (!bound || *bound < *best)) {
    findings_.add(
        kinds::kBound, key,
        fmt::format("best {:.17g}, index {}", *best, bound ? fmt::format("{:.17g}", *bound) : "none"));
  }
  if (auto ok = scores(key, "0"); !ok) return ok;
  return members(kinds::kNoCounters, key, "ZREM", [&](std::string_view id) { return keys_.article(id); });
}

Result<void> MemberCheck::tag(const std::string& key) {
  return members(kinds::kNoItem, key, "SREM", [&](std::string_view id) { return keys_.item(id); });
}

// No score at or below `lowest`, none infinite. O(log n).
Result<void> MemberCheck::scores(const std::string& key, const char* lowest) {
  Pipeline pipeline;
  pipeline.add("ZRANGEBYSCORE", key, "-inf", lowest, "WITHSCORES", "LIMIT", 0, kPage);
  pipeline.add("ZRANGEBYSCORE", key, "+inf", "+inf", "WITHSCORES", "LIMIT", 0, kPage);
  FRESHET_TRY(replies, ask(redis_, pipeline));
  for (const Reply& each : *replies) {
    for (std::size_t i = 0; i + 1 < each.size(); i += 2) {
      findings_.add(kinds::kBadScore, key, fmt::format("{} has {}", string_at(each, i), string_at(each, i + 1)));
    }
  }
  return {};
}

// Members of `key` whose witness is not there are stale.
Result<void> MemberCheck::members(const Kind& kind, const std::string& key, const char* remove,
                                  const Witness& witness) {
  return walk(redis_, remove == std::string_view("SREM") ? "SSCAN" : "ZSCAN", key,
              [&](const std::vector<std::string>& found) -> Result<void> {
                Pipeline exists;
                for (const std::string& each : found) {
                  exists.add("EXISTS", witness(each));
                }
                FRESHET_TRY(replies, ask(redis_, exists));
                std::vector<std::string> stale;
                for (std::size_t i = 0; i < found.size(); ++i) {
                  if ((*replies)[i].integer().value_or(1) == 0) stale.push_back(found[i]);
                }
                return stale_members(kind, key, remove, stale, witness);
              });
}

Result<void> MemberCheck::stale_members(const Kind& kind, const std::string& key, const char* remove,
                                        const std::vector<std::string>& stale, const Witness& witness) {
  for (const std::string& each : stale) findings_.add(kind, key, each);
  if (!sweep_ || stale.empty()) return {};
  // Again, right before: what came back meanwhile stays.
  Pipeline look, sweep;
  for (const std::string& each : stale) look.add("EXISTS", witness(each));
  FRESHET_TRY(there, ask(redis_, look));
  for (std::size_t i = 0; i < stale.size(); ++i) {
    if ((*there)[i].integer().value_or(1) == 0)
      sweep.add(remove, key, stale[i]);
    else
      findings_.swept(kind);  // no longer stale
  }
  return run_sweep(kind, sweep);
}

Result<void> MemberCheck::run_sweep(const Kind& kind, const Pipeline& sweep) {
  if (!sweep_ || sweep.empty()) return {};
  FRESHET_TRY(replies, ask(redis_, sweep));
  for (const Reply& each : *replies) {
    if (each.is_error())
      return fail(ErrorCode::kInternal, "redis_error", {}, "sweeping: " + std::string(each.error()));
    findings_.swept(kind);
  }
  return {};
}

Result<void> MemberCheck::ranks() {
  struct Rank {
    std::string key;
    const char* lowest;  // a score may not be this, nor lower
  };
  std::vector<Rank> ranks;
  for (const PartitionKeys& group : keys_.partitions()) {
    ranks.push_back({group.published(), "(0"});
    // A rank key is a logarithm: any finite number will do.
    for (const Model& model : kModels)
      ranks.push_back({group.rank(model), model.base != nullptr ? "-inf" : "0"});
  }
  for (const Rank& each : ranks) {
    Pipeline size;
    size.add("ZCARD", each.key);
    FRESHET_TRY(replies, ask(redis_, size));
    const std::int64_t members_there = replies->front().integer().value_or(0);
    if (members_there > hot::max_rank_members(settings_, keys_)) {
      findings_.add(kinds::kOverCap, each.key, grouped(members_there));
    }
    if (auto ok = scores(each.key, each.lowest); !ok) return ok;
    const auto article = [&](std::string_view id) { return keys_.article(id); };
    if (auto ok = members(kinds::kNoCounters, each.key, "ZREM", article); !ok) return ok;
  }
  for (const PartitionKeys& group : keys_.partitions()) {
    if (auto ok = hottest(group); !ok) return ok;
  }
  return {};
}

// The highest place must stand for a finite score now, if it was made with the configuration's
// parameters.
Result<void> MemberCheck::hottest(const PartitionKeys& group) {
  Pipeline pipeline;
  pipeline.add("HGET", group.meta(), "formula").add("TIME");
  for (const Model& model : kModels) pipeline.add("ZREVRANGE", group.rank(model), 0, 0, "WITHSCORES");
  FRESHET_TRY(replies, ask(redis_, pipeline));
  if (replies->front().string().value_or("") != hot::params_fingerprint(settings_)) return {};
  const UnixSeconds now{seconds{redis::to_int(string_at((*replies)[1], 0))}};
  for (const Model& model : kModels) {
    const Reply& best = (*replies)[2 + hot::index_of(model)];
    const auto place = redis::parse<double>(string_at(best, 1));
    if (place && !std::isfinite(hot::score_at(model, *place, now, settings_)))
      findings_.add(kinds::kBadScore, group.rank(model),
                    fmt::format("{} has {:.17g}", string_at(best, 0), *place));
  }
  return {};
}

// Sums of logarithms and their texts come back as they were: places are compared exactly.
Result<void> MemberCheck::places(const std::vector<std::string>& ids) {
  if (ids.empty()) return {};
  Pipeline pipeline;
  pipeline.add("TIME");
  for (const std::string& id : ids) {
    hot::append_article_read(pipeline, keys_, id);
    const PartitionKeys group = keys_.partition_for(id);
    for (const Model& model : kModels) pipeline.add("ZSCORE", group.rank(model), id);
  }
  FRESHET_TRY(replies, ask(redis_, pipeline));
  const UnixSeconds now{seconds{redis::to_int(string_at(replies->front(), 0))}};
  const Reply* at = &(*replies)[1];
  for (const std::string& id : ids) {
    const Reply& fields = *at++;
    const Reply* const found = std::exchange(at, at + kModels.size());
    if (fields.is_error()) continue;
    const hot::Article article = hot::parse_article(fields, now, settings_);
    const auto is_wrong = [&](const Model& model) {
      return redis::parse<double>(found[hot::index_of(model)].string().value_or("")) !=
             hot::rank_score(article, model, settings_);
    };
    if (std::ranges::any_of(kModels, is_wrong)) misplaced_.push_back(id);
  }
  return {};
}

Result<void> MemberCheck::places_again() {
  if (misplaced_.empty()) return {};
  Pipeline look;
  for (const PartitionKeys& group : keys_.partitions()) look.add("HMGET", group.meta(), "formula", "next");
  FRESHET_TRY(metas, ask(redis_, look));
  const std::string formula = hot::params_fingerprint(settings_);
  const auto settled = [&](const Reply& meta) {  // not being made anew, nor to be
    return string_at(meta, 0) == formula && string_at(meta, 1).empty();
  };
  std::erase_if(misplaced_, [&](const std::string& id) { return !settled((*metas)[keys_.partition_of(id)]); });
  if (misplaced_.empty()) return {};
  std::this_thread::sleep_for(kPlacingTime);
  for (const std::string& id : misplaced_) {
    if (auto ok = wrong_places(id); !ok) return ok;
  }
  return {};
}

// None are those that were written within the last two seconds.
Result<void> MemberCheck::wrong_places(const std::string& id) {
  const PartitionKeys group = keys_.partition_for(id);
  Pipeline pipeline;
  for (const Model& model : kModels) {
    const std::string key = group.rank(model);
    pipeline.add("ZSCORE", key, id).add("ZCARD", key).add("ZRANGE", key, 0, 0, "WITHSCORES");
  }
  // Behind its places: when they were of an older version, this one is too new to be judged.
  pipeline.barrier();
  hot::append_article_read(pipeline, keys_, id);
  pipeline.add("TIME");
  FRESHET_TRY(replies, ask(redis_, pipeline));
  const redis::Replies& read = *replies;
  const Reply &fields = read[read.size() - 2], &time = read.back();
  const UnixSeconds now{seconds{redis::to_int(string_at(time, 0))}};
  const std::int64_t now_us = unix_s(now) * 1'000'000 + redis::to_int(string_at(time, 1));
  const hot::Article article = hot::parse_article(fields, now, settings_);
  if (article.version > now_us - std::chrono::microseconds(kPlacingTime).count()) return {};
  for (const Model& model : kModels) {
    const std::size_t at = 3 * hot::index_of(model);
    const auto is = redis::parse<double>(read[at].string().value_or(""));
    const auto due = hot::rank_score(article, model, settings_);
    const bool full = read[at + 1].integer().value_or(0) >= hot::max_rank_members(settings_, keys_);
    // What is below has no place.
    const double lowest =
        full ? redis::parse_or_zero<double>(string_at(read[at + 2], 1)) : hot::min_rank_score(model, now, settings_);
    const bool dropped = !is && due && *due <= lowest;
    if (is == due || dropped) continue;
    const std::string key = group.rank(model);
    if (model.base != nullptr && is && article.counts.pv == 0 && !article.hidden) {
      findings_.add(kinds::kNoCounters, key, id);
      if (auto ok = sweep_expired(model, id, article.version); !ok) return ok;
      continue;
    }
    const auto text = [](const std::optional<double>& of) {
      return of ? fmt::format("{:.17g}", *of) : "no place";
    };
    findings_.add(kinds::kMisplaced, key,
                  fmt::format("{} has {}, its counters give {}", id, text(is), text(due)));
  }
  return {};
}

Result<void> MemberCheck::sweep_expired(const Model& model, const std::string& id, std::int64_t version) {
  if (!sweep_) return {};
  Pipeline look, drop;
  look.add("HGET", keys_.article(id), "v");
  FRESHET_TRY(now, ask(redis_, look));
  if (now->front().string().value_or("") == std::to_string(version))
    drop.add("HDEL", keys_.partition_for(id).rank_versions(model), id)
        .add("ZREM", keys_.partition_for(id).rank(model), id);
  if (!drop.empty()) {
    FRESHET_TRY(dropped, ask(redis_, drop));
  }
  findings_.swept(kinds::kNoCounters);
  return {};
}

Result<void> MemberCheck::index() {
  for (const PartitionKeys& group : keys_.partitions()) {
    const auto bucket = [&](std::string_view hour) {
      return group.current_bucket(redis::parse_or_zero<std::int64_t>(hour));
    };
    if (auto ok = members(kinds::kNoBucket, group.current_bucket_index(), "ZREM", bucket); !ok) return ok;
  }
  return {};
}

Result<void> MemberCheck::hidden() {
  for (const PartitionKeys& group : keys_.partitions()) {
    auto ok = walk(redis_, "ZSCAN", group.hidden(),
                   [&](const std::vector<std::string>& found) { return hidden_and_listed(group, found); });
    if (ok) ok = forget_hidden(group);
    if (!ok) return ok;
  }
  return {};
}

Result<void> MemberCheck::hidden_and_listed(const PartitionKeys& group, const std::vector<std::string>& found) {
  Pipeline listed, hidden;
  for (const std::string& each : found) {
    for (const Model& model : kModels) listed.add("ZSCORE", group.rank(model), each);
    hidden.add("ZSCORE", group.hidden(), each);
  }
  // Whether it is hidden is read last: an item that is shown again leaves that set first.
  FRESHET_TRY(in_rank, ask(redis_, listed));
  FRESHET_TRY(is_hidden, ask(redis_, hidden));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto places = std::span(*in_rank).subspan(i * kModels.size(), kModels.size());
    const bool shown = !std::ranges::all_of(places, &Reply::is_nil);
    const auto until = redis::parse<double>((*is_hidden)[i].string().value_or(""));
    if (shown && until && !redis::is_embargo(*until))
      findings_.add(kinds::kHiddenListed, group.hidden(), found[i]);
  }
  return {};
}

// A deleted item is remembered until its score in hot:hidden, and an embargo an hour beyond it.
Result<void> MemberCheck::forget_hidden(const PartitionKeys& group) {
  Pipeline clock;
  clock.add("TIME");
  FRESHET_TRY(replies, ask(redis_, clock));
  const std::string over =
      std::to_string(redis::parse_or_zero<std::int64_t>(string_at(replies->front(), 0)) - 3600);
  Pipeline old;
  old.add("ZRANGEBYSCORE", group.hidden(), "-inf", over);
  if (replies = ask(redis_, old); !replies) return tl::unexpected(replies.error());
  Pipeline sweep;
  for (std::size_t i = 0; i < replies->front().size(); ++i) {
    findings_.add(kinds::kOldHidden, group.hidden(), string_at(replies->front(), i));
    if (sweep_) findings_.swept(kinds::kOldHidden);
  }
  if (!sweep_ || replies->front().size() == 0) return {};
  sweep.add("ZREMRANGEBYSCORE", group.hidden(), "-inf", over);
  if (replies = ask(redis_, sweep); !replies) return tl::unexpected(replies.error());
  return {};
}

Result<void> MemberCheck::rebuild() {
  for (const PartitionKeys& group : keys_.partitions()) {
    for (const Model& model : kModels) {
      if (model.base == nullptr) continue;
      const std::string next = group.staging_rank(model);
      Pipeline pipeline;
      // The lock comes before the new rank and goes after it; one rebuild may end and another begin
      // in between.
      pipeline.add("EXISTS", next).barrier();
      pipeline.add("EXISTS", keys_.rank_rebuild_lock()).barrier();
      pipeline.add("EXISTS", next);
      FRESHET_TRY(replies, ask(redis_, pipeline));
      const auto there = [&](std::size_t i) { return (*replies)[i].integer().value_or(i == 1) == 1; };
      if (!there(0) || there(1) || !there(2)) continue;
      findings_.add(kinds::kOldRebuild, next);
      if (!sweep_) continue;
      if (auto ok = sweep_rebuild(next, group.staging_rank_versions(model)); !ok) return ok;
    }
  }
  return {};
}

// Under the lock of those who make ranks.
Result<void> MemberCheck::sweep_rebuild(const std::string& rank, const std::string& placed) {
  Pipeline lock, sweep;
  lock.add("SET", keys_.rank_rebuild_lock(), 1, "NX", "EX", redis::kRebuildLockTtl.count());
  FRESHET_TRY(locked, ask(redis_, lock));
  if (!locked->front().is_nil()) {
    sweep.add("UNLINK", rank).add("UNLINK", placed).barrier().add("DEL", keys_.rank_rebuild_lock());
    FRESHET_TRY(swept, ask(redis_, sweep));
  }
  findings_.swept(kinds::kOldRebuild);
  return {};
}

}  // namespace freshet::ctl
