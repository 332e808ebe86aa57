// freshetctl backup: everything that is durable, into a folder (backup_folder.h), while the service
// runs: Redis (save_redis.h), then the database, the model's file, and, where asked for, the
// configuration. Not in it: the search index, which is made from the database; what waits in spool
// files while Redis is away; keys and passwords.
#pragma once

#include <string>

#include "scripts/ctl/backup/manifest.h"
#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct BackupOptions {
  std::string folder;        // must not exist; with verify: a backup
  bool verify = false;       // read a backup instead of making one
  bool with_config = false;  // freshet.toml and the conf.d beside it, too
  bool json = false;
  bool quiet = false;
};

// Reads all of a backup: the checksums, the database's integrity, every record of Redis. Errors:
// kInvalid "bad_backup", with the file's name in the detail.
Result<Manifest> verify_backup(const std::string& folder);

Result<int> run_backup(const BackupOptions& options, const Target& target);

}  // namespace freshet::ctl
