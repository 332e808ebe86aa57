#include "core/recorder/restore_from_database.h"

#include <vector>

#include "core/items/item_store.h"
#include "core/recorder/consumer_groups.h"

namespace freshet::recorder {
namespace {

constexpr std::size_t kBatchItems = 500;

class ItemRestorer {
 public:
  ItemRestorer(redis::BlockingRedis& redis, const Settings& settings, bool replace,
               const std::function<Result<void>(std::int64_t)>& pulse)
      : redis_(redis),
        keys_(settings.redis),
        items_(redis, settings, keys_, items::RedisItemStore::StreamPolicy::kSkip),
        overwrite_(replace),
        on_progress_(pulse) {}

  Result<void> add(const items::Item& item) {
    batch_.push_back(item);
    return batch_.size() < kBatchItems ? Result<void>() : flush();
  }

  Result<void> flush() {
    read_ += static_cast<std::int64_t>(batch_.size());
    if (auto progress = on_progress_(read_); !progress) return progress;
    if (!overwrite_) {
      if (auto ok = drop_known(); !ok) return ok;
    }
    if (auto put = redis::run_sync(items_.put_many(batch_)); !put) return put;
    written_ += static_cast<std::int64_t>(batch_.size());
    batch_.clear();
    return {};
  }

  std::int64_t read() const { return read_; }
  std::int64_t written() const { return written_; }

 private:
  // Changes made by the service since the loss are newer than the database.
  Result<void> drop_known() {
    redis::Pipeline query;
    for (const items::Item& item : batch_) {
      query.add("HEXISTS", keys_.item(item.id.view()), "published_at");
      query.add("ZSCORE", keys_.partition_for(item.id.view()).hidden(), item.id.view());
    }
    if (query.empty()) return {};
    FRESHET_TRY(replies, redis_.call(query));
    std::vector<items::Item> unknown;
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      const bool known = (*replies)[2 * i].integer() == 1 || !(*replies)[2 * i + 1].is_nil();
      if (!known) unknown.push_back(std::move(batch_[i]));
    }
    batch_ = std::move(unknown);
    return {};
  }

  redis::BlockingRedis& redis_;
  const redis::Keys keys_;
  items::RedisItemStore items_;
  const bool overwrite_;
  const std::function<Result<void>(std::int64_t)>& on_progress_;
  std::vector<items::Item> batch_;
  std::int64_t read_ = 0, written_ = 0;
};

}  // namespace

Result<RestoreResult> restore_from_database(redis::BlockingRedis& redis, database::Database& database,
                                            const Settings& settings, bool overwrite,
                                            const std::function<Result<void>(std::int64_t)>& on_progress) {
  if (auto ok = restore_tombstones(redis, database, settings, wall_now()); !ok)
    return tl::unexpected(ok.error());
  ItemRestorer items(redis, settings, overwrite, on_progress);
  auto read = database.for_each_item([&](const items::Item& item) { return items.add(item); });
  if (read) read = items.flush();
  if (!read) return tl::unexpected(read.error());
  FRESHET_TRY(readers, restore_readers(redis, database, settings, wall_now(),
                                       [&] { return on_progress(items.read()); }));
  return RestoreResult{items.written(), *readers};
}

Result<void> end_data_loss(redis::BlockingRedis& redis, const redis::Keys& keys, const std::string& loss) {
  FRESHET_TRY(now, recorded_data_loss(redis, keys));
  if (*now == loss) return clear_data_loss(redis, keys);
  return fail(ErrorCode::kConflict, "redis_data_lost_again", {},
              "Redis lost its data again during the restore; run the command again");
}

}  // namespace freshet::recorder
