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

constexpr std::int64_t kScanCount = 500;
constexpr std::size_t kBatch = 500;

// hot:rank:meta says by which parameters ranks were made.
constexpr std::string_view kFormula = "formula", kNext = "next", kCursor = "cursor";

constexpr std::int64_t kSlices = 600;            // of all keys: one a second
constexpr std::int64_t kLargestSlice = 20'000;   // about 10 ms of Redis
constexpr std::int64_t kSmallestSlice = 10'000;  // a small site is whole again in a second or two

void append_meta(Pipeline& out, const Settings& settings, const redis::Keys& keys) {
  out.add("HSET", keys.rank_meta(), kFormula, formula_argument(settings), "schema", redis::kSchema);
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
  for (std::size_t i = 0; i < names.size(); ++i) ids.push_back(keys.id_of_article(redis::text_at(names, i)));
  return ids;
}

// Until nothing is left of hot:unplaced, or ranks have other parameters.
Task<Result<void>> place_left(redis::Redis& redis, const Settings& settings, const redis::Keys& keys) {
  for (bool more = true; more;) {
    Pipeline take;
    take.add("HGET", keys.rank_meta(), kFormula).add("SPOP", keys.unplaced(), kBatch);
    FRESHET_CO_TRY(replies, co_await redis::run_all(redis, take));
    const redis::Reply& taken = (*replies)[1];
    std::vector<std::string> ids;
    for (std::size_t i = 0; i < taken.size(); ++i) ids.emplace_back(redis::text_at(taken, i));
    FRESHET_CO_TRY(placed, co_await place_articles(redis, ids, settings, keys));  // or back into the set
    more = ids.size() == kBatch && replies->front().text() == formula_argument(settings);
  }
  co_return Result<void>();
}

class Rebuild {
 public:
  Rebuild(redis::Redis& redis, const Settings& settings, const redis::Keys& keys)
      : redis_(redis), settings_(settings), keys_(keys) {}

  Task<Result<Rebuilt>> run() {
    Pipeline begin;
    for (const Model* model : computed())
      begin.add("DEL", keys_.rank_next(*model), keys_.placed_next(*model));
    begin.then();  // from the next on places are put there
    begin.add("HSET", keys_.rank_meta(), kNext, formula_argument(settings_));
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
          .add("EXPIRE", keys_.rank_lock(), redis::kRebuildLockTtl.count());
      FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, scan));
      const redis::Reply& page = replies->front();
      cursor = std::string(redis::text_at(page, 0));
      const std::vector<std::string> ids = ids_of(page, keys_);
      FRESHET_CO_TRY(ranked, co_await place_articles(redis_, ids, settings_, keys_, Rank::kNext));
      done.items += static_cast<std::int64_t>(ids.size());
      done.ranked += *ranked;
    } while (cursor != "0");
    co_return done;
  }

  // The parameters and the ranks change places in one transaction.
  Task<Result<void>> swap() {
    Pipeline exists;
    for (const Model* model : computed()) exists.add("EXISTS", keys_.rank_next(*model));
    FRESHET_CO_TRY(next, co_await redis::run_all(redis_, exists));
    Pipeline out;
    out.add("MULTI");
    std::size_t at = 0;
    for (const Model* model : computed()) {
      if ((*next)[at++].integer().value_or(0) > 0) {
        out.add("RENAME", keys_.rank_next(*model), keys_.rank(*model))
            .add("RENAME", keys_.placed_next(*model), keys_.placed(*model));
      } else {
        out.add("DEL", keys_.rank(*model), keys_.placed(*model));
      }
    }
    append_meta(out, settings_, keys_);
    out.add("HDEL", keys_.rank_meta(), kNext);
    out.add("EXEC");
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
  read.add("HGET", keys.rank_meta(), kFormula);
  for (const Model* model : computed()) read.add("EXISTS", keys.rank(*model));
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis, read));
  if ((*replies)[0].text() == formula_argument(settings)) co_return true;
  for (std::size_t i = 1; i < replies->size(); ++i) {
    if ((*replies)[i].integer().value_or(1) != 0) co_return false;
  }
  Pipeline write;
  append_meta(write, settings, keys);
  if (auto ok = co_await redis::run_all(redis, write); !ok) co_return tl::unexpected(ok.error());
  co_return true;
}

Task<Result<Rebuilt>> rebuild_rank(redis::Redis& redis, const Settings& settings, const redis::Keys& keys) {
  Pipeline lock;
  lock.add("SET", keys.rank_lock(), 1, "NX", "EX", redis::kRebuildLockTtl.count());
  FRESHET_CO_TRY(locked, co_await redis::run_one(redis, lock));
  if (locked->is_nil()) co_return fail(ErrorCode::kConflict, "rebuild_running");
  auto done = co_await Rebuild(redis, settings, keys).run();
  Pipeline unlock;
  unlock.add("DEL", keys.rank_lock());
  if (auto ok = co_await redis::run_one(redis, unlock); !ok && done) co_return tl::unexpected(ok.error());
  co_return done;
}

Task<Result<void>> look_after_ranks(redis::Redis& redis, const Settings& settings, const redis::Keys& keys) {
  Pipeline look;
  look.add("SET", keys.rank_turn(), 1, "NX", "PX", redis::kRankTurnTtl.count())
      .add("HMGET", keys.rank_meta(), kFormula, kCursor)
      .add("DBSIZE");
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis, look));
  const redis::Reply& meta = (*replies)[1];
  const bool ours = redis::text_at(meta, 0) == formula_argument(settings);
  if (replies->front().is_nil() || !ours) co_return Result<void>();
  FRESHET_CO_TRY(left, co_await place_left(redis, settings, keys));
  const std::string_view cursor = redis::text_at(meta, 1);
  const std::int64_t slice = (*replies)[2].integer().value_or(0) / kSlices;
  Pipeline scan;
  scan.add("SCAN", cursor.empty() ? "0" : cursor, "MATCH", keys.article_pattern(), "COUNT",
           std::clamp(slice, kSmallestSlice, kLargestSlice));
  FRESHET_CO_TRY(page, co_await redis::run_one(redis, scan));
  const std::vector<std::string> ids = ids_of(*page, keys);
  FRESHET_CO_TRY(placed, co_await place_articles(redis, ids, settings, keys));
  Pipeline next;
  next.add("HSET", keys.rank_meta(), kCursor, redis::text_at(*page, 0));
  FRESHET_CO_TRY(noted, co_await redis::run_one(redis, next));
  co_return Result<void>();
}

}  // namespace freshet::hot
