// The outcome of a comparison of rankings (compare_rankings.h).
#pragma once

#include <string>
#include <vector>

#include "core/model/model.h"

namespace freshet::training {

struct ComparedRanking {
  model::ChosenRanking ranking;
  double ndcg = 0;  // at 20, mean over the cases
  bool is_chosen = false;
};

struct RankingChoice {
  model::ChosenRanking ranking;
  std::vector<ComparedRanking> compared;  // the trends, the best of trend × affinity, the re-ranker
  std::size_t cases = 0;                  // readers
};

}  // namespace freshet::training
