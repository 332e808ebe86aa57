// The table of core/feed/seen_layout.cpp: false positives over eight full days and bytes an impression, for
// readers of several habits in shards of several loads. Without Redis: cmake --build build/release --target
// seen_table && build/release/tests/bench/seen_table
#include <cstdio>

#include "core/feed/seen_layout.h"
#include "tests/bench/readers.h"
#include "tests/support/seen_model.h"

using namespace freshet;

namespace {

constexpr int kShards = 25;      // different shards that a row is the mean of
constexpr int kProbes = 20'000;  // unseen items asked of each
constexpr std::uint64_t kPage = 20;

void show(test::SeenModel& shard, int width, const ReaderId& reader, std::int64_t count,
          std::uint64_t& next_item) {
  const std::uint64_t hash = feed::reader_hash(reader);
  for (auto left = static_cast<std::uint64_t>(count); left > 0; left -= std::min(left, kPage)) {
    std::vector<std::uint64_t> page;
    for (std::uint64_t i = 0; i < std::min(left, kPage); ++i)
      page.push_back(feed::impression_hash(hash, ItemId::trusted("item-" + std::to_string(next_item++))));
    shard.add(feed::seen_entries(std::move(page), width));
  }
}

struct Row {
  double impressions = 0, bytes = 0, measured = 0, formula = 0;
};

// A reader of `own` impressions a day among others who make `load` times a shard's expected impressions.
Row measure(const feed::SeenLayout& layout, std::int64_t own, double load) {
  std::mt19937_64 random(2026);
  std::poisson_distribution<int> readers(load * feed::kShardImpressions / bench::kMeanImpressions);
  Row row;
  std::uint64_t next_item = 0;
  for (int shard = 0; shard < kShards; ++shard) {
    const ReaderId reader = ReaderId::trusted("reader-" + std::to_string(shard));
    std::vector<feed::SeenShard> days;
    double unseen = 1;
    for (int day = 0; day < feed::kSeenDays; ++day) {
      test::SeenModel model(layout.width);
      show(model, layout.width, reader, own, next_item);
      for (int other = readers(random); other > 0; --other)
        show(model, layout.width, ReaderId::trusted("other-" + std::to_string(other)),
             bench::impressions_of_one(random), next_item);
      const std::string bytes = model.bytes();
      days.emplace_back(bytes);
      row.impressions += static_cast<double>(days.back().impressions());
      row.bytes += static_cast<double>(bytes.size());
      unseen *= 1 - feed::shard_rate(days.back().impressions(), layout.width);
    }
    row.formula += (1 - unseen) / kShards;
    int hits = 0;
    const std::uint64_t hash = feed::reader_hash(reader);
    for (int probe = 0; probe < kProbes; ++probe) {
      const std::uint64_t print =
          feed::impression_hash(hash, ItemId::trusted("unseen-" + std::to_string(probe)));
      hits += std::any_of(days.begin(), days.end(), [print](const auto& day) { return day.contains(print); })
                  ? 1
                  : 0;
    }
    row.measured += static_cast<double>(hits) / kProbes / kShards;
  }
  row.bytes /= row.impressions;
  row.impressions /= kShards * feed::kSeenDays;
  return row;
}

}  // namespace

int main() {
  SeenSettings settings;
  const feed::SeenLayout layout = feed::seen_layout(settings);
  std::printf("seen.false_positive_rate = %g, layout %s\n", settings.false_positive_rate,
              layout.text().c_str());
  std::printf("reader's   load of    impressions       P, %%          bytes an\n");
  std::printf("own a day  the rest   in the shard  measured  formula  impression\n");
  for (const double load : {0.1, 0.5, 1.0, 2.0, 10.0}) {
    for (const std::int64_t own : {60, 300, 3000, 10'000}) {
      const Row row = measure(layout, own, load);
      std::printf("%9lld  %8.1f  %13.0f  %8.2f  %7.2f  %10.2f\n", static_cast<long long>(own), load,
                  row.impressions, row.measured * 100, row.formula * 100, row.bytes);
    }
  }
  return 0;
}
