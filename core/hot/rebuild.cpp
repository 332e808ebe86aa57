#include "core/hot/rebuild.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/hot/counter_keys.h"
#include "core/hot/engagement.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"

namespace freshet::hot {
namespace {

using redis::Pipeline;

constexpr std::int64_t kScanCount = 500;
constexpr std::size_t kBatch = 500;

// hot:rank:meta says by which parameters hot:rank was made.
constexpr std::string_view kFormula = "formula";

void append_meta(Pipeline& out, const EngagementSettings& settings, const redis::Keys& keys) {
  out.add("HSET", keys.rank_meta(), kFormula, formula_argument(settings), "half_life",
          settings.half_life.count());
}

void append_rekey(Pipeline& out, const Settings& settings, const redis::Keys& keys, const std::string& id,
                  const std::string& target) {
  out.script(scripts::kRekey, kCounterKeys + 1, 2);
  append_counter_keys(out, keys, id).arg(target).arg(id).arg(formula_argument(settings.engagement));
}

// Runs and answers the first error, the connection's or the server's.
Task<Result<redis::Replies>> run_all(redis::Redis& redis, const Pipeline& pipeline) {
  auto replies = co_await redis.run(pipeline);
  if (!replies) co_return replies;
  for (const redis::Reply& each : *replies) {
    if (each.is_error()) co_return tl::unexpected(redis::classify(each.error()));
  }
  co_return replies;
}

class Rebuild {
 public:
  Rebuild(redis::Redis& redis, const Settings& settings, const redis::Keys& keys)
      : redis_(redis), settings_(settings), keys_(keys) {}

  Task<Result<Rebuilt>> run() {
    Pipeline begin;
    begin.add("DEL", keys_.rank_next());
    if (auto ok = co_await run_all(redis_, begin); !ok) co_return tl::unexpected(ok.error());
    if (auto first = co_await pass(keys_.rank_next()); !first) co_return first;
    if (auto ok = co_await swap(); !ok) co_return tl::unexpected(ok.error());
    co_return co_await pass(keys_.rank());
  }

 private:
  // Every item with counters, into `target`.
  Task<Result<Rebuilt>> pass(std::string target) {
    Rebuilt done;
    std::string cursor = "0";
    do {
      Pipeline scan;
      scan.add("SCAN", cursor, "MATCH", keys_.pv_pattern(), "COUNT", kScanCount)
          .add("EXPIRE", keys_.rank_lock(), redis::kRebuildLockTtl.count());
      FRESHET_CO_TRY(replies, co_await run_all(redis_, scan));
      const redis::Reply& page = replies->front();
      cursor = std::string(redis::text_at(page, 0));
      const redis::Reply names = page[1];
      std::vector<std::string> ids;
      for (std::size_t i = 0; i < names.size(); ++i) ids.push_back(keys_.id_of_pv(redis::text_at(names, i)));
      for (std::size_t from = 0; from < ids.size(); from += kBatch) {
        const auto to = std::min(from + kBatch, ids.size());
        FRESHET_CO_TRY(ranked, co_await rekey({ids.begin() + static_cast<std::ptrdiff_t>(from),
                                               ids.begin() + static_cast<std::ptrdiff_t>(to)},
                                              target));
        done.items += static_cast<std::int64_t>(to - from);
        done.ranked += *ranked;
      }
    } while (cursor != "0");
    co_return done;
  }

  Task<Result<std::int64_t>> rekey(std::vector<std::string> ids, const std::string& target) {
    Pipeline command;
    for (const std::string& id : ids) append_rekey(command, settings_, keys_, id, target);
    FRESHET_CO_TRY(replies, co_await run_all(redis_, command));
    std::int64_t ranked = 0;
    for (const redis::Reply& z : *replies) ranked += z.string().value_or("-") != "-" ? 1 : 0;
    co_return ranked;
  }

  // The parameters and the rank change places in one transaction.
  Task<Result<void>> swap() {
    Pipeline exists;
    exists.add("EXISTS", keys_.rank_next());
    FRESHET_CO_TRY(next, co_await redis::run_one(redis_, exists));
    Pipeline out;
    out.add("MULTI");
    if (next->integer().value_or(0) > 0)
      out.add("RENAME", keys_.rank_next(), keys_.rank());
    else
      out.add("DEL", keys_.rank());
    out.add("ZREMRANGEBYRANK", keys_.rank(), 0, -settings_.list.max_members - 1);
    append_meta(out, settings_.engagement, keys_);
    out.add("EXEC");
    if (auto ok = co_await run_all(redis_, out); !ok) co_return tl::unexpected(ok.error());
    co_return Result<void>();
  }

  redis::Redis& redis_;
  const Settings& settings_;
  const redis::Keys& keys_;
};

}  // namespace

Task<Result<bool>> params_match(redis::Redis& redis, const EngagementSettings& settings,
                                const redis::Keys& keys) {
  Pipeline read;
  read.add("HGET", keys.rank_meta(), kFormula).add("EXISTS", keys.rank());
  FRESHET_CO_TRY(replies, co_await run_all(redis, read));
  if ((*replies)[0].string().value_or("") == formula_argument(settings)) co_return true;
  if ((*replies)[1].integer().value_or(1) != 0) co_return false;
  Pipeline write;
  append_meta(write, settings, keys);
  if (auto ok = co_await run_all(redis, write); !ok) co_return tl::unexpected(ok.error());
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

}  // namespace freshet::hot
