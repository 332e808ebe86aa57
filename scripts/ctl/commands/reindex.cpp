#include "scripts/ctl/commands/reindex.h"

#include <fmt/format.h>

#include <chrono>

#include "core/database/database.h"
#include "core/search/search_index.h"
#include "scripts/ctl/commands/owner.h"
#include "scripts/ctl/commands/progress.h"

namespace freshet::ctl {

Result<int> run_reindex(const ReindexOptions& options, const Target& target) {
  FRESHET_TRY(settings, settings_of(target));
  const std::string& path = settings->recorder.database;
  if (auto ok = become_owner_of(path); !ok) return tl::unexpected(ok.error());
  // In this order: what the recorder writes from now on it writes into the new index, too.
  FRESHET_TRY(rebuild, search::IndexRebuild::start(settings->search));
  FRESHET_TRY(database, database::Database::open(path, database::Database::Mode::kRead));

  ProgressLine line(stderr, options.quiet);
  const auto began = ProgressLine::Clock::now();
  std::int64_t done = 0;
  const auto read = (*database)->for_each_item([&](const items::Item& item) -> Result<void> {
    if (auto put = (*rebuild)->put(item); !put) return put;
    line.show({++done, (*database)->count(), ProgressLine::Clock::now() - began, {}});
    return {};
  });
  line.clear();
  if (!read) return tl::unexpected(read.error());
  if (auto finished = (*rebuild)->finish(); !finished) return tl::unexpected(finished.error());
  fmt::print("indexed {} of {} items in {}\n", grouped(static_cast<std::int64_t>((*rebuild)->documents())),
             grouped(done), in_words(ProgressLine::Clock::now() - began));
  return 0;
}

}  // namespace freshet::ctl
