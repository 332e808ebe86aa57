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

constexpr std::string_view kCursor = "cursor";  // field of hot:rank:meta

constexpr std::int64_t kSliceCount = 600;       // one slice of the key space per second
constexpr std::int64_t kMaxSliceKeys = 20'000;  // keys; read in pages so that nothing waits for a whole slice
constexpr std::int64_t kMinSliceKeys = 1'000;   // keys; for small sites

void append_meta(Pipeline& out, const Model& model, const Settings& settings,
                 const redis::PartitionKeys& keys) {
  out.add("HSET", keys.meta(), rank_meta_field(model), rank_parameters(model, settings), "schema",
          redis::kSchemaVersion);
}

// One reply for each partition and computed model, in this order.
void append_parameters_read(Pipeline& out, const redis::Keys& keys) {
  for (const redis::PartitionKeys& each : keys.partitions()) {
    for (const Model* model : computed_models()) out.add("HGET", each.meta(), rank_meta_field(*model));
  }
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

// True if the first replies, to append_parameters_read(), are the current parameters.
bool all_current(const redis::Replies& replies, const redis::Keys& keys, const Settings& settings) {
  auto at = replies.begin();
  for (unsigned g = 0; g < keys.partition_count(); ++g) {
    for (const Model* model : computed_models()) {
      if ((at++)->text() != rank_parameters(*model, settings)) return false;
    }
  }
  return true;
}

// Ranks articles until hot:unplaced is empty, or a stored rank has other parameters.
Task<Result<void>> drain_unranked(redis::Redis& redis, const Settings& settings, const redis::Keys& keys) {
  for (bool more = true; more;) {
    Pipeline read;
    append_parameters_read(read, keys);
    const std::size_t first_popped = read.size();
    for (const redis::PartitionKeys& each : keys.partitions())
      read.add("SPOP", each.unranked(), kUnrankedBatchSize);
    FRESHET_CO_TRY(replies, co_await redis::run_all(redis, read));
    more = false;
    std::vector<std::string> ids;
    for (std::size_t each = first_popped; each < replies->size(); ++each) {
      const redis::Reply& popped = (*replies)[each];
      for (std::size_t i = 0; i < popped.size(); ++i) ids.emplace_back(redis::string_at(popped, i));
      more = more || popped.size() == kUnrankedBatchSize;
    }
    FRESHET_CO_TRY(ranked, co_await rank_articles(redis, ids, settings, keys));  // or back into the set
    more = more && all_current(*replies, keys, settings);
  }
  co_return Result<void>();
}

class RankRebuild {
 public:
  RankRebuild(redis::Redis& redis, const Settings& settings, const redis::Keys& keys, const ModelList& models)
      : redis_(redis), settings_(settings), keys_(keys), models_(models) {}

  Task<Result<RebuildResult>> run() {
    Pipeline begin;
    for (const redis::PartitionKeys& each : keys_.partitions()) {
      for (const Model* model : models_)
        begin.add("DEL", each.staging_rank(*model), each.staging_rank_versions(*model));
    }
    begin.barrier();  // the staging ranks must be empty before events are ranked there
    for (const redis::PartitionKeys& each : keys_.partitions()) {
      for (const Model* model : models_)
        begin.add("HSET", each.meta(), rank_meta_field(*model, RankTarget::kStaging),
                  rank_parameters(*model, settings_));
    }
    FRESHET_CO_TRY(started, co_await redis::run_all(redis_, begin));
    FRESHET_CO_TRY(done, co_await scan_articles());
    FRESHET_CO_TRY(swapped, co_await swap());
    FRESHET_CO_TRY(ranked, co_await drain_unranked(redis_, settings_, keys_));
    co_return *done;
  }

 private:
  // Ranks every article in the staging ranks that the rebuild has begun.
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
      for (const Model* model : models_) exists.add("EXISTS", each.staging_rank(*model));
    }
    FRESHET_CO_TRY(next, co_await redis::run_all(redis_, exists));
    Pipeline out;
    std::size_t at = 0;
    for (const redis::PartitionKeys& each : keys_.partitions()) {
      out.add("MULTI");
      for (const Model* model : models_) {
        if ((*next)[at++].integer().value_or(0) > 0) {
          out.add("RENAME", each.staging_rank(*model), each.rank(*model))
              .add("RENAME", each.staging_rank_versions(*model), each.rank_versions(*model));
        } else {
          out.add("DEL", each.rank(*model), each.rank_versions(*model), each.staging_rank_versions(*model));
        }
        append_meta(out, *model, settings_, each);
        out.add("HDEL", each.meta(), rank_meta_field(*model, RankTarget::kStaging));
      }
      out.add("EXEC");
    }
    if (keys_.partition_count() > 1) out.barrier().add("INCR", keys_.epoch());
    FRESHET_CO_TRY(done, co_await redis::run_all(redis_, out));
    co_return Result<void>();
  }

  redis::Redis& redis_;
  const Settings& settings_;
  const redis::Keys& keys_;
  const ModelList& models_;
};

}  // namespace

ModelList computed_models() {
  ModelList out;
  for (const Model& model : kModels) {
    if (model.is_computed()) out.push_back(&model);
  }
  return out;
}

Task<Result<ModelList>> outdated_ranks(redis::Redis& redis, const Settings& settings,
                                       const redis::Keys& keys) {
  Pipeline read;
  append_parameters_read(read, keys);
  const std::size_t first_exists = read.size();
  for (const redis::PartitionKeys& each : keys.partitions()) {
    for (const Model* model : computed_models()) read.add("EXISTS", each.rank(*model));
  }
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis, read));
  ModelList outdated;
  Pipeline write;
  std::size_t at = 0;
  for (const redis::PartitionKeys& each : keys.partitions()) {
    for (const Model* model : computed_models()) {
      const bool is_current = (*replies)[at].text() == rank_parameters(*model, settings);
      const bool exists = (*replies)[first_exists + at++].integer().value_or(1) != 0;
      if (is_current) continue;
      if (!exists) append_meta(write, *model, settings, each);
      if (exists && std::ranges::find(outdated, model) == outdated.end()) outdated.push_back(model);
    }
  }
  if (!write.empty()) {
    if (auto ok = co_await redis::run_all(redis, write); !ok) co_return tl::unexpected(ok.error());
  }
  co_return outdated;
}

Task<Result<RebuildResult>> rebuild_ranks(redis::Redis& redis, const Settings& settings,
                                          const redis::Keys& keys, const ModelList& models) {
  Pipeline lock;
  lock.add("SET", keys.rank_rebuild_lock(), 1, "NX", "EX", redis::kRebuildLockTtl.count());
  FRESHET_CO_TRY(locked, co_await redis::run_one(redis, lock));
  if (locked->is_nil()) co_return fail(ErrorCode::kConflict, "rebuild_running");
  auto done = co_await RankRebuild(redis, settings, keys, models).run();
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
  Pipeline parameters;
  append_parameters_read(parameters, keys);
  redis::append_partition_count(parameters, keys);  // Redis may have lost it
  FRESHET_CO_TRY(found, co_await redis::run_all(redis, parameters));
  if (!all_current(*found, keys, settings)) co_return Result<void>();
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
