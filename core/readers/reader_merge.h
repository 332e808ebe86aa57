// Moves a reader's interactions and dismissals to another reader. RedisReaderStore::merge_views()
// moves the views.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/config/settings.h"
#include "core/readers/ports.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::readers {

struct CopiedRecords {
  std::vector<std::pair<std::string, UnixSeconds>> interactions;  // members of user:interactions
  std::vector<DismissalRecord> dismissals;                        // with `to` as the reader
  bool has_archived = false;
};

// Copies them; of two with the same item and kind, the later time stays. Idempotent. 2 RTT. Errors:
// Redis' own.
Task<Result<CopiedRecords>> copy_records(redis::Redis& redis, const Settings& settings,
                                         const redis::Keys& keys, const ReaderId& from, const ReaderId& to);
// Removes what was copied from the source; what it records in between stays. 1 RTT.
Task<Result<void>> remove_records(redis::Redis& redis, const redis::Keys& keys, const ReaderId& from,
                                  const CopiedRecords& copied);

}  // namespace freshet::readers
