#include "scripts/ctl/backup/rebuild_redis.h"

#include <chrono>
#include <vector>

#include "core/recorder/consumer_groups.h"
#include "core/recorder/lease.h"
#include "core/redis/scripts.h"
#include "scripts/ctl/check/key_names.h"
#include "scripts/ctl/commands/json_report.h"
#include "scripts/ctl/commands/owner.h"
#include "scripts/ctl/commands/print.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/commands/redis_scan.h"

namespace freshet::ctl {
namespace {

// Error kConflict "has_items" if Redis has an item that the site put. No key lists them, so this
// scans: O(keys) if there is none.
Result<void> require_no_items(redis::BlockingRedis& redis, const RedisSettings& settings) {
  const redis::Keys keys(settings);
  return scan_all(redis, "SCAN", "", [&](const std::vector<std::string>& page) -> Result<void> {
    redis::Pipeline query;
    for (const std::string& key : page) {
      const auto name = keys.strip_prefix(key);
      if (name && strip_key_prefix(*name, "item:")) query.add("HEXISTS", key, "published_at");
    }
    if (query.empty()) return {};
    FRESHET_TRY(replies, run_pipeline(redis, query));
    for (const redis::Reply& reply : *replies) {
      if (reply.integer().value_or(0) == 1)
        return fail(ErrorCode::kConflict, "has_items", {},
                    "Redis has items; --force overwrites them with the database's");
    }
    return {};
  });
}

// Identity of the database that Redis belongs to, if it is not ours; else empty.
Result<std::string> other_owner(redis::BlockingRedis& redis, const database::Database& database,
                                const redis::Keys& keys, bool force) {
  FRESHET_TRY(recorder, recorder::read_lease_owner(redis, keys));
  if (recorder->database.empty() || recorder->database == database.database_id()) return std::string();
  const std::string other = "another database, used by " + recorder->name;
  if (!force)
    return fail(ErrorCode::kConflict, "database_mismatch", {},
                "Redis belongs to " + other + "; --force makes it belong to this one");
  if (recorder->is_active)
    return fail(ErrorCode::kConflict, "lease_held", {},
                "Redis belongs to " + other + ", whose recorder is running");
  return recorder->database;
}

Result<void> take_over(redis::BlockingRedis& redis, database::Database& database, const redis::Keys& keys,
                       const std::string& owner) {
  if (database.database_id().empty())
    return fail(ErrorCode::kConflict, "no_identity", {},
                "the database has no identity; start this version's recorder on it first");
  FRESHET_TRY(known, database.stored_fencing_token());
  recorder::Lease lease(keys);
  if (auto ok = lease.acquire(redis, database.database_id(), *known, owner); !ok) return ok;
  lease.release(redis);
  return {};
}

// Returns the recorded data loss, empty if there is none. Records a loss that the recorder has not
// noticed yet, so that an interrupted rebuild cannot hide it.
Result<std::string> recorded_loss(redis::BlockingRedis& redis, database::Database& database,
                                  const redis::Keys& keys) {
  FRESHET_TRY(groups_exist, recorder::has_groups(redis, keys));
  if (!*groups_exist) {
    FRESHET_TRY(recorded, database.has_recorded_entries());
    FRESHET_TRY(created, *recorded ? recorder::recreate_groups_after_loss(redis, keys)
                                   : recorder::create_groups(redis, keys));
  }
  return recorder::recorded_data_loss(redis, keys);
}

}  // namespace

Result<recorder::RestoreResult> rebuild_redis(redis::BlockingRedis& redis, database::Database& database,
                                              const Settings& settings, const RebuildRedisOptions& options) {
  const redis::Keys keys(settings.redis);
  FRESHET_TRY(owner, other_owner(redis, database, keys, options.force));
  FRESHET_TRY(loss, recorded_loss(redis, database, keys));
  if (!options.force && loss->empty()) {
    if (auto empty = require_no_items(redis, settings.redis); !empty) return tl::unexpected(empty.error());
  }
  ProgressLine line(stderr, options.quiet);
  const auto began = ProgressLine::Clock::now();
  const std::int64_t total = database.item_count();
  FRESHET_TRY(
      done, recorder::restore_from_database(redis, database, settings, options.force, [&](std::int64_t read) {
        line.update({read, total, ProgressLine::Clock::now() - began, {}});
        return Result<void>();
      }));
  if (auto ok = recorder::end_data_loss(redis, keys, *loss); !ok) return tl::unexpected(ok.error());
  if (!owner->empty()) {
    if (auto ok = take_over(redis, database, keys, *owner); !ok) return tl::unexpected(ok.error());
  }
  return done;
}

Result<int> run_rebuild_redis(const RebuildRedisOptions& options, const Target& target) {
  FRESHET_TRY(settings, load_settings(target));
  FRESHET_TRY(endpoint, redis_endpoint(target, *settings));
  if (auto ok = switch_to_owner(settings->recorder.database); !ok) return tl::unexpected(ok.error());
  FRESHET_TRY(database,
              database::Database::open(settings->recorder.database, database::Database::Mode::kRead));
  redis::BlockingRedis redis(*endpoint, kRedisTimeout, redis::kAllScripts);
  const auto began = ProgressLine::Clock::now();
  FRESHET_TRY(rebuilt, rebuild_redis(redis, **database, *settings, options));
  const Nanoseconds took = ProgressLine::Clock::now() - began;
  const recorder::RestoredReaderCounts& readers = rebuilt->readers;
  if (options.json) {
    report_json([&](json::Writer& out) {
      out.key("items").integer(rebuilt->items).key("interactions").integer(readers.interactions);
      out.key("dismissals").integer(readers.dismissals).key("follows").integer(readers.follows);
      out.key("seconds").number(to_seconds(took));
    });
    return 0;
  }
  ctl::print("wrote {} items to Redis in {}\n", format_number(rebuilt->items), format_duration(took));
  ctl::print("and {} interactions, {} dismissals and {} follows of readers\n",
             format_number(readers.interactions), format_number(readers.dismissals),
             format_number(readers.follows));
  return 0;
}

}  // namespace freshet::ctl
