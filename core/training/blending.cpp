#include "core/training/blending.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/base/parallel.h"

namespace freshet::training {
namespace {

// Relative weights; at 1, a relation's 20th best score is on average as high as the collaborative
// one's. Content always has some weight, because nothing else is known of items newer than the
// model.
constexpr std::array kContentWeights{0.05F, 0.1F, 0.2F, 0.3F, 0.45F, 0.7F, 1.F};
constexpr std::array kColdStartWeights{0.25F, 0.4F, 0.6F, 0.8F, 1.25F, 1.6F, 2.F, 2.5F, 3.2F};
// An item below this rank in every relation is never listed.
constexpr std::size_t kCandidatesPerRelation = 200;

// Scores by relation of the items that could be listed for a reader.
struct Candidates {
  std::vector<std::uint32_t> warm, cold, items;
  std::array<std::vector<float>, model::kRelations> scores;  // by position in `items`
};

using RelationRows = std::array<TrainedModel::Rows, model::kRelations>;

class Scorer {
 public:
  Scorer(const Validation& validation, const RelationRows& rows) : validation_(validation), rows_(rows) {
    for (std::uint32_t item = 0; item < validation.training.items; ++item) {
      if (validation.has_touches[item]) scorable_.push_back(item);
    }
    for (auto& scores : scores_) scores.resize(validation.training.items);
  }

  Candidates candidates_for(const ValidationCase& test_case) {
    const auto profile = validation_.training.items_of(test_case.reader);
    Candidates candidates;
    for (std::size_t p = 0; p < model::kRelations; ++p) {
      auto& scores = scores_[p];
      std::fill(scores.begin(), scores.end(), 0.F);
      for (const std::uint32_t item : profile) {
        for (std::uint64_t at = rows_[p].starts[item]; at < rows_[p].starts[item + 1]; ++at) {
          scores[rows_[p].neighbours[at].item] += rows_[p].neighbours[at].weight;
        }
      }
      std::vector<float> masked = scores;
      for (const std::uint32_t item : profile) masked[item] = -std::numeric_limits<float>::infinity();
      const auto top = top_scored(scorable_, masked, kCandidatesPerRelation);
      candidates.items.insert(candidates.items.end(), top.begin(), top.end());
    }
    std::sort(candidates.items.begin(), candidates.items.end());
    candidates.items.erase(std::unique(candidates.items.begin(), candidates.items.end()),
                           candidates.items.end());
    for (std::uint32_t i = 0; i < candidates.items.size(); ++i) {
      (validation_.cold[candidates.items[i]] ? candidates.cold : candidates.warm).push_back(i);
      for (std::size_t p = 0; p < model::kRelations; ++p)
        candidates.scores[p].push_back(scores_[p][candidates.items[i]]);
    }
    return candidates;
  }

 private:
  const Validation& validation_;
  const RelationRows& rows_;
  std::vector<std::uint32_t> scorable_;
  std::array<std::vector<float>, model::kRelations> scores_;
};

// The 20th highest score, clamped to 0; with fewer than 20 scores the highest.
float list_end_score(std::vector<float> scores) {
  if (scores.empty()) return 0;
  const std::size_t index = scores.size() < kListLength ? 0 : kListLength - 1;
  std::nth_element(scores.begin(), scores.begin() + static_cast<std::ptrdiff_t>(index), scores.end(),
                   std::greater<>());
  return std::max(0.F, scores[index]);
}

// Factor per relation that makes the scores at the ends of the lists equally high.
std::array<double, model::kRelations> normalizing_factors(const std::vector<Candidates>& cases) {
  std::array<double, model::kRelations> end_scores{};
  for (const Candidates& candidates : cases) {
    for (std::size_t p = 0; p < model::kRelations; ++p)
      end_scores[p] += double{list_end_score(candidates.scores[p])};
  }
  std::array<double, model::kRelations> factors{1, 0, 0};
  for (std::size_t p = 1; p < model::kRelations; ++p) {
    if (end_scores[p] > 0 && end_scores[0] > 0) factors[p] = end_scores[0] / end_scores[p];
  }
  return factors;
}

struct NdcgScores {
  double warm = 0, cold = 0, all = 0;
  double sum() const { return warm + cold + all; }
};

std::vector<std::uint32_t> top_list(const Candidates& candidates, std::span<const std::uint32_t> indexes,
                                    std::span<const float> totals) {
  auto list = top_scored(indexes, totals);
  for (std::uint32_t& index : list) index = candidates.items[index];
  return list;
}

NdcgScores score_case(const ValidationCase& test_case, const Candidates& candidates,
                      const model::BlendWeights& blend) {
  std::vector<float> totals(candidates.items.size(), 0);
  std::vector<std::uint32_t> all_indexes(candidates.items.size());
  for (std::uint32_t i = 0; i < totals.size(); ++i) {
    all_indexes[i] = i;
    for (std::size_t p = 0; p < model::kRelations; ++p)
      totals[i] += blend.by_relation[p] * candidates.scores[p][i];
  }
  std::vector<std::uint32_t> relevant;
  std::merge(test_case.warm.begin(), test_case.warm.end(), test_case.cold.begin(), test_case.cold.end(),
             std::back_inserter(relevant));
  return {ndcg(top_list(candidates, candidates.warm, totals), test_case.warm),
          ndcg(top_list(candidates, candidates.cold, totals), test_case.cold),
          ndcg(top_list(candidates, all_indexes, totals), relevant)};
}

NdcgScores mean_ndcg(const Validation& validation, const std::vector<Candidates>& candidates,
                     const model::BlendWeights& blend) {
  std::vector<NdcgScores> gains(candidates.size());
  parallel_for(candidates.size(), 32, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      gains[i] = score_case(validation.cases[i], candidates[i], blend);
  });
  NdcgScores total;
  double warm = 0;
  double cold = 0;
  double any = 0;
  for (std::size_t i = 0; i < gains.size(); ++i) {
    total.warm += gains[i].warm;
    total.cold += gains[i].cold;
    total.all += gains[i].all;
    warm += validation.cases[i].warm.empty() ? 0 : 1;
    cold += validation.cases[i].cold.empty() ? 0 : 1;
    any += validation.cases[i].warm.empty() && validation.cases[i].cold.empty() ? 0 : 1;
  }
  return {total.warm / std::max(1.0, warm), total.cold / std::max(1.0, cold), total.all / std::max(1.0, any)};
}

}  // namespace

BlendChoice choose_blend(const Validation& validation, const RelationColumns& columns) {
  RelationRows rows;
  for (std::size_t p = 0; p < model::kRelations; ++p) rows[p] = to_rows(columns[p], false);
  std::vector<Candidates> candidates(validation.cases.size());
  parallel_for(candidates.size(), 32, [&](std::size_t begin, std::size_t end) {
    Scorer scorer(validation, rows);
    for (std::size_t i = begin; i < end; ++i) candidates[i] = scorer.candidates_for(validation.cases[i]);
  });
  const auto normalization = normalizing_factors(candidates);
  BlendChoice chosen;
  NdcgScores best_gains{-1, -1, -1};
  float best_content_weight = 0;
  const auto evaluate = [&](float content_weight, float cold_start_weight) {
    model::BlendWeights blend;
    blend.by_relation[1] = content_weight * static_cast<float>(normalization[1]);
    blend.by_relation[2] = cold_start_weight * static_cast<float>(normalization[2]);
    const NdcgScores gains = mean_ndcg(validation, candidates, blend);
    if (gains.sum() <= best_gains.sum()) return;
    best_gains = gains;
    best_content_weight = content_weight;
    chosen.blend = blend;
  };
  // One after the other, since they are nearly independent.
  for (const float each : kContentWeights) evaluate(each, 1);
  for (const float each : kColdStartWeights) evaluate(best_content_weight, each);
  chosen.report = fmt::format("blend 1 : {:.3g} : {:.3g} (warm {:.4f}, cold {:.4f}, all {:.4f})",
                              chosen.blend.by_relation[1], chosen.blend.by_relation[2], best_gains.warm,
                              best_gains.cold, best_gains.all);
  return chosen;
}

}  // namespace freshet::training
