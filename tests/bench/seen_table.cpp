// Prints the seen filter's false positives over eight full days, for several numbers of impressions
// per reader and several loads of a shard. Does not use Redis.
#include <cstdio>
#include <random>

#include "core/feed/seen_layout.h"
#include "tests/bench/readers.h"

using namespace freshet;

namespace {

constexpr int kShards = 25;      // each row is the mean of this many shards
constexpr int kProbes = 40'000;  // unseen items checked in each shard

// Fingerprints of `count` new items.
std::string make_fingerprints(const ReaderId& reader, std::int64_t count, std::uint64_t& next_item) {
  std::vector<ItemId> items;
  for (; count > 0; --count) items.push_back(ItemId::trusted("item-" + std::to_string(next_item++)));
  return feed::encode_fingerprints(feed::reader_hash(reader), items);
}

struct Row {
  double impressions = 0;            // in a shard per day
  double measured = 0, formula = 0;  // probability of a false positive
};

// Measures a reader with `own` impressions per day. The other readers of the shard have `load`
// times its expected impressions.
Row measure(std::int64_t own, double load) {
  std::mt19937_64 random(2026);
  std::poisson_distribution<int> readers(load * feed::kImpressionsPerShard / bench::kMeanImpressions);
  std::vector<ItemId> probes;
  for (int probe = 0; probe < kProbes; ++probe)
    probes.push_back(ItemId::trusted("unseen-" + std::to_string(probe)));
  Row row;
  std::uint64_t next_item = 0;
  for (int shard = 0; shard < kShards; ++shard) {
    const ReaderId reader = ReaderId::trusted("reader-" + std::to_string(shard));
    feed::FingerprintSet prints;
    double unseen = 1;
    for (int day = 0; day < feed::kSeenDays; ++day) {
      std::string bytes = make_fingerprints(reader, own, next_item);
      for (int other = readers(random); other > 0; --other)
        bytes += make_fingerprints(ReaderId::trusted("other-" + std::to_string(other)),
                                   bench::draw_daily_impressions(random), next_item);
      const auto impressions = static_cast<std::int64_t>(bytes.size() / feed::kFingerprintBytes);
      row.impressions += static_cast<double>(impressions) / (kShards * feed::kSeenDays);
      unseen *= 1 - feed::shard_false_positive_rate(impressions);
      prints.add_shard(bytes);
    }
    row.formula += (1 - unseen) / kShards;
    const auto found = prints.contains(feed::reader_hash(reader), probes);
    row.measured += static_cast<double>(std::count(found.begin(), found.end(), true)) / kProbes / kShards;
  }
  return row;
}

}  // namespace

int main() {
  std::printf("reader's  others'   impressions   false positives, %%\n");
  std::printf("per day      load  in the shard  measured   formula\n");
  for (const double load : {0.1, 0.5, 1.0, 2.0, 10.0}) {
    for (const std::int64_t own : {60, 300, 3000, 10'000}) {
      const Row row = measure(own, load);
      std::printf("%8lld  %8.1f  %12.0f  %8.3f  %8.3f\n", static_cast<long long>(own), load, row.impressions,
                  row.measured * 100, row.formula * 100);
    }
  }
  return 0;
}
