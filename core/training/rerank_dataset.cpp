#include "core/training/rerank_dataset.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/recommend/rerank_features.h"

namespace freshet::training {
namespace {

constexpr std::size_t kMinExamples = 300;
constexpr std::size_t kMinDays = 3;
// Candidates of an example: the best by trend · (1 + w · affinity), and those with the most decayed
// views. Items ranked lower are never shown.
constexpr std::size_t kMaxCandidates = 300, kMaxTrending = 100;
constexpr std::size_t kTrendingHalfLife = 2;  // in kTrendingHalfLives: 1 hour
// Every third negative is kept, which is as accurate (DECISIONS.md) and takes a third of the time.
constexpr std::size_t kSampleStride = 3;

recommend::RankingSettings formula_settings(recommend::RankingSettings settings) {
  settings.rerank = false;
  settings.discover_every = 0;
  settings.trend_half_life = seconds{0};
  return settings;
}

// The number of decayed views that kMaxTrending candidates have at least.
float trending_threshold(std::span<const recommend::RankedCandidate> ranked) {
  std::vector<float> views;
  for (const auto& each : ranked) {
    if (!each.in_profile) views.push_back(each.decayed_views[kTrendingHalfLife]);
  }
  if (views.size() <= kMaxTrending) return 0;
  std::ranges::nth_element(views, views.begin() + kMaxTrending, std::greater<>());
  return views[kMaxTrending];
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
  const float threshold = trending_threshold(ranked);
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    const std::uint32_t item = ranked[i].item;
    if (ranked[i].in_profile || std::binary_search(example.touched.begin(), example.touched.end(), item))
      continue;
    if (rank >= kMaxCandidates && !(ranked[i].decayed_views[kTrendingHalfLife] > threshold)) continue;
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
  std::size_t days = 0;
  for (const Day& day : days_) {
    examples.insert(examples.end(), day.examples.begin(), day.examples.end());
    days += day.examples.empty() ? 0U : 1U;
  }
  if (examples.size() < kMinExamples || days < kMinDays) return {};
  return training::fit_reranker(examples).to_floats();
}

}  // namespace freshet::training
