// The part of freshetctl restore that repeats the erasures made after the backup.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/config/settings.h"
#include "core/database/database.h"
#include "core/readers/personal_keys.h"
#include "core/redis/blocking_redis.h"

namespace freshet::ctl {

// Ids that were brought into Normalization Form C, as they were, by their new form.
using FormerIds = std::unordered_map<std::string, std::set<std::string>>;

struct ErasureSet {
  std::vector<ReaderId> readers;               // by id
  std::unordered_set<std::string> pseudonyms;  // by the pseudonyms of Database::erasures_since()
  FormerIds former_ids;                        // of readers, who may have been erased under these
};

// Erases the readers from Redis and the database, as core/recorder does. A pseudonym is matched
// against every reader id found in the database and in Redis' keys. Returns the number of readers
// found. REQUIRES: the recorder does not run. O(keys + readers). Errors: Redis' and the database's.
Result<std::int64_t> repeat_erasures(redis::BlockingRedis& redis, database::Database& database,
                                     const Settings& settings, const readers::ReaderPseudonyms& hashes,
                                     const ErasureSet& erasures);

}  // namespace freshet::ctl
