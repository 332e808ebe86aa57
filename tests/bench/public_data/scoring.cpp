#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "core/tuning/scratch_folder.h"
#include "tests/bench/public_data/data.h"
#include "tests/bench/public_data/sets.h"

namespace freshet::bench {
namespace {

constexpr std::array<std::uint32_t, 3> kSizes{5000, 50000, 500000};
constexpr std::size_t kReaders = 500;
constexpr std::size_t kProfile = 100;  // items in each profile

// Squaring a uniform number makes low item numbers more frequent, like popular items.
std::uint32_t random_item(std::mt19937_64& random, std::uint32_t items) {
  const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
  return std::min(items - 1, static_cast<std::uint32_t>(uniform * uniform * items));
}

void add_rows(training::TrainedModel::Rows& rows, std::uint32_t items, std::size_t neighbours,
              std::mt19937_64& random) {
  rows.starts.push_back(0);
  for (std::uint32_t item = 0; item < items; ++item) {
    for (std::size_t i = 0; i < neighbours; ++i) {
      rows.neighbours.push_back({random_item(random, items), 1 / std::sqrt(static_cast<float>(i + 1))});
    }
    rows.starts.push_back(rows.neighbours.size());
  }
}

training::TrainedModel synthetic_model(std::uint32_t items, const TrainSettings& settings) {
  std::mt19937_64 random(items);
  training::TrainedModel out;
  const training::TrainingData table = training_data({}, items);
  out.items = table.items;
  out.trained_at = table.now;
  out.counts.assign(items, 1);
  out.decayed_counts.assign(items, 1);
  out.terms.resize(items);
  out.blend_weights.by_relation[1] = out.blend_weights.by_relation[2] = 0.5F;
  out.algorithm = "rp3beta";
  add_rows(out.relations[0], items, static_cast<std::size_t>(settings.neighbours), random);
  add_rows(out.relations[1], items, static_cast<std::size_t>(settings.content_neighbours), random);
  add_rows(out.relations[2], items, 0, random);
  return out;
}

std::vector<std::vector<std::uint32_t>> random_profiles(std::uint32_t items) {
  std::mt19937_64 random(7);
  std::vector<std::vector<std::uint32_t>> profiles(kReaders);
  for (auto& profile : profiles) {
    for (std::size_t i = 0; i < kProfile; ++i) profile.push_back(random_item(random, items));
  }
  return profiles;
}

}  // namespace

Result<EvaluationReport> evaluate_scoring(const std::string& directory, const Progress& progress) {
  if (!std::filesystem::is_directory(directory)) {
    return fail(ErrorCode::kNotFound, "no_file", {}, directory + " is not a folder");
  }
  EvaluationReport report(fmt::format("scoring: affinities and top 20 for profiles of {} items", kProfile));
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    const std::uint32_t items = kSizes[i];
    progress(fmt::format("{} items", items), static_cast<double>(i) / kSizes.size());
    const tuning::ScratchFolder folder(directory);
    const auto file = folder.path() / "model";
    if (auto ok = training::write_model(synthetic_model(items, {}), file); !ok)
      return tl::unexpected(ok.error());
    FRESHET_TRY(mapped, model::Model::open(file));
    const Times times = scoring_times(**mapped, random_profiles(items));
    report.add({"", fmt::format("{} items, p50", items), times.p50_us, "us"});
    report.add({"", fmt::format("{} items, p99", items), times.p99_us, "us"});
    report.add(
        {"", fmt::format("{} items, model file", items), static_cast<double>((*mapped)->bytes()), "bytes"});
  }
  return report;
}

}  // namespace freshet::bench
