// freshetctl reindex: the search index anew from the database, beside the old one, which is searched until
// the new one takes its place. The recorder waits meanwhile, and writes go on into the stream.
#pragma once

#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct ReindexOptions {
  bool quiet = false;
};

// Run by root it works as the database's owner. Errors: no database, another writer of the index, the disk.
Result<int> run_reindex(const ReindexOptions& options, const Target& target);

}  // namespace freshet::ctl
