// The learned re-ranker. It maps features of a candidate and a reader to how likely the reader
// picks this candidate rather than the others.
//
//   x' = clamp((x − mean) · scale, ±kMaxDeviation)
//   logit(x) = a·x' + Σ over hidden units k of b_k · tanh(w_k·x' + c_k)
//
// P(reader picks i) ∝ exp(logit(x_i)) among the candidates of one moment; training maximizes this
// likelihood (rerank_fit.h). The linear part does most of the work. The few hidden units let
// features of the reader (a heavy reader, one who was away for a week) modify it. tanh and the
// clamp keep the score bounded for inputs far from the training data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace freshet::recommend {

// Computed by core/recommend/rerank_features.h, for serving and for training. Changing the list
// requires a new kRerankVersion.
enum class Feature : std::uint8_t {
  // Features of the item. "To the max" means the ln of the ratio to the highest value among the
  // candidates, which makes the feature independent of whether views or interactions are counted.
  kTrend,        // power law, to the max
  kAge,          // ln(hours + 2)
  kPoints,       // 1 + points, to the max
  kRecent,       // 0.1 + events within about the last day, to the max
  kTrendRank,    // ln(1 + number of candidates with a higher power law)
  kNewnessRank,  // ln(1 + number of newer candidates)
  kDecayed5m,    // 0.1 + views decayed with a half-life of 5 minutes, to the max
  kDecayed15m,
  kDecayed1h,
  kDecayed6h,
  kDecayed24h,
  kDecayedRank,  // ln(1 + number of candidates with more views decayed with a half-life of 15 minutes)
  // Features of the item for this reader.
  kAffinity,              // divided by the highest value among the candidates: 0..1
  kLogAffinity,           // ln(0.01 + kAffinity)
  kNewSinceVisit,         // 1 if published after the reader's last event
  kHoursBeforeLastEvent,  // ln(1 + hours between publication and the reader's last event)
  kEventsSincePublished,  // ln(1 + the reader's events since publication): missed chances to pick it
  kVisitsSincePublished,  // ln(1 + days with such events)
  // Features of the reader.
  kEvents,        // ln(1 + events in the profile)
  kHoursAway,     // ln(1 + hours since the last event)
  kTypicalAge,    // mean ln(hours + 2) of items' age when this reader picked them, shrunk towards 4
  kEventsOfDay,   // ln(1 + Σ 2^(−age/1 d))
  kEventsOfWeek,  // ln(1 + Σ 2^(−age/7 d))
  kCount
};
inline constexpr std::size_t kFeatures = static_cast<std::size_t>(Feature::kCount);
using FeatureVector = std::array<float, kFeatures>;

inline constexpr float kRerankVersion = 2;
inline constexpr std::size_t kHiddenUnits = 8;
inline constexpr float kMaxDeviation = 6;  // standard deviations

class Reranker {
 public:
  // Parses the parameters as written by to_floats(). Returns nullopt if the version or the length
  // is wrong, or if a number is not finite or above 10^6 in magnitude.
  static std::optional<Reranker> from_floats(std::span<const float> parameters);

  // One logit per candidate, in order; finite for finite features. tanh is accurate to 1e-6.
  // O(candidates · features · hidden units).
  void logits(std::span<const FeatureVector> candidates, std::vector<float>& out) const;
  // The version, followed by the parameters in the order of the members below.
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
