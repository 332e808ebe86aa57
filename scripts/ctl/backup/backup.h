// freshetctl backup: saves all durable state into a folder (backup_folder.h) while the service
// runs: Redis (save_redis.h), then the database, the model and, on request, the configuration. Not
// included: the search index, which is rebuilt from the database; writes queued in spool files;
// keys and passwords. Leaves the backup's id in the database (Database::backup_ids()).
#pragma once

#include <string>

#include "scripts/ctl/backup/manifest.h"
#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct BackupOptions {
  std::string folder;        // must not exist; with `verify`: an existing backup
  bool verify = false;       // verify a backup instead of making one
  bool with_config = false;  // include freshet.toml and the conf.d next to it
  bool json = false;
  bool quiet = false;
};

// Reads the whole backup: checksums, the database's integrity, every Redis record. Errors: kInvalid
// "bad_backup", with the file's name in the detail; kUnavailable "database_newer".
Result<Manifest> verify_backup(const std::string& folder);

Result<int> run_backup(const BackupOptions& options, const Target& target);

}  // namespace freshet::ctl
