// What the re-ranker learns from: moments of the past, with what the reader took next.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/recommend/ranker.h"
#include "core/training/rerank_fit.h"

namespace freshet::training {

struct TrainingExample {
  std::span<const recommend::ProfileEvent> profile;  // before the moment, newest first; not empty
  std::span<const std::uint32_t> touched;            // by catalogue index, ascending: no candidates any more
  std::span<const std::uint32_t> positives;              // what the reader touched next, for the first time
  UnixSeconds now;                                   // the moment
  std::uint64_t sample_offset = 0;                          // any; varies which other candidates are kept
};

class RerankDataset {
 public:
  explicit RerankDataset(const recommend::RankingSettings& settings);

  // The lessons that follow are of the day that begins at `day`. Ascending.
  void begin_day(UnixSeconds day);
  // A reader's moment of that day. Passed over when nothing taken is a candidate.
  // Cost of Ranking::rank().
  void add(const recommend::Catalogue& catalogue, const TrainingExample& example);
  // Forgets days before this one.
  void discard_before(UnixSeconds day);
  std::size_t size() const;

  // The re-ranker's parameters; empty when there is too little to learn from (fewer than 300
  // lessons of 7 days), or when what is learned from the earlier four fifths of the days orders the
  // later ones no better than trend · (1 + w · affinity) does. A second or two for 3,000 lessons.
  std::vector<float> learn() const;

 private:
  struct Day {
    UnixSeconds at;
    std::vector<RankingExample> examples;  // candidates in the order of trend · (1 + w · affinity)
  };

  recommend::Ranker ranker_;
  std::deque<Day> days_;
  std::vector<recommend::FeatureVector> features_;
};

}  // namespace freshet::training
