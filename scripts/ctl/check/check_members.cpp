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
#include "core/hot/rebuild.h"
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

// KEYS 1 hot:current:{hour}  2 hot:current:index  ARGV 1 hour. One script, because both change
// together.
constexpr std::string_view kBestAndBound =
    "local best = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES') "
    "return {best[2] or '', redis.call('ZSCORE', KEYS[2], ARGV[1]) or ''}";
// A rank must reflect its article's counters after this time, with a margin.
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
  return check_members(kinds::kNoCounters, key, "ZREM",
                       [&](std::string_view id) { return keys_.article(id); });
}

Result<void> MemberCheck::check_tag(const std::string& key) {
  return check_members(kinds::kNoItem, key, "SREM", [&](std::string_view id) { return keys_.item(id); });
}

// Reports scores at or below `lowest` and infinite ones. O(log n).
Result<void> MemberCheck::check_scores(const std::string& key, const char* lowest) {
  Pipeline pipeline;
  pipeline.add("ZRANGEBYSCORE", key, "-inf", lowest, "WITHSCORES", "LIMIT", 0, kPageSize);
  pipeline.add("ZRANGEBYSCORE", key, "+inf", "+inf", "WITHSCORES", "LIMIT", 0, kPageSize);
  FRESHET_TRY(replies, run_pipeline(redis_, pipeline));
  for (const Reply& each : *replies) {
    for (std::size_t i = 0; i + 1 < each.size(); i += 2) {
      findings_.add(kinds::kBadScore, key,
                    fmt::format("{} has {}", string_at(each, i), string_at(each, i + 1)));
    }
  }
  return {};
}

// Members of `key` whose required key is missing are stale.
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
                                       const std::vector<std::string>& stale,
                                       const RequiredKey& required_key) {
  for (const std::string& each : stale) findings_.add(kind, key, each);
  if (!sweep_ || stale.empty()) return {};
  // Checked again right before removal: a member whose key reappeared stays.
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
    const char* lowest;  // exclusive upper bound of invalid scores
  };
  std::vector<Rank> ranks;
  for (const PartitionKeys& partition : keys_.partitions()) {
    ranks.push_back({partition.published(), "(0"});
    // A rank key is a logarithm, so any finite number is valid.
    for (const Model& model : kModels)
      ranks.push_back({partition.rank(model), model.is_computed() ? "-inf" : "0"});
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
  for (const PartitionKeys& partition : keys_.partitions()) {
    if (auto ok = check_top_score(partition); !ok) return ok;
  }
  return {};
}

// The highest rank score must map to a finite score now, provided the rank was built with the
// configured parameters.
Result<void> MemberCheck::check_top_score(const PartitionKeys& partition) {
  Pipeline pipeline;
  pipeline.add("TIME");
  for (const Model& model : kModels) {
    pipeline.add("HGET", partition.meta(), hot::rank_meta_field(model))
        .add("ZREVRANGE", partition.rank(model), 0, 0, "WITHSCORES");
  }
  FRESHET_TRY(replies, run_pipeline(redis_, pipeline));
  const UnixSeconds now{seconds{redis::to_int(string_at(replies->front(), 0))}};
  const Reply* at = &(*replies)[1];
  for (const Model& model : kModels) {
    const Reply &parameters = *at++, &best = *at++;
    if (model.is_computed() && parameters.text() != hot::rank_parameters(model, settings_)) continue;
    const auto score = redis::parse<double>(string_at(best, 1));
    if (score && !std::isfinite(hot::score_at(model, *score, now, settings_)))
      findings_.add(kinds::kBadScore, partition.rank(model),
                    fmt::format("{} has {:.17g}", string_at(best, 0), *score));
  }
  return {};
}

// Exact comparison: sums of logarithms survive the round trip through text unchanged.
Result<void> MemberCheck::compare_rank_scores(const std::vector<std::string>& ids) {
  if (ids.empty()) return {};
  Pipeline pipeline;
  pipeline.add("TIME");
  for (const std::string& id : ids) {
    hot::append_article_read(pipeline, keys_, id);
    const PartitionKeys partition = keys_.partition_for(id);
    for (const Model& model : kModels) pipeline.add("ZSCORE", partition.rank(model), id);
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
  const hot::ModelList models = hot::computed_models();
  for (const PartitionKeys& partition : keys_.partitions()) {
    for (const Model* model : models)
      meta_query.add("HMGET", partition.meta(), hot::rank_meta_field(*model),
                     hot::rank_meta_field(*model, hot::RankTarget::kStaging));
  }
  FRESHET_TRY(metas, run_pipeline(redis_, meta_query));
  const auto is_settled = [&](unsigned partition) {  // no rank is being rebuilt, or due for it
    for (std::size_t i = 0; i < models.size(); ++i) {
      const Reply& meta = (*metas)[partition * models.size() + i];
      if (string_at(meta, 0) != hot::rank_parameters(*models[i], settings_) || !string_at(meta, 1).empty())
        return false;
    }
    return true;
  };
  std::erase_if(misplaced_, [&](const std::string& id) { return !is_settled(keys_.partition_of(id)); });
  if (misplaced_.empty()) return {};
  std::this_thread::sleep_for(kRankUpdateGrace);
  for (const std::string& id : misplaced_) {
    if (auto ok = report_wrong_scores(id); !ok) return ok;
  }
  return {};
}

// Skips articles that changed within the last two seconds.
Result<void> MemberCheck::report_wrong_scores(const std::string& id) {
  const PartitionKeys partition = keys_.partition_for(id);
  Pipeline pipeline;
  for (const Model& model : kModels) {
    const std::string key = partition.rank(model);
    pipeline.add("ZSCORE", key, id).add("ZCARD", key).add("ZRANGE", key, 0, 0, "WITHSCORES");
  }
  // Read after the rank scores. If those were of an older version, this one is too recent to be
  // evaluated.
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
    // Anything at or below `lowest` is not kept in the rank.
    const double lowest = full ? redis::parse_or_zero<double>(string_at(read[at + 2], 1))
                               : hot::min_rank_score(model, now, settings_);
    const bool dropped = !actual && expected && *expected <= lowest;
    if (actual == expected || dropped) continue;
    const std::string key = partition.rank(model);
    const bool has_expired = model.base != nullptr ? article.counts.pv == 0 : !article.has_counters();
    if (model.is_computed() && actual && has_expired && !article.hidden) {
      findings_.add(kinds::kNoCounters, key, id);
      if (auto ok = sweep_expired(model, id, article.version); !ok) return ok;
      continue;
    }
    const auto text = [](const std::optional<double>& score) {
      return score ? fmt::format("{:.17g}", *score) : "no score";
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
  for (const PartitionKeys& partition : keys_.partitions()) {
    const auto bucket = [&](std::string_view hour) {
      return partition.current_bucket(redis::parse_or_zero<std::int64_t>(hour));
    };
    if (auto ok = check_members(kinds::kNoBucket, partition.current_bucket_index(), "ZREM", bucket); !ok)
      return ok;
  }
  return {};
}

Result<void> MemberCheck::check_hidden() {
  for (const PartitionKeys& partition : keys_.partitions()) {
    auto ok = scan_all(redis_, "ZSCAN", partition.hidden(), [&](const std::vector<std::string>& page) {
      return find_listed_hidden(partition, page);
    });
    if (ok) ok = check_expired_hidden(partition);
    if (!ok) return ok;
  }
  return {};
}

Result<void> MemberCheck::find_listed_hidden(const PartitionKeys& partition,
                                             const std::vector<std::string>& page) {
  Pipeline listed, hidden;
  for (const std::string& each : page) {
    for (const Model& model : kModels) listed.add("ZSCORE", partition.rank(model), each);
    hidden.add("ZSCORE", partition.hidden(), each);
  }
  // hot:hidden is read last, because an item that becomes visible again leaves it first.
  FRESHET_TRY(in_rank, run_pipeline(redis_, listed));
  FRESHET_TRY(is_hidden, run_pipeline(redis_, hidden));
  for (std::size_t i = 0; i < page.size(); ++i) {
    const auto scores = std::span(*in_rank).subspan(i * kModels.size(), kModels.size());
    const bool listed_somewhere = !std::ranges::all_of(scores, &Reply::is_nil);
    const auto until = redis::parse<double>((*is_hidden)[i].string().value_or(""));
    if (listed_somewhere && until && !redis::is_embargo(*until))
      findings_.add(kinds::kHiddenListed, partition.hidden(), page[i]);
  }
  return {};
}

// A deleted item is remembered until its score in hot:hidden, an embargo one hour longer.
Result<void> MemberCheck::check_expired_hidden(const PartitionKeys& partition) {
  Pipeline clock;
  clock.add("TIME");
  FRESHET_TRY(replies, run_pipeline(redis_, clock));
  const std::string over =
      std::to_string(redis::parse_or_zero<std::int64_t>(string_at(replies->front(), 0)) - 3600);
  Pipeline old;
  old.add("ZRANGEBYSCORE", partition.hidden(), "-inf", over);
  if (replies = run_pipeline(redis_, old); !replies) return tl::unexpected(replies.error());
  Pipeline sweep;
  for (std::size_t i = 0; i < replies->front().size(); ++i) {
    findings_.add(kinds::kExpiredHidden, partition.hidden(), string_at(replies->front(), i));
    if (sweep_) findings_.mark_swept(kinds::kExpiredHidden);
  }
  if (!sweep_ || replies->front().size() == 0) return {};
  sweep.add("ZREMRANGEBYSCORE", partition.hidden(), "-inf", over);
  if (replies = run_pipeline(redis_, sweep); !replies) return tl::unexpected(replies.error());
  return {};
}

Result<void> MemberCheck::check_abandoned_rebuilds() {
  for (const PartitionKeys& partition : keys_.partitions()) {
    for (const Model& model : kModels) {
      if (!model.is_computed()) continue;
      const std::string next = partition.staging_rank(model);
      Pipeline pipeline;
      // The lock is set before the new rank exists and released after it is gone. One rebuild may
      // end and another begin between these commands.
      pipeline.add("EXISTS", next).barrier();
      pipeline.add("EXISTS", keys_.rank_rebuild_lock()).barrier();
      pipeline.add("EXISTS", next);
      FRESHET_TRY(replies, run_pipeline(redis_, pipeline));
      const auto exists = [&](std::size_t i) { return (*replies)[i].integer().value_or(i == 1) == 1; };
      if (!exists(0) || exists(1) || !exists(2)) continue;
      findings_.add(kinds::kAbandonedRebuild, next);
      if (!sweep_) continue;
      if (auto ok = sweep_rebuild(next, partition.staging_rank_versions(model)); !ok) return ok;
    }
  }
  return {};
}

// Holds the rank lock, like every rebuild.
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
