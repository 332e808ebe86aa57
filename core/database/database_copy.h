// The database's file as a whole: a copy of it while its recorder writes, whether a file is a good
// one, and whether somebody has it open. For backups.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/result.h"

namespace freshet::database {

// What `from` holds at one moment, also when it is of an older version, as one file at `to`, which
// must not exist; synced to the disk. Writers are not held up, and what they deleted before is not
// in the copy, not even as unused bytes. O(bytes). Errors: those of Database.
Result<void> copy_database(const std::string& from, const std::string& to);

struct DatabaseSummary {
  std::int64_t schema_version = 0;  // user_version: 0 is a file without tables
  std::int64_t items = 0;   // hidden ones too
};
// Reads the whole of a database that nobody writes, and leaves nothing beside it. Errors:
// kUnavailable "database_corrupt", "database_newer", "database_absent".
Result<DatabaseSummary> verify_database(const std::string& path);

// True while another connection has it open, the recorder's for one. False when there is no such
// file.
bool database_in_use(const std::string& path);

}  // namespace freshet::database
