// Writes a batch of stream entries to the database.
#pragma once

#include "core/database/database.h"
#include "core/recorder/batch.h"
#include "core/redis/keys.h"

namespace freshet::recorder {

// Writes items, readers' changes and the id of each stream's last entry in one transaction, all or
// nothing. Ignores erasure and fan-out jobs. REQUIRES: !batch.empty(). Errors: those of Database.
Result<void> write_batch(database::Database& database, const EntryBatch& batch, const redis::Keys& keys);

}  // namespace freshet::recorder
