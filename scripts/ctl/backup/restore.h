// freshetctl restore: a backup (backup.h) becomes the service's state, on the host of its recorder,
// while the service does not run on any: it has the recorder's lease until it is done. Redis and
// the database are loaded, made one (reconcile.h), whoever was erased since is erased again
// (erase_again.h), and the search index is made from the database. Killed in the middle it can be
// repeated, with --replace; the database takes its place last.
#pragma once

#include <string>

#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct RestoreOptions {
  std::string folder;
  bool replace = false;  // what Redis and the disk hold now is deleted
  std::string erase;     // a file of readers' ids, one a line: erased before anybody can see them
  bool json = false;
  bool quiet = false;
};

// Errors, before anything is changed: what verify_backup() says; kConflict "service_running",
// "has_data" (without --replace), "key_mismatch" (the backup's key_prefix differs); kUnavailable
// "database_newer". Later ones: the disk's and Redis'. Run by root, files belong to the folder's
// owner.
Result<int> run_restore(const RestoreOptions& options, const Target& target);

}  // namespace freshet::ctl
