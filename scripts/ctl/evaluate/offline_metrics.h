// How good an order is: what readers of the past would have been shown, judged by what they
// touched next.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "core/recommend/ranker.h"
#include "core/training/event_replay.h"

namespace freshet::ctl {

// Means over moments of NDCG@20 and recall@20 (relevance is binary), and which items were
// in a top 20.
class RankingScore {
 public:
  // `top`: at most 20; `taken` ascending, not empty.
  void add(std::span<const std::uint32_t> top, std::span<const std::uint32_t> relevant);
  double count() const { return count_; }
  double ndcg() const { return ndcg_ / std::max(1.0, count_); }
  double recall() const { return recall_ / std::max(1.0, count_); }
  // The share of `items` that were in somebody's top 20.
  double coverage(std::size_t items) const;

 private:
  double ndcg_ = 0, recall_ = 0, count_ = 0;
  std::set<std::uint32_t> covered_;
};

// A reader of whom something is known, and what they touch next for the first time. By index
// into the data.
struct EvaluationCase {
  std::uint32_t reader = 0;
  std::vector<std::uint32_t> relevant;  // ascending, not empty
};

// The moments from past.known().now on and before `until`: one of each reader, by
// training::first_touches().
std::vector<EvaluationCase> evaluation_cases(const training::EventReplay& past, UnixSeconds until);

// What can be ranked at past.known().now, with the ways from the data's indexes to the
// catalogue's and back.
struct IndexedCatalogue {
  IndexedCatalogue(std::shared_ptr<const model::Model> model, const training::EventReplay& past,
        std::vector<recommend::LiveItem> live);
  recommend::Catalogue catalogue;
  std::vector<std::uint32_t> to_catalogue, to_data;
};

// The best 20 for the reader that exist and that they have not touched, best first, by index into
// the data. `known`: newest events of the reader that the ranking knows. `all`: as Ranking::rank().
std::vector<std::uint32_t> top_items(const EvaluationCase& reader_case, const training::EventReplay& past, const IndexedCatalogue& catalogue,
                                    recommend::Ranker& ranking, std::size_t max_events, bool all);

}  // namespace freshet::ctl
