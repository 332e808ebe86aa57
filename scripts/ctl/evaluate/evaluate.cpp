#include "scripts/ctl/evaluate/evaluate.h"

#include <fmt/format.h>

#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/evaluate/evaluate_sets.h"

namespace freshet::ctl {

std::span<const DataSet> data_sets() { return kDataSets; }

Result<int> run_evaluate(const EvaluateOptions& options) {
  for (const DataSet& set : kDataSets) {
    if (set.name != options.data_set) continue;
    ProgressLine line(stderr, options.quiet);
    const auto began = ProgressLine::Clock::now();
    const Stage stage = [&](std::string_view what, double done) {
      constexpr double kSteps = 1000;
      line.show({static_cast<std::int64_t>(done * kSteps),
                 static_cast<std::int64_t>(kSteps),
                 ProgressLine::Clock::now() - began,
                 {}},
                "  " + std::string(what));
    };
    const auto report = set.evaluate(options.directory, stage);
    line.clear();
    if (!report) return tl::unexpected(report.error());
    fmt::print("{}", options.json ? report->json() : report->table());
    return 0;
  }
  return fail(ErrorCode::kInvalid, "bad_data_set", {}, "no such data set: " + options.data_set);
}

}  // namespace freshet::ctl
