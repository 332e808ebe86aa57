// A Redis that lost its items gets them back from the database: their hashes, tags and places in
// the ranks; and readers what they did and do not want (restore_readers.h). Not through the stream:
// the database has them already. Counters are lost with Redis.
#pragma once

#include <functional>

#include "core/database/database.h"
#include "core/recorder/restore_readers.h"
#include "core/redis/keys.h"
#include "core/redis/blocking_redis.h"

namespace freshet::recorder {

struct RestoreResult {
  std::int64_t items = 0;  // written
  RestoredReaderCounts readers;
};
// Unless all are replaced, an item that Redis has (again) is left alone, and so is one that was
// deleted meanwhile: writes go on. `pulse` is called before each pipeline with the number of items
// read, and its error ends this. Errors: also Redis' and the database's. May be repeated.
Result<RestoreResult> restore_from_database(redis::BlockingRedis& redis, database::Database& database, const Settings& settings,
                        bool overwrite, const std::function<Result<void>(std::int64_t)>& on_progress);

// The loss that was noted (group.h) is over. Errors: kConflict "redis_data_lost_again", when another was noted
// meanwhile. 2 RTT.
Result<void> end_data_loss(redis::BlockingRedis& redis, const redis::Keys& keys, const std::string& loss);

}  // namespace freshet::recorder
