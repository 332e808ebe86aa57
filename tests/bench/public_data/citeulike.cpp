#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "tests/bench/public_data/data.h"
#include "tests/bench/public_data/sets.h"

namespace freshet::bench {
namespace {

constexpr int kCiteulikeNeighbours = 300;  // per item; 370 would keep all items that co-occur

using Lists = std::vector<std::vector<std::uint32_t>>;

// Reads lines of the form "n number number …" with n numbers.
Result<Lists> read_counted(const std::filesystem::path& path) {
  auto lines = read_numbers(path);
  if (!lines) return lines;
  for (auto& line : *lines) {
    if (line.empty() || line[0] + 1 != line.size()) {
      return fail(ErrorCode::kInvalid, "bad_data", {},
                  path.string() + ": a line's count does not match its numbers");
    }
    line.erase(line.begin());
  }
  return lines;
}

// Chooses a random fifth of 0 … count − 1 with a Fisher–Yates shuffle.
std::vector<bool> choose_fifth(std::size_t count, std::mt19937_64& random) {
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  std::vector<bool> chosen(count, false);
  for (std::size_t i = 0; i < count / 5; ++i) {
    std::swap(order[i], order[i + random() % (count - i)]);
    chosen[order[i]] = true;
  }
  return chosen;
}

struct Split {
  Lists train, warm, cold, both;  // by reader; all but `train` are held out
  std::vector<std::uint32_t> warm_items, cold_items;
};

Split split(const Lists& readers, std::size_t items) {
  std::mt19937_64 random(7);
  const auto cold = choose_fifth(items, random);
  std::size_t pairs = 0;
  for (const auto& list : readers)
    pairs += static_cast<std::size_t>(
        std::count_if(list.begin(), list.end(), [&](auto item) { return !cold[item]; }));
  const auto held_out = choose_fifth(pairs, random);
  Split out;
  std::size_t pair = 0;
  for (const auto& list : readers) {
    auto& train = out.train.emplace_back();
    auto& reader_warm = out.warm.emplace_back();
    auto& reader_cold = out.cold.emplace_back();
    for (const std::uint32_t item : list) {
      (cold[item] ? reader_cold : held_out[pair++] ? reader_warm : train).push_back(item);
    }
    auto& both = out.both.emplace_back(reader_warm);
    both.insert(both.end(), reader_cold.begin(), reader_cold.end());
  }
  for (std::uint32_t item = 0; item < items; ++item) {
    (cold[item] ? out.cold_items : out.warm_items).push_back(item);
  }
  return out;
}

}  // namespace

Result<EvaluationReport> evaluate_citeulike(const std::string& directory, const Progress& progress) {
  const std::filesystem::path folder(directory);
  FRESHET_TRY(readers, read_counted(folder / "users.dat"));
  FRESHET_TRY(tags, read_counted(folder / "item-tag.dat"));
  for (const auto& list : *readers) {
    if (std::any_of(list.begin(), list.end(), [&](auto item) { return item >= tags->size(); })) {
      return fail(ErrorCode::kInvalid, "bad_data", {}, "users.dat has an item that item-tag.dat lacks");
    }
  }
  const Split parts = split(*readers, tags->size());
  training::TrainingData data = training_data(parts.train, static_cast<std::uint32_t>(tags->size()));
  for (std::size_t item = 0; item < tags->size(); ++item) {
    for (const std::uint32_t tag : (*tags)[item]) data.items[item].tags.push_back(std::to_string(tag));
  }
  TrainSettings settings;
  settings.neighbours = kCiteulikeNeighbours;
  FRESHET_TRY(done, train_from_database(data, settings, progress));

  EvaluationReport report("citeulike-a: a fifth of the items new, a fifth of the other pairs held out");
  const auto rank = [&](const char* goal, const char* name, const Lists& relevant,
                        const std::vector<std::uint32_t>& excluded, double must, double stretch) {
    progress(name, 0);
    const Accuracy found = accuracy(*done->model, parts.train, relevant, excluded);
    report.add({goal, name, found.ndcg, "", must, stretch});
  };
  rank("Q4", "ndcg@20, known items only", parts.warm, parts.cold_items, 0.285, 0.300);
  rank("Q5", "ndcg@20, new items only", parts.cold, parts.warm_items, 0.30, 0.33);
  rank("Q6", "ndcg@20, all items", parts.both, {}, 0.27, 0.30);
  report.add({"T2", "training with SQLite read and file write", done->trained.count(), "s", 3, 1, true});
  report.add({"", "model file", static_cast<double>(done->model->bytes()), "bytes", {}, {}, true});
  const Times times = scoring_times(*done->model, parts.train);
  report.add({"S1", "one reader's top 20, p50", times.p50_us, "us", 150, 60, true});
  report.add({"S1", "one reader's top 20, p99", times.p99_us, "us", 1000, 300, true});
  report.note("validation: " + done->report);
  report.note(fmt::format("chosen: {}; the same blend weights for Q4, Q5 and Q6", done->model->algorithm()));
  return report;
}

}  // namespace freshet::bench
