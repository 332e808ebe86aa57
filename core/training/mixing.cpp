#include "core/training/mixing.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/base/parallel.h"

namespace freshet::training {
namespace {

// Multiples of what makes a part's 20th best score of a reader as great as the collaborative one.
// Content never counts nothing: it is all that is known of an item newer than the model.
constexpr std::array kContentSteps{0.05F, 0.1F, 0.2F, 0.3F, 0.45F, 0.7F, 1.F};
constexpr std::array kBorrowedSteps{0.25F, 0.4F, 0.6F, 0.8F, 1.25F, 1.6F, 2.F, 2.5F, 3.2F};
constexpr std::size_t kOfEachPart = 200;  // candidates of a reader: what no part ranks so high is not listed

// A reader's scores by part, of the items that can matter.
struct Candidates {
  std::vector<std::uint32_t> warm, cold, all;
  std::array<std::vector<float>, model::kParts> scores;  // by item of `all`
};

using PartRows = std::array<Trained::Rows, model::kParts>;

class Scorer {
 public:
  Scorer(const Validation& validation, const PartRows& rows) : validation_(validation), rows_(rows) {
    for (std::uint32_t item = 0; item < validation.training.items; ++item) {
      if (validation.told[item]) told_.push_back(item);
    }
    for (auto& part : scores_) part.resize(validation.training.items);
  }

  Candidates of(const Case& one) {
    const auto profile = validation_.training.of_reader(one.reader);
    Candidates found;
    for (std::size_t p = 0; p < model::kParts; ++p) {
      auto& scores = scores_[p];
      std::fill(scores.begin(), scores.end(), 0.F);
      for (const std::uint32_t item : profile) {
        for (std::uint64_t at = rows_[p].starts[item]; at < rows_[p].starts[item + 1]; ++at) {
          scores[rows_[p].neighbours[at].item] += rows_[p].neighbours[at].weight;
        }
      }
      std::vector<float> masked = scores;
      for (const std::uint32_t item : profile) masked[item] = -std::numeric_limits<float>::infinity();
      const auto top = best(told_, masked, kOfEachPart);
      found.all.insert(found.all.end(), top.begin(), top.end());
    }
    std::sort(found.all.begin(), found.all.end());
    found.all.erase(std::unique(found.all.begin(), found.all.end()), found.all.end());
    for (std::uint32_t i = 0; i < found.all.size(); ++i) {
      (validation_.cold[found.all[i]] ? found.cold : found.warm).push_back(i);
      for (std::size_t p = 0; p < model::kParts; ++p) found.scores[p].push_back(scores_[p][found.all[i]]);
    }
    return found;
  }

 private:
  const Validation& validation_;
  const PartRows& rows_;
  std::vector<std::uint32_t> told_;
  std::array<std::vector<float>, model::kParts> scores_;
};

// Of a small site the greatest.
float twentieth(std::vector<float> scores) {
  if (scores.empty()) return 0;
  const std::size_t place = scores.size() < kListed ? 0 : kListed - 1;
  std::nth_element(scores.begin(), scores.begin() + static_cast<std::ptrdiff_t>(place), scores.end(),
                   std::greater<>());
  return std::max(0.F, scores[place]);
}

// What to multiply each part by so that lists' ends are equally high.
std::array<double, model::kParts> units(const std::vector<Candidates>& cases) {
  std::array<double, model::kParts> ends{};
  for (const Candidates& one : cases) {
    for (std::size_t p = 0; p < model::kParts; ++p) ends[p] += double{twentieth(one.scores[p])};
  }
  std::array<double, model::kParts> made{1, 0, 0};
  for (std::size_t p = 1; p < model::kParts; ++p) {
    if (ends[p] > 0 && ends[0] > 0) made[p] = ends[0] / ends[p];
  }
  return made;
}

struct Gains {
  double warm = 0, cold = 0, all = 0;
  double sum() const { return warm + cold + all; }
};

std::vector<std::uint32_t> listed(const Candidates& from, std::span<const std::uint32_t> places,
                                  std::span<const float> totals) {
  auto list = best(places, totals);
  for (std::uint32_t& place : list) place = from.all[place];
  return list;
}

Gains gains_of(const Case& one, const Candidates& candidates, const model::Mix& mix) {
  std::vector<float> totals(candidates.all.size(), 0);
  std::vector<std::uint32_t> everything(candidates.all.size());
  for (std::uint32_t i = 0; i < totals.size(); ++i) {
    everything[i] = i;
    for (std::size_t p = 0; p < model::kParts; ++p) totals[i] += mix.part[p] * candidates.scores[p][i];
  }
  std::vector<std::uint32_t> wanted;
  std::merge(one.warm.begin(), one.warm.end(), one.cold.begin(), one.cold.end(), std::back_inserter(wanted));
  return {ndcg(listed(candidates, candidates.warm, totals), one.warm),
          ndcg(listed(candidates, candidates.cold, totals), one.cold),
          ndcg(listed(candidates, everything, totals), wanted)};
}

Gains mean(const Validation& validation, const std::vector<Candidates>& candidates, const model::Mix& mix) {
  std::vector<Gains> gains(candidates.size());
  parallel_for(candidates.size(), 32, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) gains[i] = gains_of(validation.cases[i], candidates[i], mix);
  });
  Gains total;
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

MixChoice choose_mix(const Validation& validation, const PartColumns& parts) {
  PartRows rows;
  for (std::size_t p = 0; p < model::kParts; ++p) rows[p] = rows_of(parts[p], false);
  std::vector<Candidates> candidates(validation.cases.size());
  parallel_for(candidates.size(), 32, [&](std::size_t begin, std::size_t end) {
    Scorer scorer(validation, rows);
    for (std::size_t i = begin; i < end; ++i) candidates[i] = scorer.of(validation.cases[i]);
  });
  const auto unit = units(candidates);
  MixChoice chosen;
  Gains best_gains{-1, -1, -1};
  float best_content = 0;
  const auto attempt = [&](float content, float borrowed) {
    model::Mix mix;
    mix.part[1] = content * static_cast<float>(unit[1]);
    mix.part[2] = borrowed * static_cast<float>(unit[2]);
    const Gains gains = mean(validation, candidates, mix);
    if (gains.sum() <= best_gains.sum()) return;
    best_gains = gains;
    best_content = content;
    chosen.mix = mix;
  };
  // One after the other, since they hardly depend on each other.
  for (const float content : kContentSteps) attempt(content, 1);
  for (const float borrowed : kBorrowedSteps) attempt(best_content, borrowed);
  chosen.report =
      fmt::format("mix 1 : {:.3g} : {:.3g} (warm {:.4f}, new {:.4f}, both {:.4f})", chosen.mix.part[1],
                  chosen.mix.part[2], best_gains.warm, best_gains.cold, best_gains.all);
  return chosen;
}

}  // namespace freshet::training
