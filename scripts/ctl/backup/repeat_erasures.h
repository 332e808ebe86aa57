// The part of freshetctl restore that forgets readers who were erased after the backup was made.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/config/settings.h"
#include "core/database/database.h"
#include "core/readers/personal_keys.h"
#include "core/redis/blocking_redis.h"

namespace freshet::ctl {

struct ErasureSet {
  std::vector<ReaderId> readers;           // by their ids
  std::unordered_set<std::string> pseudonyms;  // by their names in Database::erased_since()
};

// Erases them from both, as core/recorder/erasure_worker.h does; a reader known by the hash alone is looked
// for among all ids that database and keys name. Returns how many readers were found. The recorder
// must not run. O(keys + readers). Errors: Redis' and the database's.
Result<std::int64_t> repeat_erasures(redis::BlockingRedis& redis, database::Database& database,
                                 const Settings& settings, const readers::ReaderPseudonyms& hashes,
                                 const ErasureSet& erasures);

}  // namespace freshet::ctl
