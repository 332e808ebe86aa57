// Copies and verifies a database file, for backups.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace freshet::database {

// Writes a consistent copy of `from`, which may have an older schema, to a single file `to`, which
// must not exist, and syncs it. Does not block writers. The copy contains no deleted data, not even
// in unused bytes. O(bytes). Errors: those of Database.
Result<void> copy_database(const std::string& from, const std::string& to);

// Adds a random id to those that Database::backup_ids() returns, and returns it. Call before
// copy_database(): later states of this database have the id, earlier ones do not. Waits up to ten
// seconds for a writer's lock. Does not migrate the file. Errors: those of Database.
Result<std::string> add_backup_id(const std::string& path);
inline constexpr std::int64_t kMaxBackupIds = 10'000;  // older ones are removed

struct DatabaseSummary {
  std::int64_t schema_version = 0;  // user_version; 0: a file without tables
  std::int64_t items = 0;           // hidden ones included
};
// Checks all of a database that no process is writing. Creates no file next to it. Errors:
// kUnavailable "database_corrupt", "database_newer", "database_absent".
Result<DatabaseSummary> verify_database(const std::string& path);

// The ids of readers that are not in Normalization Form C, which schemas before 4 had.
// O(readers). Errors: those of Database.
Result<std::vector<std::string>> unnormalized_readers(const std::string& path);

// Returns whether another connection, such as the recorder's, has the file open. False if there is
// no such file.
bool database_in_use(const std::string& path);

}  // namespace freshet::database
