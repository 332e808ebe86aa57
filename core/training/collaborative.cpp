#include "core/training/collaborative.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace freshet::training {
namespace {

constexpr std::size_t kMinCases = 20;  // with fewer readers, differences are noise

// λ is searched from here in steps of a factor of 2, downwards or else upwards, as long as the
// score improves.
constexpr float kFirstLambda = 400;
constexpr float kMinLambda = 25, kMaxLambda = 800;
// The best λ replaces the first one if it improves the score by at least this, significantly at 95
// % (one-sided) over the readers. Otherwise the noise of a small validation set would choose.
constexpr double kMinGain = 0.001;
constexpr double kNormal95 = 1.645;
// ndcg@20 on citeulike-a, warm items, 400 neighbours:
// α .6 with β .2 .2823, .3 .2837, .4 .2803;
// α .8 with β .2 .2810.
constexpr std::array kAlphas{0.5F, 0.65F};
constexpr std::array kBetas{0.1F, 0.2F, 0.3F, 0.4F, 0.5F};

// Maximum length of a column, as a multiple of the average, before all columns are pruned together.
constexpr std::size_t kColumnSlack = 4;

std::vector<std::vector<float>> beta_scales(const Interactions& interactions) {
  std::vector<std::vector<float>> scales;
  scales.reserve(kBetas.size());
  for (const float beta : kBetas) scales.push_back(rp3_scale(interactions, beta));
  return scales;
}

// The items with interactions; EASE's matrix has no rows for others.
struct TouchedItems {
  std::vector<std::uint32_t> items;  // ascending
  Interactions interactions;         // by index into `items`
};

TouchedItems find_touched(const Interactions& all) {
  TouchedItems result;
  std::vector<Touch> touches;
  touches.reserve(all.touch_count());
  for (std::uint32_t item = 0; item < all.items; ++item) {
    if (all.readers_of(item).empty()) continue;
    const auto index = static_cast<std::uint32_t>(result.items.size());
    for (const std::uint32_t reader : all.readers_of(item)) touches.push_back({reader, index});
    result.items.push_back(item);
  }
  result.interactions =
      build_interactions(touches, all.readers, static_cast<std::uint32_t>(result.items.size()));
  return result;
}

std::size_t count_touched_items(const Interactions& all) {
  std::size_t count = 0;
  for (std::uint32_t item = 0; item < all.items; ++item) count += !all.readers_of(item).empty();
  return count;
}

// ndcg@20 by reader.
std::vector<double> evaluate_ease(const Validation& validation, const TouchedItems& touched,
                                  const Ease& model) {
  std::vector<std::uint32_t> index(validation.training.items, 0);
  std::vector<float> factors(validation.training.items, 0);
  for (std::uint32_t i = 0; i < touched.items.size(); ++i) {
    index[touched.items[i]] = i;
    factors[touched.items[i]] = model.factor(i);
  }
  const ScoreFunction score = [&](std::span<const std::uint32_t> profile, std::span<float> scores) {
    std::vector<float> sums(touched.items.size(), 0);
    for (const std::uint32_t item : profile) model.accumulate(index[item], sums);
    for (std::uint32_t i = 0; i < sums.size(); ++i) scores[touched.items[i]] = sums[i];
  };
  return evaluate_cases(validation, score, {&factors, 1}).front();
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         std::max(1.0, static_cast<double>(values.size()));
}

bool is_clear_gain(const std::vector<double>& values, const std::vector<double>& than) {
  const auto n = static_cast<double>(values.size());
  const double gain = mean(values) - mean(than);
  double squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double deviation = values[i] - than[i] - gain;
    squares += deviation * deviation;
  }
  return gain >= kMinGain && gain > kNormal95 * std::sqrt(squares) / n;
}

// Up to a constant, EASE's G is RP3beta's sum over readers for α = reader_exponent, so G is reused.
// W is not pruned in this case.
double evaluate_rp3_from_gram(const Validation& validation, const TouchedItems& touched,
                              const SquareMatrix& g, Parameters& chosen) {
  constexpr float kAlpha = EaseSettings{}.reader_exponent;
  SquareMatrix full = g.copy();
  mirror_lower(full);
  std::vector<std::uint32_t> index(validation.training.items, 0);
  for (std::uint32_t i = 0; i < touched.items.size(); ++i) index[touched.items[i]] = i;
  const auto of_item = rp3_scale(touched.interactions, kAlpha);
  const ScoreFunction score = [&](std::span<const std::uint32_t> profile, std::span<float> scores) {
    std::vector<float> sums(touched.items.size(), 0);
    for (const std::uint32_t item : profile) {
      const float* const row = full.row(index[item]);
      const float factor = of_item[index[item]];
      for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += factor * row[j];
    }
    for (std::uint32_t i = 0; i < sums.size(); ++i) scores[touched.items[i]] = sums[i];
  };
  const auto gains = evaluate_ndcg(validation, score, beta_scales(validation.training));
  const auto best = std::max_element(gains.begin(), gains.end());
  chosen.alpha = kAlpha;
  chosen.beta = kBetas[static_cast<std::size_t>(best - gains.begin())];
  return *best;
}

struct BestScores {
  double ease = -1, rp3 = -1;
};

BestScores tune_ease(const Validation& validation, bool with_rp3, Parameters& chosen, std::string& report,
                     const Progress& progress) {
  const TouchedItems touched = find_touched(validation.training);
  const SquareMatrix g =
      gram(touched.interactions, reader_weights(touched.interactions, EaseSettings{}.reader_exponent));
  BestScores best;
  if (with_rp3) best.rp3 = evaluate_rp3_from_gram(validation, touched, g, chosen);
  struct Candidate {
    float lambda = 0;
    std::vector<double> gains;
  };
  int tried = 0;
  const auto evaluate = [&](float lambda) -> Candidate {
    constexpr double kExpectedCandidates = 4;
    progress("validating EASE", std::min(1.0, tried++ / kExpectedCandidates));
    EaseSettings settings;
    settings.lambda = lambda;
    Candidate out{lambda, evaluate_ease(validation, touched, Ease(g.copy(), settings))};
    report += fmt::format("ease {:.4f} (lambda {:.0f}), ", mean(out.gains), lambda);
    return out;
  };
  const Candidate first = evaluate(kFirstLambda);
  const auto search = [&](float factor, float limit) {
    Candidate peak = first;
    while (peak.lambda != limit) {
      Candidate next = evaluate(peak.lambda * factor);
      if (mean(next.gains) <= mean(peak.gains)) break;
      peak = std::move(next);
    }
    return peak;
  };
  Candidate peak = search(0.5F, kMinLambda);
  if (peak.lambda == first.lambda) peak = search(2.F, kMaxLambda);
  const Candidate& choice = is_clear_gain(peak.gains, first.gains) ? peak : first;
  best.ease = mean(choice.gains);
  chosen.lambda = choice.lambda;
  return best;
}

// β only scales columns, so one fit per α is enough to evaluate every β.
double tune_rp3(const Validation& validation, std::size_t neighbours, Parameters& chosen,
                const Progress& progress) {
  const auto scales = beta_scales(validation.training);
  double best = -1;
  for (std::size_t i = 0; i < kAlphas.size(); ++i) {
    progress("validating RP3beta", static_cast<double>(i) / static_cast<double>(kAlphas.size()));
    const auto rows = to_rows(rp3_columns(validation.training, kAlphas[i], kColumnSlack * neighbours), false);
    const ScoreFunction score = [&](std::span<const std::uint32_t> profile, std::span<float> scores) {
      for (const std::uint32_t item : profile) {
        for (std::uint64_t at = rows.starts[item]; at < rows.starts[item + 1]; ++at) {
          scores[rows.neighbours[at].item] += rows.neighbours[at].weight;
        }
      }
    };
    const auto gains = evaluate_ndcg(validation, score, scales);
    for (std::size_t b = 0; b < gains.size(); ++b) {
      if (gains[b] <= best) continue;
      best = gains[b];
      chosen.alpha = kAlphas[i];
      chosen.beta = kBetas[b];
    }
  }
  return best;
}

}  // namespace

MethodChoice choose_method(const Validation& validation, const TrainSettings& settings,
                           const Progress& progress) {
  MethodChoice choice;
  Parameters& chosen = choice.parameters;
  const bool fits_ease =
      count_touched_items(validation.training) <= static_cast<std::size_t>(settings.ease_max_items);
  const bool allow_ease = settings.algorithm == "ease" || (settings.algorithm == "auto" && fits_ease);
  const bool allow_rp3 = settings.algorithm != "ease";
  if (validation.cases.size() < kMinCases) {
    chosen.ease = !allow_rp3;
    choice.report = "too few readers for validation";
    return choice;
  }
  BestScores best;
  if (allow_ease) best = tune_ease(validation, allow_rp3, chosen, choice.report, progress);
  if (allow_rp3 && !allow_ease) {
    best.rp3 = tune_rp3(validation, static_cast<std::size_t>(settings.neighbours), chosen, progress);
  }
  chosen.ease = best.ease > best.rp3;
  if (allow_rp3) {
    choice.report +=
        fmt::format("rp3beta {:.4f} (alpha {:.2f}, beta {:.1f}), ", best.rp3, chosen.alpha, chosen.beta);
  }
  choice.report += fmt::format("ndcg@20 of {} readers", validation.cases.size());
  return choice;
}

Columns fit_columns(const Interactions& interactions, const Parameters& chosen,
                    const TrainSettings& settings) {
  const auto neighbours = static_cast<std::size_t>(settings.neighbours);
  if (!chosen.ease) {
    Columns columns = rp3_columns(interactions, chosen.alpha, kColumnSlack * neighbours);
    scale_columns(columns, rp3_scale(interactions, chosen.beta));
    prune(columns, neighbours * count_touched_items(interactions));
    return columns;
  }
  const TouchedItems touched = find_touched(interactions);
  EaseSettings ease_settings;
  ease_settings.lambda = chosen.lambda;
  const auto weights = reader_weights(touched.interactions, ease_settings.reader_exponent);
  Columns touched_columns =
      Ease(gram(touched.interactions, weights), ease_settings).columns(kColumnSlack * neighbours);
  prune(touched_columns, neighbours * touched.items.size());
  Columns columns(interactions.items);
  for (std::size_t i = 0; i < touched_columns.size(); ++i) {
    for (model::Neighbour& neighbour : touched_columns[i]) neighbour.item = touched.items[neighbour.item];
    columns[touched.items[i]] = std::move(touched_columns[i]);
  }
  return columns;
}

}  // namespace freshet::training
