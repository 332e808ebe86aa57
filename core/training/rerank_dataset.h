// Training data of the re-ranker: moments of the past, with what the reader picked next.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/recommend/ranker.h"
#include "core/training/rerank_fit.h"

namespace freshet::training {

struct TrainingExample {
  std::span<const recommend::ProfileEvent> profile;  // events before the moment, newest first; not empty
  // Ascending catalogue indexes of earlier interactions; excluded from the candidates.
  std::span<const std::uint32_t> touched;
  std::span<const std::uint32_t> positives;  // items the reader interacted with next, for the first time
  UnixSeconds now;                           // the moment
  std::uint64_t sample_offset = 0;           // arbitrary; varies the sample of negative candidates
};

class RerankDataset {
 public:
  explicit RerankDataset(const recommend::RankingSettings& settings);

  // Starts a day; the following examples belong to it. Days must ascend.
  void begin_day(UnixSeconds day);
  // Adds an example of the current day. Ignored if no positive item is a candidate. Same cost as
  // Ranker::rank().
  void add(const recommend::Catalogue& catalogue, const TrainingExample& example);
  // Drops the days before this one.
  void discard_before(UnixSeconds day);
  std::size_t size() const;

  // Trains and returns the re-ranker's parameters. Returns empty if there is too little data (fewer
  // than 300 examples or 3 days). Takes a second or two for 3,000 examples.
  std::vector<float> learn() const;

 private:
  struct Day {
    UnixSeconds at;
    std::vector<RankingExample> examples;
  };

  recommend::Ranker ranker_;
  std::deque<Day> days_;
  std::vector<recommend::FeatureVector> features_;
};

}  // namespace freshet::training
