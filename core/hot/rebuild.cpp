#include "core/hot/rebuild.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/hot/placing.h"
#include "core/redis/fields.h"
#include "core/redis/schema.h"

namespace freshet::hot {
namespace {

using redis::Pipeline;

constexpr std::int64_t kScanCount = 500;  // 0.2 ms of Redis
constexpr std::size_t kBatch = 500;

// hot:rank:meta says by which parameters ranks were made, of each group its own.
constexpr std::string_view kFormula = "formula", kNext = "next", kCursor = "cursor";

constexpr std::int64_t kSlices = 600;           // of all keys: one a second
constexpr std::int64_t kLargestSlice = 20'000;  // in pages: nobody waits for all of it
constexpr std::int64_t kSmallestSlice = 1'000;  // of a small site

void append_meta(Pipeline& out, const Settings& settings, const redis::PartitionKeys& keys) {
  out.add("HSET", keys.meta(), kFormula, formula_argument(settings), "schema", redis::kSchemaVersion);
}

// Models whose ranks are made of counters.
std::vector<const Model*> computed() {
  std::vector<const Model*> out;
  for (const Model& model : kModels) {
    if (model.base != nullptr) out.push_back(&model);
  }
  return out;
}

// The ids in a page of SCAN.
std::vector<std::string> ids_of(const redis::Reply& page, const redis::Keys& keys) {
  const redis::Reply names = page[1];
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < names.size(); ++i) ids.push_back(keys.id_of_article(redis::string_at(names, i)));
  return ids;
}

// Whether `replies` to HGET formula of every group are these parameters.
bool all_match(const redis::Replies& replies, const redis::Keys& keys, std::string_view formula) {
  const auto is_ours = [&](const redis::Reply& each) { return each.text() == formula; };
  return std::all_of(replies.begin(), replies.begin() + keys.partition_count(), is_ours);
}

// Until nothing is left of hot:unplaced, or ranks have other parameters.
Task<Result<void>> place_left(redis::Redis& redis, const Settings& settings, const redis::Keys& keys) {
  for (bool more = true; more;) {
    Pipeline take;
    for (const redis::PartitionKeys& each : keys.partitions()) take.add("HGET", each.meta(), kFormula);
    for (const redis::PartitionKeys& each : keys.partitions()) take.add("SPOP", each.unranked(), kBatch);
    FRESHET_CO_TRY(replies, co_await redis::run_all(redis, take));
    more = false;
    std::vector<std::string> ids;
    for (std::size_t each = keys.partition_count(); each < replies->size(); ++each) {
      const redis::Reply& taken = (*replies)[each];
      for (std::size_t i = 0; i < taken.size(); ++i) ids.emplace_back(redis::string_at(taken, i));
      more = more || taken.size() == kBatch;
    }
    FRESHET_CO_TRY(placed, co_await place_articles(redis, ids, settings, keys));  // or back into the set
    more = more && all_match(*replies, keys, formula_argument(settings));
  }
  co_return Result<void>();
}

class Rebuild {
 public:
  Rebuild(redis::Redis& redis, const Settings& settings, const redis::Keys& keys)
      : redis_(redis), settings_(settings), keys_(keys) {}

  Task<Result<Rebuilt>> run() {
    Pipeline begin;
    for (const redis::PartitionKeys& each : keys_.partitions()) {
      for (const Model* model : computed())
        begin.add("DEL", each.staging_rank(*model), each.staging_rank_versions(*model));
    }
    begin.barrier();  // from the next on places are put there
    for (const redis::PartitionKeys& each : keys_.partitions())
      begin.add("HSET", each.meta(), kNext, formula_argument(settings_));
    FRESHET_CO_TRY(begun, co_await redis::run_all(redis_, begin));
    FRESHET_CO_TRY(done, co_await pass());
    FRESHET_CO_TRY(swapped, co_await swap());
    FRESHET_CO_TRY(placed, co_await place_left(redis_, settings_, keys_));
    co_return *done;
  }

 private:
  // Every article, into hot:rank:next and the like.
  Task<Result<Rebuilt>> pass() {
    Rebuilt done;
    std::string cursor = "0";
    do {
      Pipeline scan;
      scan.add("SCAN", cursor, "MATCH", keys_.article_pattern(), "COUNT", kScanCount)
          .add("EXPIRE", keys_.rank_rebuild_lock(), redis::kRebuildLockTtl.count());
      FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, scan));
      const redis::Reply& page = replies->front();
      cursor = std::string(redis::string_at(page, 0));
      const std::vector<std::string> ids = ids_of(page, keys_);
      FRESHET_CO_TRY(ranked, co_await place_articles(redis_, ids, settings_, keys_, Rank::kNext));
      done.items += static_cast<std::int64_t>(ids.size());
      done.ranked += *ranked;
    } while (cursor != "0");
    co_return done;
  }

  // The parameters and the ranks of a group change places in one transaction. A list built between
  // those of two groups is of both: the epoch behind them ends it.
  Task<Result<void>> swap() {
    Pipeline exists;
    for (const redis::PartitionKeys& each : keys_.partitions()) {
      for (const Model* model : computed()) exists.add("EXISTS", each.staging_rank(*model));
    }
    FRESHET_CO_TRY(next, co_await redis::run_all(redis_, exists));
    Pipeline out;
    std::size_t at = 0;
    for (const redis::PartitionKeys& each : keys_.partitions()) {
      out.add("MULTI");
      for (const Model* model : computed()) {
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

Task<Result<bool>> params_match(redis::Redis& redis, const Settings& settings, const redis::Keys& keys) {
  Pipeline read;
  for (const redis::PartitionKeys& each : keys.partitions()) read.add("HGET", each.meta(), kFormula);
  for (const redis::PartitionKeys& each : keys.partitions()) {
    for (const Model* model : computed()) read.add("EXISTS", each.rank(*model));
  }
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis, read));
  const std::string formula = formula_argument(settings);
  if (all_match(*replies, keys, formula)) co_return true;
  Pipeline write;
  std::size_t at = keys.partition_count();
  for (unsigned g = 0; g < keys.partition_count(); ++g) {
    const bool ours = (*replies)[g].text() == formula;
    for (std::size_t i = 0; i < computed().size(); ++i) {
      if ((*replies)[at++].integer().value_or(1) != 0 && !ours) co_return false;
    }
    if (!ours) append_meta(write, settings, keys.partition(g));
  }
  if (auto ok = co_await redis::run_all(redis, write); !ok) co_return tl::unexpected(ok.error());
  co_return true;
}

Task<Result<Rebuilt>> rebuild_rank(redis::Redis& redis, const Settings& settings, const redis::Keys& keys) {
  Pipeline lock;
  lock.add("SET", keys.rank_rebuild_lock(), 1, "NX", "EX", redis::kRebuildLockTtl.count());
  FRESHET_CO_TRY(locked, co_await redis::run_one(redis, lock));
  if (locked->is_nil()) co_return fail(ErrorCode::kConflict, "rebuild_running");
  auto done = co_await Rebuild(redis, settings, keys).run();
  Pipeline unlock;
  unlock.add("DEL", keys.rank_rebuild_lock());
  if (auto ok = co_await redis::run_one(redis, unlock); !ok && done) co_return tl::unexpected(ok.error());
  co_return done;
}

Task<Result<void>> look_after_ranks(redis::Redis& redis, const Settings& settings, const redis::Keys& keys) {
  Pipeline look;
  look.add("SET", keys.rank_maintenance_lock(), 1, "NX", "PX", redis::kRankMaintenanceLockTtl.count())
      .add("HGET", keys.rank_meta(), kCursor)
      .add("DBSIZE");
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis, look));
  if (replies->front().is_nil()) co_return Result<void>();
  Pipeline formulas;
  for (const redis::PartitionKeys& each : keys.partitions()) formulas.add("HGET", each.meta(), kFormula);
  redis::append_partition_count(formulas, keys);  // Redis may have lost it
  FRESHET_CO_TRY(found, co_await redis::run_all(redis, formulas));
  if (!all_match(*found, keys, formula_argument(settings))) co_return Result<void>();
  FRESHET_CO_TRY(left, co_await place_left(redis, settings, keys));
  std::string cursor((*replies)[1].text());
  if (cursor.empty()) cursor = "0";
  const std::int64_t slice = (*replies)[2].integer().value_or(0) / kSlices;
  for (auto unseen = std::clamp(slice, kSmallestSlice, kLargestSlice); unseen > 0; unseen -= kScanCount) {
    Pipeline scan;
    scan.add("SCAN", cursor, "MATCH", keys.article_pattern(), "COUNT", kScanCount);
    FRESHET_CO_TRY(page, co_await redis::run_one(redis, scan));
    cursor = std::string(redis::string_at(*page, 0));
    const std::vector<std::string> ids = ids_of(*page, keys);
    FRESHET_CO_TRY(placed, co_await place_articles(redis, ids, settings, keys));
    if (cursor == "0") break;
  }
  Pipeline next;
  next.add("HSET", keys.rank_meta(), kCursor, cursor);
  FRESHET_CO_TRY(noted, co_await redis::run_one(redis, next));
  co_return Result<void>();
}

}  // namespace freshet::hot
