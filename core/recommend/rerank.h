// The learned re-ranker: numbers about a candidate for a reader → how likely that reader takes it
// rather than the other candidates.
//
//   x' = clamp((x − mean) · scale, ±kMostDeviation),  logit(x) = a·x' + Σ over hidden units k of
//   b_k · tanh(w_k·x' + c_k)
//
// P(takes i) ∝ exp(logit(x_i)) among the candidates of one moment, which is what learning maximises
// (rerank_fit.h). The linear part does most of the work; the few hidden units let what is known of
// the reader (a heavy reader, one who was away for a week) bend it. tanh and the clamp keep it tame
// for numbers far from those that were learned from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace freshet::recommend {

// What the numbers are: core/recommend/rerank_features.h makes them, for the service as for
// learning. Another list is another kRerankVersion.
enum class Feature : std::uint8_t {
  // of the item; "to the head": ln of the ratio to the greatest among the candidates, so that it
  // does not matter whether views or interactions are counted
  kTrend,       // trend, to the head
  kAge,         // ln(hours + 2)
  kPoints,      // 1 + points, to the head
  kRecent,      // 0.1 + events of about the last day, to the head
  kTrendRank,  // ln(1 + how many candidates trend more)
  kNewnessRank,     // ln(1 + how many candidates are newer)
  // of the item for this reader
  kAffinity,         // by the greatest among the candidates: 0..1
  kLogAffinity,      // ln(0.01 + that)
  kNewSinceVisit,    // 1: published after the reader's last event
  kHoursBeforeLastEvent,  // ln(1 + hours between publication and the reader's last event)
  kEventsSincePublished,      // ln(1 + the reader's events since publication): each was a chance to take it
  kVisitsSincePublished,      // ln(1 + days with such events)
  // of the reader
  kEvents,        // ln(1 + events in the profile)
  kHoursAway,     // ln(1 + hours since the last event)
  kTypicalAge,      // mean ln(hours + 2) of items when this reader took them, shrunk towards 4
  kEventsOfDay,   // ln(1 + Σ 2^(−age/1 d))
  kEventsOfWeek,  // ln(1 + Σ 2^(−age/7 d))
  kCount
};
inline constexpr std::size_t kFeatures = static_cast<std::size_t>(Feature::kCount);
using FeatureVector = std::array<float, kFeatures>;

inline constexpr float kRerankVersion = 1;
inline constexpr std::size_t kHiddenUnits = 8;
inline constexpr float kMaxDeviation = 6;  // standard deviations

class Reranker {
 public:
  // The parameters as to_floats() gives them. nullopt: another version's, another length, or a
  // number that is not finite or beyond 10^6.
  static std::optional<Reranker> from_floats(std::span<const float> parameters);

  // Of each candidate, in order. Finite for finite features. tanh within 1e-6.
  // O(candidates · features · hidden units).
  void logits(std::span<const FeatureVector> candidates, std::vector<float>& out) const;
  // The version, then the parameters in the order of the members below.
  std::vector<float> to_floats() const;

  FeatureVector mean{}, scale{};
  FeatureVector linear{};
  struct HiddenUnit {
    FeatureVector weights{};
    float bias = 0;
    float output_weight = 0;
  };
  std::array<HiddenUnit, kHiddenUnits> hidden{};
};

}  // namespace freshet::recommend
