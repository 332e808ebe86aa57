// freshetctl reindex: rebuilds the search index from the database. The old index serves until it is
// replaced. The recorder is paused until then; its streams queue the writes.
#pragma once

#include <cstdint>

#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct ReindexResult {
  std::int64_t indexed = 0, items = 0;
  Nanoseconds elapsed{0};
};
// Under root it switches to the database's owner. Errors: no database, another writer of the index,
// the disk.
Result<ReindexResult> reindex(const Target& target, bool quiet);

struct ReindexOptions {
  bool json = false;
  bool quiet = false;
};
Result<int> run_reindex(const ReindexOptions& options, const Target& target);
// "indexed 12 of 12 items in 42 ms"
std::string summary_text(const ReindexResult& result);

}  // namespace freshet::ctl
