#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/bench/public_data/data.h"
#include "tests/bench/public_data/sets.h"

namespace freshet::bench {
namespace {

constexpr std::array<std::uint32_t, 3> kSizes{5000, 50000, 500000};
constexpr std::size_t kReaders = 500;
constexpr std::size_t kProfile = 100;  // items of each

// Popular items come up as they do in life: the square of an even number crowds at the low end.
std::uint32_t some_item(std::mt19937_64& random, std::uint32_t items) {
  const double even = static_cast<double>(random() >> 11) * 0x1p-53;
  return std::min(items - 1, static_cast<std::uint32_t>(even * even * items));
}

void add_rows(training::TrainedModel::Rows& rows, std::uint32_t items, std::size_t most, std::mt19937_64& random) {
  rows.starts.push_back(0);
  for (std::uint32_t item = 0; item < items; ++item) {
    for (std::size_t i = 0; i < most; ++i) {
      rows.neighbours.push_back({some_item(random, items), 1 / std::sqrt(static_cast<float>(i + 1))});
    }
    rows.starts.push_back(rows.neighbours.size());
  }
}

training::TrainedModel made_up(std::uint32_t items, const TrainSettings& settings) {
  std::mt19937_64 random(items);
  training::TrainedModel made;
  const training::TrainingData table = training_data({}, items);
  made.items = table.items;
  made.trained_at = table.now;
  made.counts.assign(items, 1);
  made.decayed_counts.assign(items, 1);
  made.terms.resize(items);
  made.blend_weights.by_relation[1] = made.blend_weights.by_relation[2] = 0.5F;
  made.algorithm = "rp3beta";
  add_rows(made.relations[0], items, static_cast<std::size_t>(settings.neighbours), random);
  add_rows(made.relations[1], items, static_cast<std::size_t>(settings.content_neighbours), random);
  add_rows(made.relations[2], items, 0, random);
  return made;
}

std::vector<std::vector<std::uint32_t>> readers(std::uint32_t items) {
  std::mt19937_64 random(7);
  std::vector<std::vector<std::uint32_t>> profiles(kReaders);
  for (auto& profile : profiles) {
    for (std::size_t i = 0; i < kProfile; ++i) profile.push_back(some_item(random, items));
  }
  return profiles;
}

}  // namespace

Result<EvaluationReport> evaluate_scoring(const std::string& directory, const Stage& stage) {
  if (!std::filesystem::is_directory(directory)) {
    return fail(ErrorCode::kNotFound, "no_file", {}, directory + " is no folder");
  }
  EvaluationReport report(fmt::format("scoring: affinities and top 20 of readers with {} items", kProfile));
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    const std::uint32_t items = kSizes[i];
    stage(fmt::format("{} items", items), static_cast<double>(i) / kSizes.size());
    const ScratchFolder folder(directory);
    const auto file = folder.path() / "model";
    if (auto ok = training::write_model(made_up(items, {}), file); !ok) return tl::unexpected(ok.error());
    FRESHET_TRY(mapped, model::Model::open(file));
    const Times times = scoring_times(**mapped, readers(items));
    report.add({"", fmt::format("{} items, p50", items), times.p50_us, "us"});
    report.add({"", fmt::format("{} items, p99", items), times.p99_us, "us"});
    report.add(
        {"", fmt::format("{} items, model file", items), static_cast<double>((*mapped)->bytes()), "bytes"});
  }
  return report;
}

}  // namespace freshet::bench
