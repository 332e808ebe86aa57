// A batch of stream entries into the database.
#pragma once

#include "core/database/database.h"
#include "core/recorder/batch.h"
#include "core/redis/keys.h"

namespace freshet::recorder {

// One transaction: items, what readers did, and the id of each stream's last entry; afterwards all
// of it is there, or, with an error, nothing. Erasures and fan-outs are jobs, and not its business.
// REQUIRES: !batch.empty(). Errors: Database's.
Result<void> write_batch(database::Database& database, const EntryBatch& batch, const redis::Keys& keys);

}  // namespace freshet::recorder
