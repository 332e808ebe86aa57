// Offline metrics of a ranking: what readers would have been shown, compared with what they
// interacted with next.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "core/recommend/ranker.h"
#include "core/training/event_replay.h"

namespace freshet::ctl {

// Means over evaluation cases of NDCG@20 and recall@20 (binary relevance), and the set of items
// that were in any top 20.
class RankingScore {
 public:
  // `top`: at most 20. `relevant`: ascending, not empty.
  void add(std::span<const std::uint32_t> top, std::span<const std::uint32_t> relevant);
  double count() const { return count_; }
  double ndcg() const { return ndcg_ / std::max(1.0, count_); }
  double recall() const { return recall_ / std::max(1.0, count_); }
  // Share of `items` that were in any top 20.
  double coverage(std::size_t items) const;

 private:
  double ndcg_ = 0, recall_ = 0, count_ = 0;
  std::set<std::uint32_t> covered_;
};

// A reader with a history, and the items they interact with next for the first time. By index into
// the data.
struct EvaluationCase {
  std::uint32_t reader = 0;
  std::vector<std::uint32_t> relevant;  // ascending, not empty
};

// Evaluation cases between replay.known().now and `until`, one per reader, by
// training::first_touches().
std::vector<EvaluationCase> evaluation_cases(const training::EventReplay& replay, UnixSeconds until);

// Catalogue of the items that can be ranked at replay.known().now, with index mappings: data →
// catalogue and back.
struct IndexedCatalogue {
  IndexedCatalogue(std::shared_ptr<const model::Model> model, const training::EventReplay& replay,
                   std::vector<recommend::LiveItem> live);
  recommend::Catalogue catalogue;
  std::vector<std::uint32_t> to_catalogue, to_data;
};

// The best 20 existing items that the reader has not interacted with, best first, by index into the
// data. `max_events`: number of the reader's newest events that the ranking gets. `all`: as for
// Ranker::rank().
std::vector<std::uint32_t> top_items(const EvaluationCase& reader_case, const training::EventReplay& replay,
                                     const IndexedCatalogue& catalogue, recommend::Ranker& ranking,
                                     std::size_t max_events, bool all);

}  // namespace freshet::ctl
