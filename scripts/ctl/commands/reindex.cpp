#include "scripts/ctl/commands/reindex.h"

#include <fmt/format.h>

#include <chrono>

#include "core/database/database.h"
#include "core/search/search_index.h"
#include "scripts/ctl/commands/json_report.h"
#include "scripts/ctl/commands/owner.h"
#include "scripts/ctl/commands/print.h"
#include "scripts/ctl/commands/progress.h"

namespace freshet::ctl {

Result<ReindexResult> reindex(const Target& target, bool quiet) {
  FRESHET_TRY(settings, load_settings(target));
  const std::string& path = settings->recorder.database;
  if (auto ok = switch_to_owner(path); !ok) return tl::unexpected(ok.error());
  // In this order, so that the recorder writes every later change into the new index, too.
  FRESHET_TRY(rebuild, search::IndexRebuild::start(settings->search));
  FRESHET_TRY(database, database::Database::open(path, database::Database::Mode::kRead));

  ProgressLine line(stderr, quiet);
  const auto began = ProgressLine::Clock::now();
  std::int64_t done = 0;
  const auto read = (*database)->for_each_item([&](const items::Item& item) -> Result<void> {
    if (auto put = (*rebuild)->put(item); !put) return put;
    line.update({++done, (*database)->item_count(), ProgressLine::Clock::now() - began, {}});
    return {};
  });
  line.clear();
  if (!read) return tl::unexpected(read.error());
  if (auto finished = (*rebuild)->finish(); !finished) return tl::unexpected(finished.error());
  return ReindexResult{static_cast<std::int64_t>((*rebuild)->documents()), done,
                       ProgressLine::Clock::now() - began};
}

std::string summary_text(const ReindexResult& result) {
  return fmt::format("indexed {} of {} items in {}", format_number(result.indexed),
                     format_number(result.items), format_duration(result.elapsed));
}

Result<int> run_reindex(const ReindexOptions& options, const Target& target) {
  FRESHET_TRY(done, reindex(target, options.quiet));
  if (options.json)
    report_json([&](json::Writer& out) {
      out.key("indexed").integer(done->indexed).key("items").integer(done->items);
      out.key("seconds").number(to_seconds(done->elapsed));
    });
  else
    ctl::print("{}\n", summary_text(*done));
  return 0;
}

}  // namespace freshet::ctl
