// freshetctl restore: replaces the service's state with a backup (backup.h). Runs on the recorder's
// host while the service is stopped on all hosts; holds the recorder's lease until it is done.
// Loads Redis and the database, makes them consistent (reconcile.h), repeats later erasures
// (repeat_erasures.h), moves the database into place, and rebuilds ranks and the search index.
// After an interruption no service starts with this Redis until the restore is repeated with
// --replace.
#pragma once

#include <string>

#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct RestoreOptions {
  std::string folder;
  // Delete the current contents of Redis and the database, also those of an earlier schema.
  bool replace = false;
  // File of reader ids, one per line, erased before the service can show them. If it names any, it
  // states all erasures that the database does not know.
  std::string erase;
  bool accept_unknown_erasures = false;
  bool json = false;
  bool quiet = false;
};

// Exit status when erasures made after the backup are not known here, RestoreOptions::erase names
// no reader, and accept_unknown_erasures is not given: the database that was backed up, which lists
// them, or identity.salt_file is missing, or the database is an earlier copy. Nothing has been
// changed.
inline constexpr int kExitUnknownErasures = 3;

// Errors before anything is changed: those of verify_backup(); kConflict "service_running",
// "has_data" (without --replace), "key_mismatch" (the backup has another key_prefix),
// "backup_not_loadable" (by this server; the detail names both), "account_lacks_rights",
// "maxmemory_too_small" (less than half of the backup's dump); kUnavailable "redis_too_old". Later
// errors: the disk's and Redis'. Under root, files get the owner of their folder.
Result<int> run_restore(const RestoreOptions& options, const Target& target);

}  // namespace freshet::ctl
