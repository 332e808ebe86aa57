#include "scripts/ctl/commands/reindex.h"

#include <fmt/format.h>

#include <chrono>

#include "core/database/database.h"
#include "core/search/search_index.h"
#include "scripts/ctl/commands/json_report.h"
#include "scripts/ctl/commands/owner.h"
#include "scripts/ctl/commands/progress.h"

namespace freshet::ctl {

Result<Reindexed> reindex(const Target& target, bool quiet) {
  FRESHET_TRY(settings, settings_of(target));
  const std::string& path = settings->recorder.database;
  if (auto ok = become_owner_of(path); !ok) return tl::unexpected(ok.error());
  // In this order: what the recorder writes from now on it writes into the new index, too.
  FRESHET_TRY(rebuild, search::IndexRebuild::start(settings->search));
  FRESHET_TRY(database, database::Database::open(path, database::Database::Mode::kRead));

  ProgressLine line(stderr, quiet);
  const auto began = ProgressLine::Clock::now();
  std::int64_t done = 0;
  const auto read = (*database)->for_each_item([&](const items::Item& item) -> Result<void> {
    if (auto put = (*rebuild)->put(item); !put) return put;
    line.show({++done, (*database)->item_count(), ProgressLine::Clock::now() - began, {}});
    return {};
  });
  line.clear();
  if (!read) return tl::unexpected(read.error());
  if (auto finished = (*rebuild)->finish(); !finished) return tl::unexpected(finished.error());
  return Reindexed{static_cast<std::int64_t>((*rebuild)->documents()), done,
                   ProgressLine::Clock::now() - began};
}

std::string in_words(const Reindexed& done) {
  return fmt::format("indexed {} of {} items in {}", grouped(done.indexed), grouped(done.items),
                     in_words(done.took));
}

Result<int> run_reindex(const ReindexOptions& options, const Target& target) {
  FRESHET_TRY(done, reindex(target, options.quiet));
  if (options.json)
    report_json([&](json::Writer& out) {
      out.key("indexed").integer(done->indexed).key("items").integer(done->items);
      out.key("seconds").number(in_seconds(done->took));
    });
  else
    fmt::print("{}\n", in_words(*done));
  return 0;
}

}  // namespace freshet::ctl
