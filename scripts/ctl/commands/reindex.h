// freshetctl reindex: the search index anew from the database, beside the old one, which is
// searched until the new one takes its place. The recorder waits meanwhile, and writes go on into
// the stream.
#pragma once

#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct ReindexResult {
  std::int64_t indexed = 0, items = 0;
  Nanoseconds elapsed{0};
};
// Run by root it works as the database's owner. Errors: no database, another writer of the index,
// the disk.
Result<ReindexResult> reindex(const Target& target, bool quiet);

struct ReindexOptions {
  bool json = false;
  bool quiet = false;
};
Result<int> run_reindex(const ReindexOptions& options, const Target& target);
// "indexed 12 of 12 items in 42 ms"
std::string format_duration(const ReindexResult& result);

}  // namespace freshet::ctl
