// Measures the quality of recommendations on the public data set in DIR:
//   evaluate_public DATASET DIR [--json] [--quiet]
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "scripts/ctl/commands/progress.h"
#include "tests/bench/public_data/sets.h"

using namespace freshet;
using namespace freshet::bench;

namespace {

Result<EvaluationReport> evaluate(const DataSet& set, const std::string& directory, bool quiet) {
  ctl::ProgressLine line(stderr, quiet);
  const auto began = ctl::ProgressLine::Clock::now();
  return set.evaluate(directory, [&](std::string_view stage, double done) {
    constexpr std::int64_t kSteps = 1000;
    const auto elapsed = ctl::ProgressLine::Clock::now() - began;
    line.update({static_cast<std::int64_t>(done * kSteps), kSteps, elapsed, {}}, "  " + std::string(stage));
  });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures the quality of recommendations on public data");
  std::string name, directory, footer = "Data sets:";
  bool json = false, quiet = false;
  for (const DataSet& set : kDataSets) footer += fmt::format("\n  {}: {}", set.name, set.help);
  app.add_option("DATASET", name, "a data set from the list below")->required();
  app.add_option("DIR", directory, "folder with its files")->required();
  app.add_flag("--json", json, "print JSON instead of a table");
  app.add_flag("-q,--quiet", quiet, "print no progress");
  app.footer(footer);
  CLI11_PARSE(app, argc, argv);
  for (const DataSet& set : kDataSets) {
    if (set.name != name) continue;
    const auto report = evaluate(set, directory, quiet);
    if (report) fmt::print("{}", json ? report->json() : report->table());
    if (!report) fmt::print(stderr, "evaluate_public: {}\n", report.error().detail);
    return report ? 0 : 1;
  }
  fmt::print(stderr, "evaluate_public: unknown data set: {}\n", name);
  return 2;
}
