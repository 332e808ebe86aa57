// The database schema and its migrations.
#pragma once

#include <cstdint>

#include "core/database/sqlite.h"

namespace freshet::database {

// Error: kUnavailable "database_newer" if a later version of Freshet wrote it.
Result<void> check_version(std::int64_t version);

// Configures the connection and, if it may write, migrates an older file in one transaction.
// Errors: kUnavailable "database_newer"; "database_absent" if it may only read and the file is
// older.
Result<void> prepare_file(SqliteConnection& db, bool may_write);

}  // namespace freshet::database
