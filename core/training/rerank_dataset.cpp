#include "core/training/rerank_dataset.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/recommend/rerank_features.h"

namespace freshet::training {
namespace {

constexpr std::size_t kMinExamples = 300;
constexpr std::size_t kMinDays = 7;
constexpr std::size_t kMaxCandidates = 300;  // per example; items ranked lower are never shown
// Every third negative is kept, which is as accurate (DECISIONS.md) and takes a third of the time.
constexpr std::size_t kSampleStride = 3;

recommend::RankingSettings formula_settings(recommend::RankingSettings settings) {
  settings.rerank = false;
  settings.discover_every = 0;
  return settings;
}

// NDCG of the candidates ordered by `key`, descending.
template <class Key>
double ndcg(const RankingExample& example, const Key& key) {
  std::vector<std::size_t> order(example.candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) > key(b); });
  double gained = 0, best = 0;
  std::size_t positives = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    if (example.labels[order[rank]] == 0) continue;
    gained += 1 / std::log2(static_cast<double>(rank) + 2);
    best += 1 / std::log2(static_cast<double>(positives++) + 2);
  }
  return gained / best;
}

bool beats_formula(const recommend::Reranker& reranker, std::span<const RankingExample> examples) {
  double learned = 0, formula = 0;
  for (const RankingExample& example : examples) {
    std::vector<float> logits;
    reranker.logits(example.candidates, logits);
    learned += ndcg(example, [&](std::size_t i) { return logits[i]; });
    formula += ndcg(example, [](std::size_t i) { return -static_cast<double>(i); });
  }
  return learned > formula;
}

}  // namespace

RerankDataset::RerankDataset(const recommend::RankingSettings& settings)
    : ranker_(formula_settings(settings)) {}

void RerankDataset::begin_day(UnixSeconds day) { days_.push_back({day, {}}); }

void RerankDataset::add(const recommend::Catalogue& catalogue, const TrainingExample& example) {
  const auto& ranked = ranker_.rank(catalogue, example.profile, example.now);
  const auto profile =
      example.profile.first(std::min(example.profile.size(), ranker_.settings().max_profile_events));
  recommend::rerank_features(catalogue, profile, ranked, example.now, features_);
  RankingExample ranking_example;
  std::size_t rank = 0, positives = 0;
  for (std::size_t i = 0; i < ranked.size() && rank < kMaxCandidates; ++i) {
    const std::uint32_t item = ranked[i].item;
    if (ranked[i].in_profile || std::binary_search(example.touched.begin(), example.touched.end(), item))
      continue;
    const bool is_positive =
        std::find(example.positives.begin(), example.positives.end(), item) != example.positives.end();
    if (++rank % kSampleStride != example.sample_offset % kSampleStride && !is_positive) continue;
    ranking_example.candidates.push_back(features_[i]);
    ranking_example.labels.push_back(is_positive ? 1 : 0);
    positives += is_positive ? 1U : 0U;
  }
  if (positives > 0 && positives < ranking_example.candidates.size())
    days_.back().examples.push_back(std::move(ranking_example));
}

void RerankDataset::discard_before(UnixSeconds day) {
  while (!days_.empty() && days_.front().at < day) days_.pop_front();
}

std::size_t RerankDataset::size() const {
  return std::accumulate(days_.begin(), days_.end(), std::size_t{0},
                         [](std::size_t sum, const Day& day) { return sum + day.examples.size(); });
}

std::vector<float> RerankDataset::learn() const {
  std::vector<RankingExample> examples;
  std::vector<std::size_t> ends;  // index of the end of each day's examples
  for (const Day& day : days_) {
    if (day.examples.empty()) continue;
    examples.insert(examples.end(), day.examples.begin(), day.examples.end());
    ends.push_back(examples.size());
  }
  if (examples.size() < kMinExamples || ends.size() < kMinDays) return {};
  const std::span all(examples);
  const std::size_t training_size = ends[ends.size() * 4 / 5 - 1];
  if (!beats_formula(training::fit_reranker(all.first(training_size)), all.subspan(training_size))) return {};
  return training::fit_reranker(all).to_floats();
}

}  // namespace freshet::training
