#include "scripts/ctl/check/check_members.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <thread>
#include <utility>

#include "core/hot/article.h"
#include "core/hot/rank_updater.h"
#include "core/redis/fields.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/commands/redis_scan.h"

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
constexpr milliseconds kRankUpdateGrace{2000};

}  // namespace

Result<void> MemberCheck::check_bucket(const std::string& key, std::string_view hour) {
  Pipeline pipeline;
  pipeline.add("EVAL", kBestAndBound, 2, key, keys_.partition_in_key(key).current_bucket_index(), hour);
  FRESHET_TRY(replies, run_pipeline(redis_, pipeline));
  const auto best = redis::parse<double>(string_at(replies->front(), 0));
  const auto bound = redis::parse<double>(string_at(replies->front(), 1));
  if (best && (!bound || *bound < *best)) {
    findings_.add(
        kinds::kBucketBound, key,
        fmt::format("best {:.17g}, index {}", *best, bound ? fmt::format("{:.17g}", *bound) : "none"));
  }
  if (auto ok = check_scores(key, "0"); !ok) return ok;
  return check_members(kinds::kNoCounters, key, "ZREM", [&](std::string_view id) { return keys_.article(id); });
}

Result<void> MemberCheck::check_tag(const std::string& key) {
  return check_members(kinds::kNoItem, key, "SREM", [&](std::string_view id) { return keys_.item(id); });
}

// No score at or below `lowest`, none infinite. O(log n).
Result<void> MemberCheck::check_scores(const std::string& key, const char* lowest) {
  Pipeline pipeline;
  pipeline.add("ZRANGEBYSCORE", key, "-inf", lowest, "WITHSCORES", "LIMIT", 0, kPageSize);
  pipeline.add("ZRANGEBYSCORE", key, "+inf", "+inf", "WITHSCORES", "LIMIT", 0, kPageSize);
  FRESHET_TRY(replies, run_pipeline(redis_, pipeline));
  for (const Reply& each : *replies) {
    for (std::size_t i = 0; i + 1 < each.size(); i += 2) {
      findings_.add(kinds::kBadScore, key, fmt::format("{} has {}", string_at(each, i), string_at(each, i + 1)));
    }
  }
  return {};
}

// Members of `key` whose witness is not there are stale.
Result<void> MemberCheck::check_members(const FindingKind& kind, const std::string& key, const char* remove,
                                  const RequiredKey& required_key) {
  return scan_all(redis_, remove == std::string_view("SREM") ? "SSCAN" : "ZSCAN", key,
              [&](const std::vector<std::string>& page) -> Result<void> {
                Pipeline exists;
                for (const std::string& each : page) {
                  exists.add("EXISTS", required_key(each));
                }
                FRESHET_TRY(replies, run_pipeline(redis_, exists));
                std::vector<std::string> stale;
                for (std::size_t i = 0; i < page.size(); ++i) {
                  if ((*replies)[i].integer().value_or(1) == 0) stale.push_back(page[i]);
                }
                return report_stale(kind, key, remove, stale, required_key);
              });
}

Result<void> MemberCheck::report_stale(const FindingKind& kind, const std::string& key, const char* remove,
                                        const std::vector<std::string>& stale, const RequiredKey& required_key) {
  for (const std::string& each : stale) findings_.add(kind, key, each);
  if (!sweep_ || stale.empty()) return {};
  // Again, right before: what came back meanwhile stays.
  Pipeline existence, sweep;
  for (const std::string& each : stale) existence.add("EXISTS", required_key(each));
  FRESHET_TRY(existing, run_pipeline(redis_, existence));
  for (std::size_t i = 0; i < stale.size(); ++i) {
    if ((*existing)[i].integer().value_or(1) == 0)
      sweep.add(remove, key, stale[i]);
    else
      findings_.mark_swept(kind);  // no longer stale
  }
  return run_sweep(kind, sweep);
}

Result<void> MemberCheck::run_sweep(const FindingKind& kind, const Pipeline& sweep) {
  if (!sweep_ || sweep.empty()) return {};
  FRESHET_TRY(replies, run_pipeline(redis_, sweep));
  for (const Reply& each : *replies) {
    if (each.is_error())
      return fail(ErrorCode::kInternal, "redis_error", {}, "sweeping: " + std::string(each.error()));
    findings_.mark_swept(kind);
  }
  return {};
}

Result<void> MemberCheck::check_ranks() {
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
    FRESHET_TRY(replies, run_pipeline(redis_, size));
    const std::int64_t members_there = replies->front().integer().value_or(0);
    if (members_there > hot::max_rank_members(settings_, keys_)) {
      findings_.add(kinds::kOverLimit, each.key, format_number(members_there));
    }
    if (auto ok = check_scores(each.key, each.lowest); !ok) return ok;
    const auto article = [&](std::string_view id) { return keys_.article(id); };
    if (auto ok = check_members(kinds::kNoCounters, each.key, "ZREM", article); !ok) return ok;
  }
  for (const PartitionKeys& group : keys_.partitions()) {
    if (auto ok = check_top_score(group); !ok) return ok;
  }
  return {};
}

// The highest place must stand for a finite score now, if it was made with the configuration's
// parameters.
Result<void> MemberCheck::check_top_score(const PartitionKeys& group) {
  Pipeline pipeline;
  pipeline.add("HGET", group.meta(), "formula").add("TIME");
  for (const Model& model : kModels) pipeline.add("ZREVRANGE", group.rank(model), 0, 0, "WITHSCORES");
  FRESHET_TRY(replies, run_pipeline(redis_, pipeline));
  if (replies->front().string().value_or("") != hot::params_fingerprint(settings_)) return {};
  const UnixSeconds now{seconds{redis::to_int(string_at((*replies)[1], 0))}};
  for (const Model& model : kModels) {
    const Reply& best = (*replies)[2 + hot::index_of(model)];
    const auto score = redis::parse<double>(string_at(best, 1));
    if (score && !std::isfinite(hot::score_at(model, *score, now, settings_)))
      findings_.add(kinds::kBadScore, group.rank(model),
                    fmt::format("{} has {:.17g}", string_at(best, 0), *score));
  }
  return {};
}

// Sums of logarithms and their texts come back as they were: places are compared exactly.
Result<void> MemberCheck::compare_rank_scores(const std::vector<std::string>& ids) {
  if (ids.empty()) return {};
  Pipeline pipeline;
  pipeline.add("TIME");
  for (const std::string& id : ids) {
    hot::append_article_read(pipeline, keys_, id);
    const PartitionKeys group = keys_.partition_for(id);
    for (const Model& model : kModels) pipeline.add("ZSCORE", group.rank(model), id);
  }
  FRESHET_TRY(replies, run_pipeline(redis_, pipeline));
  const UnixSeconds now{seconds{redis::to_int(string_at(replies->front(), 0))}};
  const Reply* at = &(*replies)[1];
  for (const std::string& id : ids) {
    const Reply& fields = *at++;
    const Reply* const scores = std::exchange(at, at + kModels.size());
    if (fields.is_error()) continue;
    const hot::Article article = hot::parse_article(fields, now, settings_);
    const auto is_wrong = [&](const Model& model) {
      return redis::parse<double>(scores[hot::index_of(model)].string().value_or("")) !=
             hot::rank_score(article, model, settings_);
    };
    if (std::ranges::any_of(kModels, is_wrong)) misplaced_.push_back(id);
  }
  return {};
}

Result<void> MemberCheck::recheck_rank_scores() {
  if (misplaced_.empty()) return {};
  Pipeline meta_query;
  for (const PartitionKeys& group : keys_.partitions()) meta_query.add("HMGET", group.meta(), "formula", "next");
  FRESHET_TRY(metas, run_pipeline(redis_, meta_query));
  const std::string formula = hot::params_fingerprint(settings_);
  const auto settled = [&](const Reply& meta) {  // not being made anew, nor to be
    return string_at(meta, 0) == formula && string_at(meta, 1).empty();
  };
  std::erase_if(misplaced_, [&](const std::string& id) { return !settled((*metas)[keys_.partition_of(id)]); });
  if (misplaced_.empty()) return {};
  std::this_thread::sleep_for(kRankUpdateGrace);
  for (const std::string& id : misplaced_) {
    if (auto ok = report_wrong_scores(id); !ok) return ok;
  }
  return {};
}

// None are those that were written within the last two seconds.
Result<void> MemberCheck::report_wrong_scores(const std::string& id) {
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
  FRESHET_TRY(replies, run_pipeline(redis_, pipeline));
  const redis::Replies& read = *replies;
  const Reply &fields = read[read.size() - 2], &time = read.back();
  const UnixSeconds now{seconds{redis::to_int(string_at(time, 0))}};
  const std::int64_t now_us = unix_s(now) * 1'000'000 + redis::to_int(string_at(time, 1));
  const hot::Article article = hot::parse_article(fields, now, settings_);
  if (article.version > now_us - std::chrono::microseconds(kRankUpdateGrace).count()) return {};
  for (const Model& model : kModels) {
    const std::size_t at = 3 * hot::index_of(model);
    const auto actual = redis::parse<double>(read[at].string().value_or(""));
    const auto expected = hot::rank_score(article, model, settings_);
    const bool full = read[at + 1].integer().value_or(0) >= hot::max_rank_members(settings_, keys_);
    // What is below has no place.
    const double lowest =
        full ? redis::parse_or_zero<double>(string_at(read[at + 2], 1)) : hot::min_rank_score(model, now, settings_);
    const bool dropped = !actual && expected && *expected <= lowest;
    if (actual == expected || dropped) continue;
    const std::string key = group.rank(model);
    if (model.base != nullptr && actual && article.counts.pv == 0 && !article.hidden) {
      findings_.add(kinds::kNoCounters, key, id);
      if (auto ok = sweep_expired(model, id, article.version); !ok) return ok;
      continue;
    }
    const auto text = [](const std::optional<double>& score) {
      return score ? fmt::format("{:.17g}", *score) : "no place";
    };
    findings_.add(kinds::kMisplaced, key,
                  fmt::format("{} has {}, its counters give {}", id, text(actual), text(expected)));
  }
  return {};
}

Result<void> MemberCheck::sweep_expired(const Model& model, const std::string& id, std::int64_t version) {
  if (!sweep_) return {};
  Pipeline version_query, drop;
  version_query.add("HGET", keys_.article(id), "v");
  FRESHET_TRY(now, run_pipeline(redis_, version_query));
  if (now->front().string().value_or("") == std::to_string(version))
    drop.add("HDEL", keys_.partition_for(id).rank_versions(model), id)
        .add("ZREM", keys_.partition_for(id).rank(model), id);
  if (!drop.empty()) {
    FRESHET_TRY(dropped, run_pipeline(redis_, drop));
  }
  findings_.mark_swept(kinds::kNoCounters);
  return {};
}

Result<void> MemberCheck::check_bucket_index() {
  for (const PartitionKeys& group : keys_.partitions()) {
    const auto bucket = [&](std::string_view hour) {
      return group.current_bucket(redis::parse_or_zero<std::int64_t>(hour));
    };
    if (auto ok = check_members(kinds::kNoBucket, group.current_bucket_index(), "ZREM", bucket); !ok) return ok;
  }
  return {};
}

Result<void> MemberCheck::check_hidden() {
  for (const PartitionKeys& group : keys_.partitions()) {
    auto ok = scan_all(redis_, "ZSCAN", group.hidden(),
                   [&](const std::vector<std::string>& page) { return find_listed_hidden(group, page); });
    if (ok) ok = check_expired_hidden(group);
    if (!ok) return ok;
  }
  return {};
}

Result<void> MemberCheck::find_listed_hidden(const PartitionKeys& group, const std::vector<std::string>& page) {
  Pipeline listed, hidden;
  for (const std::string& each : page) {
    for (const Model& model : kModels) listed.add("ZSCORE", group.rank(model), each);
    hidden.add("ZSCORE", group.hidden(), each);
  }
  // Whether it is hidden is read last: an item that is shown again leaves that set first.
  FRESHET_TRY(in_rank, run_pipeline(redis_, listed));
  FRESHET_TRY(is_hidden, run_pipeline(redis_, hidden));
  for (std::size_t i = 0; i < page.size(); ++i) {
    const auto scores = std::span(*in_rank).subspan(i * kModels.size(), kModels.size());
    const bool listed_somewhere = !std::ranges::all_of(scores, &Reply::is_nil);
    const auto until = redis::parse<double>((*is_hidden)[i].string().value_or(""));
    if (listed_somewhere && until && !redis::is_embargo(*until))
      findings_.add(kinds::kHiddenListed, group.hidden(), page[i]);
  }
  return {};
}

// A deleted item is remembered until its score in hot:hidden, and an embargo an hour beyond it.
Result<void> MemberCheck::check_expired_hidden(const PartitionKeys& group) {
  Pipeline clock;
  clock.add("TIME");
  FRESHET_TRY(replies, run_pipeline(redis_, clock));
  const std::string over =
      std::to_string(redis::parse_or_zero<std::int64_t>(string_at(replies->front(), 0)) - 3600);
  Pipeline old;
  old.add("ZRANGEBYSCORE", group.hidden(), "-inf", over);
  if (replies = run_pipeline(redis_, old); !replies) return tl::unexpected(replies.error());
  Pipeline sweep;
  for (std::size_t i = 0; i < replies->front().size(); ++i) {
    findings_.add(kinds::kExpiredHidden, group.hidden(), string_at(replies->front(), i));
    if (sweep_) findings_.mark_swept(kinds::kExpiredHidden);
  }
  if (!sweep_ || replies->front().size() == 0) return {};
  sweep.add("ZREMRANGEBYSCORE", group.hidden(), "-inf", over);
  if (replies = run_pipeline(redis_, sweep); !replies) return tl::unexpected(replies.error());
  return {};
}

Result<void> MemberCheck::check_abandoned_rebuilds() {
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
      FRESHET_TRY(replies, run_pipeline(redis_, pipeline));
      const auto exists = [&](std::size_t i) { return (*replies)[i].integer().value_or(i == 1) == 1; };
      if (!exists(0) || exists(1) || !exists(2)) continue;
      findings_.add(kinds::kAbandonedRebuild, next);
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
  FRESHET_TRY(locked, run_pipeline(redis_, lock));
  if (!locked->front().is_nil()) {
    sweep.add("UNLINK", rank).add("UNLINK", placed).barrier().add("DEL", keys_.rank_rebuild_lock());
    FRESHET_TRY(swept, run_pipeline(redis_, sweep));
  }
  findings_.mark_swept(kinds::kAbandonedRebuild);
  return {};
}

}  // namespace freshet::ctl
