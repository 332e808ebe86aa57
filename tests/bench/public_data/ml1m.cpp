#include <fmt/format.h>

#include <algorithm>

#include "tests/bench/public_data/data.h"
#include "tests/bench/public_data/sets.h"

namespace freshet::bench {
namespace {

constexpr int kMl1mNeighbours = 370;  // per item; as many as fit into a model file of 5 MB

using Lists = std::vector<std::vector<std::uint32_t>>;

// Reads lines of the form "reader item item …". Returns the items by reader.
Result<Lists> read_split(const std::filesystem::path& path) {
  const auto lines = read_numbers(path);
  if (!lines) return lines;
  Lists lists;
  for (const auto& line : *lines) {
    if (line.empty()) continue;
    if (line[0] >= 1'000'000)
      return fail(ErrorCode::kInvalid, "bad_data", {}, path.string() + ": reader out of range");
    if (line[0] >= lists.size()) lists.resize(line[0] + 1);
    lists[line[0]].assign(line.begin() + 1, line.end());
  }
  return lists;
}

std::uint32_t items_in(const Lists& lists) {
  std::uint32_t count = 0;
  for (const auto& list : lists) {
    for (const std::uint32_t item : list) count = std::max(count, item + 1);
  }
  return count;
}

}  // namespace

Result<EvaluationReport> evaluate_ml1m(const std::string& directory, const Progress& progress) {
  const std::filesystem::path folder(directory);
  FRESHET_TRY(train, read_split(folder / "train.txt"));
  FRESHET_TRY(test, read_split(folder / "test.txt"));
  const std::size_t readers = std::max(train->size(), test->size());
  train->resize(readers);
  test->resize(readers);
  TrainSettings settings;
  settings.neighbours = kMl1mNeighbours;
  FRESHET_TRY(done, train_from_database(training_data(*train, std::max(items_in(*train), items_in(*test))),
                                        settings, progress));
  progress("ranking", 0);
  const Accuracy found = accuracy(*done->model, *train, *test, {});
  progress("timing", 0);
  const Times times = scoring_times(*done->model, *train);

  EvaluationReport report("ml1m: train.txt and test.txt, items of train.txt not ranked for their reader");
  report.add({"Q1", "recall@20", found.recall, "", 0.275, 0.2787});
  report.add({"Q1", "ndcg@20", found.ndcg, "", 0.267, 0.272});
  report.add({"Q2", "ndcg@20 with this file", found.ndcg, "", 0.263, 0.267});
  report.add({"Q2", "model file", static_cast<double>(done->model->bytes()), "bytes", 5e6, {}, true});
  report.add({"T1", "training with SQLite read and file write", done->trained.count(), "s", 3, 1.5, true});
  report.add({"S1", "one reader's top 20, p50", times.p50_us, "us", 150, 60, true});
  report.add({"S1", "one reader's top 20, p99", times.p99_us, "us", 1000, 300, true});
  report.note("validation: " + done->report);
  report.note(fmt::format("chosen: {}; {} neighbors per item; {} items", done->model->algorithm(),
                          settings.neighbours, done->model->items()));
  return report;
}

}  // namespace freshet::bench
