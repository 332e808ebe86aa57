// The tables of the database, version by version.
#pragma once

#include <cstdint>

#include "core/database/sqlite.h"

namespace freshet::database {

// Error: kUnavailable "database_newer" when a later version of Freshet wrote it.
Result<void> check_version(std::int64_t version);

// Sets the connection up and, when it may write, brings an older file to this version, in one
// transaction. Errors: kUnavailable "database_newer"; "database_absent" when it may only read and
// the file is older.
Result<void> prepare_file(SqliteConnection& db, bool may_write);

}  // namespace freshet::database
