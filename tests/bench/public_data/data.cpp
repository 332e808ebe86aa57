#include "tests/bench/public_data/data.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <stdexcept>

#include "core/database/database.h"
#include "core/database/database_readers.h"
#include "core/recommend/affinity_scorer.h"
#include "core/training/training_source.h"
#include "core/training/validation.h"
#include "core/tuning/scratch_folder.h"

namespace freshet::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr UnixSeconds kNow{seconds{1700000000}};
constexpr std::size_t kServedProfile = 200;
constexpr int kRowsPerTransaction = 50000;

std::vector<recommend::ProfileItem> make_profile(std::span<const std::uint32_t> items,
                                                 std::size_t max_items) {
  std::vector<recommend::ProfileItem> profile;
  for (const std::uint32_t item : items.subspan(0, std::min(max_items, items.size())))
    profile.push_back({item, 1});
  return profile;
}

Result<void> fill(database::Database& database, const training::TrainingData& data,
                  const Progress& progress) {
  if (auto ok = database.begin(); !ok) return ok;
  for (const training::TrainingItem& from : data.items) {
    items::Item item;
    item.id = ItemId::trusted(from.id);
    item.published_at = data.now;
    for (const std::string& tag : from.tags) item.tags.push_back(TagName::trusted(tag));
    if (auto ok = database.put_item(item); !ok) return ok;
  }
  int rows = 0;
  for (std::size_t i = 0; i < data.events.size(); ++i) {
    const training::TrainingEvent& event = data.events[i];
    readers::ReaderEvent row;
    row.reader = ReaderId::trusted(std::to_string(event.reader));
    row.item = ItemId::trusted(data.items[event.item].id);
    row.kind = event.kind;
    row.at = event.at;
    if (auto ok = database.readers().put_interaction(row); !ok) return ok;
    if (++rows % kRowsPerTransaction != 0) continue;
    progress("filling a database", static_cast<double>(i) / static_cast<double>(data.events.size()));
    if (auto ok = database.commit(); !ok) return ok;
    if (auto ok = database.begin(); !ok) return ok;
  }
  return database.commit();
}

}  // namespace

Result<std::vector<std::vector<std::uint32_t>>> read_numbers(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) return fail(ErrorCode::kNotFound, "no_file", {}, "cannot read " + path.string());
  std::vector<std::vector<std::uint32_t>> lines;
  for (std::string line; std::getline(in, line);) {
    auto& numbers = lines.emplace_back();
    const char* at = line.data();
    const char* const end = at + line.size();
    for (;;) {
      while (at < end && (*at == ' ' || *at == '\t' || *at == '\r')) ++at;
      if (at == end) break;
      std::uint32_t number = 0;
      const auto [next, error] = std::from_chars(at, end, number);
      if (error != std::errc{}) {
        return fail(ErrorCode::kInvalid, "bad_data", {},
                    fmt::format("{}: line {} is not a list of numbers", path.string(), lines.size()));
      }
      numbers.push_back(number);
      at = next;
    }
  }
  return lines;
}

std::string padded_id(std::uint32_t number) { return fmt::format("{:06}", number); }

training::TrainingData training_data(std::span<const std::vector<std::uint32_t>> items_of_readers,
                                     std::uint32_t count) {
  training::TrainingData data;
  data.now = kNow;
  for (std::uint32_t item = 0; item < count; ++item) {
    data.items.push_back({padded_id(item), {}, {}, {}, {}, kNow, false});
  }
  for (std::uint32_t reader = 0; reader < items_of_readers.size(); ++reader) {
    for (const std::uint32_t item : items_of_readers[reader]) {
      data.events.push_back({reader, item, readers::Interaction::kView, kNow});
    }
  }
  return data;
}

recommend::RankingSettings trend_by_views(double cf_weight) {
  recommend::RankingSettings settings;
  settings.cf_weight = cf_weight;
  settings.rerank = false;
  settings.trend_half_life = seconds{0};
  settings.discover_every = 0;
  return settings;
}

Result<TrainingRun> train_from_database(const training::TrainingData& data, const TrainSettings& settings,
                                        const Progress& progress) {
  const tuning::ScratchFolder folder(std::filesystem::temp_directory_path());
  const std::string path = (folder.path() / "items.db").string();
  {
    FRESHET_TRY(database, database::Database::open(path, database::Database::Mode::kWrite));
    if (auto ok = fill(**database, data, progress); !ok) return tl::unexpected(ok.error());
  }
  const auto began = Clock::now();
  FRESHET_TRY(read, training::read_training_data(path, settings, data.now));
  FRESHET_TRY(trained, training::train(*read, settings, progress));
  const auto file = folder.path() / "model";
  if (auto ok = training::write_model(*trained, file); !ok) return tl::unexpected(ok.error());
  const std::chrono::duration<double> elapsed = Clock::now() - began;
  FRESHET_TRY(mapped, model::Model::open(file));
  return TrainingRun{std::move(*mapped), trained->report, elapsed};
}

Accuracy accuracy(const model::Model& model, std::span<const std::vector<std::uint32_t>> profiles,
                  std::span<const std::vector<std::uint32_t>> relevant,
                  std::span<const std::uint32_t> excluded) {
  recommend::AffinityScorer affinity;
  Accuracy sum;
  double readers = 0;
  for (std::size_t reader = 0; reader < profiles.size(); ++reader) {
    if (relevant[reader].empty()) continue;
    readers += 1;
    std::vector<std::uint32_t> sorted = relevant[reader];
    std::sort(sorted.begin(), sorted.end());
    affinity.compute(model, make_profile(profiles[reader], profiles[reader].size()));
    std::vector<std::uint32_t> omitted(excluded.begin(), excluded.end());
    omitted.insert(omitted.end(), profiles[reader].begin(), profiles[reader].end());
    const auto list = affinity.top(training::kListLength, omitted);
    sum.recall += training::recall(list, sorted);
    sum.ndcg += training::ndcg(list, sorted);
  }
  return {sum.recall / std::max(1.0, readers), sum.ndcg / std::max(1.0, readers)};
}

Times scoring_times(const model::Model& model, std::span<const std::vector<std::uint32_t>> profiles) {
  recommend::AffinityScorer affinity;
  std::vector<double> medians_us;
  for (const auto& items : profiles) {
    if (items.empty()) continue;
    const auto profile = make_profile(items, kServedProfile);
    std::array<double, 3> times_us{};
    for (double& time_us : times_us) {
      const auto began = Clock::now();
      affinity.compute(model, profile);
      const auto list = affinity.top(training::kListLength, items);
      time_us = std::chrono::duration<double, std::micro>(Clock::now() - began).count();
    }
    std::sort(times_us.begin(), times_us.end());
    medians_us.push_back(times_us[1]);
  }
  std::sort(medians_us.begin(), medians_us.end());
  const auto percentile = [&](std::size_t percent) {
    const std::size_t count = medians_us.size();
    return count == 0 ? 0 : medians_us[std::min(count - 1, count * percent / 100)];
  };
  return {percentile(50), percentile(99)};
}

}  // namespace freshet::bench
