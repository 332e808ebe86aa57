// A batch of stream entries into the database.
#pragma once

#include "core/database/database.h"
#include "core/recorder/batch.h"

namespace freshet::recorder {

// One transaction: items, what readers did, and the id of the last entry; afterwards all of it is
// there, or, with an error, nothing. Erasures and fan-outs are jobs, and not its business.
// REQUIRES: !batch.empty(). Errors: Database's.
Result<void> write_batch(database::Database& database, const Batch& batch);

}  // namespace freshet::recorder
