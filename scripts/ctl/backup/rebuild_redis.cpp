#include "scripts/ctl/backup/rebuild_redis.h"

#include <fmt/format.h>

#include <chrono>
#include <vector>

#include "core/items/item_store.h"
#include "core/recorder/group.h"
#include "core/redis/scripts.h"
#include "scripts/ctl/check/key_names.h"
#include "scripts/ctl/commands/json_report.h"
#include "scripts/ctl/commands/owner.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/commands/redis_walk.h"

namespace freshet::ctl {
namespace {

constexpr std::size_t kBatch = 500;

// Error: kConflict "has_items" when Redis has an item that was put. No key lists them all: O(keys)
// when there is none.
Result<void> expect_no_items(redis::SyncRedis& redis, const RedisSettings& settings) {
  const redis::Keys keys(settings.key_prefix);
  return walk(redis, "SCAN", "", [&](const std::vector<std::string>& found) -> Result<void> {
    redis::Pipeline look;
    for (const std::string& key : found) {
      const auto plain = keys.plain(key);
      if (plain && after(*plain, "item:")) look.add("HEXISTS", key, "published_at");
    }
    if (look.empty()) return {};
    FRESHET_TRY(replies, ask(redis, look));
    for (const redis::Reply& reply : *replies) {
      if (reply.integer().value_or(0) == 1)
        return fail(ErrorCode::kConflict, "has_items", {},
                    "Redis has items; --force replaces them by the database's");
    }
    return {};
  });
}

class Refill {
 public:
  Refill(redis::SyncRedis& redis, const Settings& settings, const RebuildRedisOptions& options,
         std::int64_t total)
      : redis_(redis),
        keys_(settings.redis.key_prefix),
        items_(redis, settings, keys_, items::RedisItemStore::Tell::kNobody),
        force_(options.force),
        total_(total),
        line_(stderr, options.quiet) {}

  Result<void> add(const items::Item& item) {
    batch_.push_back(item);
    return batch_.size() < kBatch ? Result<void>() : flush();
  }

  Result<void> flush() {
    read_ += static_cast<std::int64_t>(batch_.size());
    if (!force_) {
      if (auto ok = leave_out_known(); !ok) return ok;
    }
    if (auto put = redis::wait(items_.put_many(batch_)); !put) return put;
    written_ += static_cast<std::int64_t>(batch_.size());
    batch_.clear();
    line_.show({read_, total_, ProgressLine::Clock::now() - began_, {}});
    return {};
  }

  std::int64_t written() const { return written_; }

 private:
  // What came or went through the service since is newer than the database.
  Result<void> leave_out_known() {
    redis::Pipeline ask;
    for (const items::Item& item : batch_) {
      ask.add("HEXISTS", keys_.item(item.id.view()), "published_at");
      ask.add("ZSCORE", keys_.hidden(), item.id.view());
    }
    if (ask.empty()) return {};
    FRESHET_TRY(replies, redis_.call(ask));
    std::vector<items::Item> unknown;
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      const bool known = (*replies)[2 * i].integer() == 1 || !(*replies)[2 * i + 1].is_nil();
      if (!known) unknown.push_back(std::move(batch_[i]));
    }
    batch_ = std::move(unknown);
    return {};
  }

  redis::SyncRedis& redis_;
  const redis::Keys keys_;
  items::RedisItemStore items_;
  const bool force_;
  const std::int64_t total_;
  ProgressLine line_;
  const ProgressLine::Clock::time_point began_ = ProgressLine::Clock::now();
  std::vector<items::Item> batch_;
  std::int64_t read_ = 0, written_ = 0;
};

// The loss that was noted, "" when there is none. What the recorder has not noticed yet is noted
// here: a rebuild that is interrupted shall not hide it.
Result<std::string> loss_of(redis::SyncRedis& redis, database::Database& database, const redis::Keys& keys) {
  FRESHET_TRY(group, recorder::has_group(redis, keys));
  if (!*group) {
    FRESHET_TRY(recorded, database.last_entry());
    FRESHET_TRY(
        made, recorded->empty() ? recorder::make_group(redis, keys) : recorder::make_lost_group(redis, keys));
  }
  return recorder::noted_loss(redis, keys);
}

Result<void> end_loss(redis::SyncRedis& redis, const std::string& loss, const redis::Keys& keys) {
  FRESHET_TRY(now, recorder::noted_loss(redis, keys));
  if (*now != loss)
    return fail(ErrorCode::kConflict, "lost_again", {},
                "Redis lost its items again meanwhile: call this once more");
  return recorder::forget_loss(redis, keys);
}

}  // namespace

Result<RedisRebuilt> rebuild_redis(redis::SyncRedis& redis, database::Database& database,
                                   const Settings& settings, const RebuildRedisOptions& options) {
  const redis::Keys keys(settings.redis.key_prefix);
  FRESHET_TRY(loss, loss_of(redis, database, keys));
  if (!options.force && loss->empty()) {
    if (auto empty = expect_no_items(redis, settings.redis); !empty) return tl::unexpected(empty.error());
  }
  Refill refill(redis, settings, options, database.count());
  auto read = database.for_each_item([&](const items::Item& item) { return refill.add(item); });
  if (read) read = refill.flush();
  if (!read) return tl::unexpected(read.error());
  FRESHET_TRY(readers, restore_readers(redis, database, settings, wall_now()));
  if (auto ok = end_loss(redis, *loss, keys); !ok) return tl::unexpected(ok.error());
  return RedisRebuilt{refill.written(), *readers};
}

Result<int> run_rebuild_redis(const RebuildRedisOptions& options, const Target& target) {
  FRESHET_TRY(settings, settings_of(target));
  FRESHET_TRY(endpoint, redis_endpoint(target, *settings));
  if (auto ok = become_owner_of(settings->recorder.database); !ok) return tl::unexpected(ok.error());
  FRESHET_TRY(database,
              database::Database::open(settings->recorder.database, database::Database::Mode::kRead));
  redis::SyncRedis redis(*endpoint, kRedisTimeout, redis::kAllScripts);
  const auto began = ProgressLine::Clock::now();
  FRESHET_TRY(rebuilt, rebuild_redis(redis, **database, *settings, options));
  const Nanoseconds took = ProgressLine::Clock::now() - began;
  const RestoredReaders& readers = rebuilt->readers;
  if (options.json) {
    report_json([&](json::Writer& out) {
      out.key("items").integer(rebuilt->items).key("interactions").integer(readers.interactions);
      out.key("dismissals").integer(readers.dismissals).key("follows").integer(readers.follows);
      out.key("seconds").number(in_seconds(took));
    });
    return 0;
  }
  fmt::print("wrote {} items to Redis in {}\n", grouped(rebuilt->items), in_words(took));
  fmt::print("and of readers {} interactions, {} dismissals, {} follows\n", grouped(readers.interactions),
             grouped(readers.dismissals), grouped(readers.follows));
  return 0;
}

}  // namespace freshet::ctl
