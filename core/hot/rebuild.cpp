#include "core/hot/rebuild.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/hot/rank_updater.h"
#include "core/redis/fields.h"
#include "core/redis/schema.h"

namespace freshet::hot {
namespace {

using redis::Pipeline;

constexpr std::int64_t kScanCount = 500;  // 0.2 ms of Redis
constexpr std::size_t kUnrankedBatchSize = 500;

// Fields of hot:rank:meta. Each partition has its own `formula` and `next`.
constexpr std::string_view kFormula = "formula", kNext = "next", kCursor = "cursor";

constexpr std::int64_t kSliceCount = 600;       // one slice of the key space per second
constexpr std::int64_t kMaxSliceKeys = 20'000;  // keys; read in pages so that nothing waits for a whole slice
constexpr std::int64_t kMinSliceKeys = 1'000;   // keys; for small sites

void append_meta(Pipeline& out, const Settings& settings, const redis::PartitionKeys& keys) {
  out.add("HSET", keys.meta(), kFormula, params_fingerprint(settings), "schema", redis::kSchemaVersion);
}

// Models whose ranks are computed from counters.
std::vector<const Model*> computed_models() {
  std::vector<const Model*> out;
  for (const Model& model : kModels) {
    if (model.is_computed()) out.push_back(&model);
  }
  return out;
}

// The ids of articles in a SCAN page.
std::vector<std::string> article_ids(const redis::Reply& page, const redis::Keys& keys) {
  const redis::Reply names = page[1];
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::string id = keys.id_of_article(redis::string_at(names, i));
    if (!is_invisible_alias(id)) ids.push_back(std::move(id));
  }
  return ids;
}

// True if the replies to HGET formula of all partitions are these parameters.
bool all_current(const redis::Replies& replies, const redis::Keys& keys, std::string_view formula) {
  const auto is_current = [&](const redis::Reply& each) { return each.text() == formula; };
  return std::all_of(replies.begin(), replies.begin() + keys.partition_count(), is_current);
}

// Ranks articles until hot:unplaced is empty, or the stored ranks have other parameters.
Task<Result<void>> drain_unranked(redis::Redis& redis, const Settings& settings, const redis::Keys& keys) {
  for (bool more = true; more;) {
    Pipeline read;
    for (const redis::PartitionKeys& each : keys.partitions()) read.add("HGET", each.meta(), kFormula);
    for (const redis::PartitionKeys& each : keys.partitions())
      read.add("SPOP", each.unranked(), kUnrankedBatchSize);
    FRESHET_CO_TRY(replies, co_await redis::run_all(redis, read));
    more = false;
    std::vector<std::string> ids;
    for (std::size_t each = keys.partition_count(); each < replies->size(); ++each) {
      const redis::Reply& popped = (*replies)[each];
      for (std::size_t i = 0; i < popped.size(); ++i) ids.emplace_back(redis::string_at(popped, i));
      more = more || popped.size() == kUnrankedBatchSize;
    }
    FRESHET_CO_TRY(ranked, co_await rank_articles(redis, ids, settings, keys));  // or back into the set
    more = more && all_current(*replies, keys, params_fingerprint(settings));
  }
  co_return Result<void>();
}

class RankRebuild {
 public:
  RankRebuild(redis::Redis& redis, const Settings& settings, const redis::Keys& keys)
      : redis_(redis), settings_(settings), keys_(keys) {}

  Task<Result<RebuildResult>> run() {
    Pipeline begin;
    for (const redis::PartitionKeys& each : keys_.partitions()) {
      for (const Model* model : computed_models())
        begin.add("DEL", each.staging_rank(*model), each.staging_rank_versions(*model));
    }
    begin.barrier();  // the staging ranks must be empty before events are ranked there
    for (const redis::PartitionKeys& each : keys_.partitions())
      begin.add("HSET", each.meta(), kNext, params_fingerprint(settings_));
    FRESHET_CO_TRY(started, co_await redis::run_all(redis_, begin));
    FRESHET_CO_TRY(done, co_await scan_articles());
    FRESHET_CO_TRY(swapped, co_await swap());
    FRESHET_CO_TRY(ranked, co_await drain_unranked(redis_, settings_, keys_));
    co_return *done;
  }

 private:
  // Ranks every article in the staging ranks.
  Task<Result<RebuildResult>> scan_articles() {
    RebuildResult done;
    std::string cursor = "0";
    do {
      Pipeline scan;
      scan.add("SCAN", cursor, "MATCH", keys_.article_pattern(), "COUNT", kScanCount)
          .add("EXPIRE", keys_.rank_rebuild_lock(), redis::kRebuildLockTtl.count());
      FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, scan));
      const redis::Reply& page = replies->front();
      cursor = std::string(redis::string_at(page, 0));
      const std::vector<std::string> ids = article_ids(page, keys_);
      FRESHET_CO_TRY(ranked, co_await rank_articles(redis_, ids, settings_, keys_, RankTarget::kStaging));
      done.items += static_cast<std::int64_t>(ids.size());
      done.ranked += *ranked;
    } while (cursor != "0");
    co_return done;
  }

  // A partition's parameters and ranks are swapped in one transaction. A list built between the
  // swaps of two partitions mixes old and new ranks; incrementing the epoch afterwards invalidates
  // it.
  Task<Result<void>> swap() {
    Pipeline exists;
    for (const redis::PartitionKeys& each : keys_.partitions()) {
      for (const Model* model : computed_models()) exists.add("EXISTS", each.staging_rank(*model));
    }
    FRESHET_CO_TRY(next, co_await redis::run_all(redis_, exists));
    Pipeline out;
    std::size_t at = 0;
    for (const redis::PartitionKeys& each : keys_.partitions()) {
      out.add("MULTI");
      for (const Model* model : computed_models()) {
        if ((*next)[at++].integer().value_or(0) > 0) {
          out.add("RENAME", each.staging_rank(*model), each.rank(*model))
              .add("RENAME", each.staging_rank_versions(*model), each.rank_versions(*model));
        } else {
          out.add("DEL", each.rank(*model), each.rank_versions(*model));
        }
      }
      append_meta(out, settings_, each);
      out.add("HDEL", each.meta(), kNext);
      out.add("EXEC");
    }
    if (keys_.partition_count() > 1) out.barrier().add("INCR", keys_.epoch());
    FRESHET_CO_TRY(done, co_await redis::run_all(redis_, out));
    co_return Result<void>();
  }

  redis::Redis& redis_;
  const Settings& settings_;
  const redis::Keys& keys_;
};

}  // namespace

Task<Result<bool>> has_current_params(redis::Redis& redis, const Settings& settings,
                                      const redis::Keys& keys) {
  Pipeline read;
  for (const redis::PartitionKeys& each : keys.partitions()) read.add("HGET", each.meta(), kFormula);
  for (const redis::PartitionKeys& each : keys.partitions()) {
    for (const Model* model : computed_models()) read.add("EXISTS", each.rank(*model));
  }
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis, read));
  const std::string formula = params_fingerprint(settings);
  if (all_current(*replies, keys, formula)) co_return true;
  Pipeline write;
  std::size_t at = keys.partition_count();
  for (unsigned g = 0; g < keys.partition_count(); ++g) {
    const bool current = (*replies)[g].text() == formula;
    for (std::size_t i = 0; i < computed_models().size(); ++i) {
      if ((*replies)[at++].integer().value_or(1) != 0 && !current) co_return false;
    }
    if (!current) append_meta(write, settings, keys.partition(g));
  }
  if (auto ok = co_await redis::run_all(redis, write); !ok) co_return tl::unexpected(ok.error());
  co_return true;
}

Task<Result<RebuildResult>> rebuild_ranks(redis::Redis& redis, const Settings& settings,
                                          const redis::Keys& keys) {
  Pipeline lock;
  lock.add("SET", keys.rank_rebuild_lock(), 1, "NX", "EX", redis::kRebuildLockTtl.count());
  FRESHET_CO_TRY(locked, co_await redis::run_one(redis, lock));
  if (locked->is_nil()) co_return fail(ErrorCode::kConflict, "rebuild_running");
  auto done = co_await RankRebuild(redis, settings, keys).run();
  Pipeline unlock;
  unlock.add("DEL", keys.rank_rebuild_lock());
  if (auto ok = co_await redis::run_one(redis, unlock); !ok && done) co_return tl::unexpected(ok.error());
  co_return done;
}

Task<Result<void>> run_rank_maintenance(redis::Redis& redis, const Settings& settings,
                                        const redis::Keys& keys) {
  Pipeline read;
  read.add("SET", keys.rank_maintenance_lock(), 1, "NX", "PX", redis::kRankMaintenanceLockTtl.count())
      .add("HGET", keys.rank_meta(), kCursor)
      .add("DBSIZE");
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis, read));
  if (replies->front().is_nil()) co_return Result<void>();
  Pipeline formulas;
  for (const redis::PartitionKeys& each : keys.partitions()) formulas.add("HGET", each.meta(), kFormula);
  redis::append_partition_count(formulas, keys);  // Redis may have lost it
  FRESHET_CO_TRY(found, co_await redis::run_all(redis, formulas));
  if (!all_current(*found, keys, params_fingerprint(settings))) co_return Result<void>();
  FRESHET_CO_TRY(drained, co_await drain_unranked(redis, settings, keys));
  std::string cursor((*replies)[1].text());
  if (cursor.empty()) cursor = "0";
  const std::int64_t slice = (*replies)[2].integer().value_or(0) / kSliceCount;
  for (auto remaining = std::clamp(slice, kMinSliceKeys, kMaxSliceKeys); remaining > 0;
       remaining -= kScanCount) {
    Pipeline scan;
    scan.add("SCAN", cursor, "MATCH", keys.article_pattern(), "COUNT", kScanCount);
    FRESHET_CO_TRY(page, co_await redis::run_one(redis, scan));
    cursor = std::string(redis::string_at(*page, 0));
    const std::vector<std::string> ids = article_ids(*page, keys);
    FRESHET_CO_TRY(ranked, co_await rank_articles(redis, ids, settings, keys));
    if (cursor == "0") break;
  }
  Pipeline next;
  next.add("HSET", keys.rank_meta(), kCursor, cursor);
  FRESHET_CO_TRY(saved, co_await redis::run_one(redis, next));
  co_return Result<void>();
}

}  // namespace freshet::hot
