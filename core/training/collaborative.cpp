#include "core/training/collaborative.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace freshet::training {
namespace {

constexpr std::size_t kFewestCases = 20;  // what fewer readers say is chance

// ndcg@20 on ML-1M's validation part by λ, with dropout 0.5 and exponent 0.5: 200 .2690, 400 .2713,
// 800 .2697.
constexpr std::array kLambdas{400.F, 200.F, 800.F};
constexpr double kNoEvidence = 0.001;  // a later λ must be better by this
// citeulike-a, warm, 400 neighbours: α .6 with β .2 .2823, .3 .2837, .4 .2803; α .8 with β .2
// .2810.
constexpr std::array kAlphas{0.5F, 0.65F};
constexpr std::array kBetas{0.1F, 0.2F, 0.3F, 0.4F, 0.5F};

// A column may have so many times the average before all are pruned together.
constexpr std::size_t kLongestColumn = 4;

std::vector<std::vector<float>> beta_scales(const Interactions& interactions) {
  std::vector<std::vector<float>> scales;
  scales.reserve(kBetas.size());
  for (const float beta : kBetas) scales.push_back(rp3_scale(interactions, beta));
  return scales;
}

// EASE's matrix has no place for items that nobody touched.
struct Touched {
  std::vector<std::uint32_t> items;  // ascending
  Interactions interactions;         // by place in `items`
};

Touched touched(const Interactions& all) {
  Touched made;
  std::vector<Touch> touches;
  touches.reserve(all.touches());
  for (std::uint32_t item = 0; item < all.items; ++item) {
    if (all.of_item(item).empty()) continue;
    const auto place = static_cast<std::uint32_t>(made.items.size());
    for (const std::uint32_t reader : all.of_item(item)) touches.push_back({reader, place});
    made.items.push_back(item);
  }
  made.interactions = interactions_of(touches, all.readers, static_cast<std::uint32_t>(made.items.size()));
  return made;
}

std::size_t touched_items(const Interactions& all) {
  std::size_t count = 0;
  for (std::uint32_t item = 0; item < all.items; ++item) count += !all.of_item(item).empty();
  return count;
}

double judge_ease(const Validation& validation, const Touched& part, const Ease& model) {
  std::vector<std::uint32_t> place(validation.training.items, 0);
  std::vector<float> factors(validation.training.items, 0);
  for (std::uint32_t i = 0; i < part.items.size(); ++i) {
    place[part.items[i]] = i;
    factors[part.items[i]] = model.factor(i);
  }
  const Score score = [&](std::span<const std::uint32_t> profile, std::span<float> scores) {
    std::vector<float> sums(part.items.size(), 0);
    for (const std::uint32_t item : profile) model.accumulate(place[item], sums);
    for (std::uint32_t i = 0; i < sums.size(); ++i) scores[part.items[i]] = sums[i];
  };
  return judge(validation, score, {&factors, 1}).front();
}

// EASE's G is RP3beta's sum over readers, for α = reader_exponent and but for a constant: where it
// has been computed nothing else need be. W is not pruned then.
double rp3_of_gram(const Validation& validation, const Touched& part, const Square& g, Parameters& chosen) {
  constexpr float kAlpha = EaseSettings{}.reader_exponent;
  Square full = g.copy();
  mirror_lower(full);
  std::vector<std::uint32_t> place(validation.training.items, 0);
  for (std::uint32_t i = 0; i < part.items.size(); ++i) place[part.items[i]] = i;
  const auto of_item = rp3_scale(part.interactions, kAlpha);
  const Score score = [&](std::span<const std::uint32_t> profile, std::span<float> scores) {
    std::vector<float> sums(part.items.size(), 0);
    for (const std::uint32_t item : profile) {
      const float* const row = full.row(place[item]);
      const float factor = of_item[place[item]];
      for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += factor * row[j];
    }
    for (std::uint32_t i = 0; i < sums.size(); ++i) scores[part.items[i]] = sums[i];
  };
  const auto gains = judge(validation, score, beta_scales(validation.training));
  const auto best = std::max_element(gains.begin(), gains.end());
  chosen.alpha = kAlpha;
  chosen.beta = kBetas[static_cast<std::size_t>(best - gains.begin())];
  return *best;
}

struct Reached {
  double ease = -1, rp3 = -1;
};

Reached try_ease(const Validation& validation, bool with_rp3, Parameters& chosen, std::string& report,
                 const Progress& progress) {
  const Touched part = touched(validation.training);
  const Square g = gram(part.interactions, reader_weights(part.interactions, EaseSettings{}.reader_exponent));
  Reached reached;
  if (with_rp3) reached.rp3 = rp3_of_gram(validation, part, g, chosen);
  for (std::size_t i = 0; i < kLambdas.size(); ++i) {
    progress("validating EASE", static_cast<double>(i) / kLambdas.size());
    EaseSettings tried;
    tried.lambda = kLambdas[i];
    const double gain = judge_ease(validation, part, Ease(g.copy(), tried));
    report += fmt::format("ease {:.4f} (lambda {:.0f}), ", gain, tried.lambda);
    if (gain > reached.ease + kNoEvidence) {
      reached.ease = gain;
      chosen.lambda = tried.lambda;
    }
  }
  return reached;
}

// β scales whole columns, so all of them are judged with one fit.
double try_rp3(const Validation& validation, std::size_t neighbours, Parameters& chosen,
               const Progress& progress) {
  const auto scales = beta_scales(validation.training);
  double best = -1;
  for (std::size_t i = 0; i < kAlphas.size(); ++i) {
    progress("validating RP3beta", static_cast<double>(i) / static_cast<double>(kAlphas.size()));
    const auto rows =
        rows_of(rp3_columns(validation.training, kAlphas[i], kLongestColumn * neighbours), false);
    const Score score = [&](std::span<const std::uint32_t> profile, std::span<float> scores) {
      for (const std::uint32_t item : profile) {
        for (std::uint64_t at = rows.starts[item]; at < rows.starts[item + 1]; ++at) {
          scores[rows.neighbours[at].item] += rows.neighbours[at].weight;
        }
      }
    };
    const auto gains = judge(validation, score, scales);
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

MethodChoice choose(const Validation& validation, const TrainSettings& settings, const Progress& progress) {
  MethodChoice choice;
  Parameters& chosen = choice.parameters;
  const bool small = touched_items(validation.training) <= static_cast<std::size_t>(settings.ease_max_items);
  const bool may_ease = settings.algorithm == "ease" || (settings.algorithm == "auto" && small);
  const bool may_rp3 = settings.algorithm != "ease";
  if (validation.cases.size() < kFewestCases) {
    chosen.ease = !may_rp3;
    choice.report = "too few readers to validate with";
    return choice;
  }
  Reached reached;
  if (may_ease) reached = try_ease(validation, may_rp3, chosen, choice.report, progress);
  if (may_rp3 && !may_ease) {
    reached.rp3 = try_rp3(validation, static_cast<std::size_t>(settings.neighbours), chosen, progress);
  }
  chosen.ease = reached.ease > reached.rp3;
  if (may_rp3) {
    choice.report +=
        fmt::format("rp3beta {:.4f} (alpha {:.2f}, beta {:.1f}), ", reached.rp3, chosen.alpha, chosen.beta);
  }
  choice.report += fmt::format("ndcg@20 of {} readers", validation.cases.size());
  return choice;
}

Columns fit(const Interactions& interactions, const Parameters& chosen, const TrainSettings& settings) {
  const auto neighbours = static_cast<std::size_t>(settings.neighbours);
  if (!chosen.ease) {
    Columns columns = rp3_columns(interactions, chosen.alpha, kLongestColumn * neighbours);
    scale(columns, rp3_scale(interactions, chosen.beta));
    keep_most(columns, neighbours * touched_items(interactions));
    return columns;
  }
  const Touched part = touched(interactions);
  EaseSettings with;
  with.lambda = chosen.lambda;
  const auto weights = reader_weights(part.interactions, with.reader_exponent);
  Columns compact = Ease(gram(part.interactions, weights), with).columns(kLongestColumn * neighbours);
  keep_most(compact, neighbours * part.items.size());
  Columns columns(interactions.items);
  for (std::size_t i = 0; i < compact.size(); ++i) {
    for (model::Neighbour& neighbour : compact[i]) neighbour.item = part.items[neighbour.item];
    columns[part.items[i]] = std::move(compact[i]);
  }
  return columns;
}

}  // namespace freshet::training
