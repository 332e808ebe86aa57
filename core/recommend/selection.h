// Which candidates a reader gets: exclusions, what lowers a score, and the caps per author and tag.
// Pure; the service and `freshetctl explain` share it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/time.h"
#include "core/config/settings.h"
#include "core/recommend/ports.h"

namespace freshet::recommend {

enum class ExclusionMode : std::uint8_t {
  kHard,  // what was viewed or interacted with stays out
  kSoft,  // what was viewed is lowered instead, by the age of the view
  kOff    // neither; only what the reader dismissed stays out
};

// Distinct ids in force.
struct ExcludedCounts {
  std::size_t interacted = 0, viewed = 0, not_interested = 0;
};

// Of several that are true of an item the last.
enum class Eligibility : std::uint8_t { kEligible, kViewed, kInteracted, kNotInterested };

// A candidate, and what became of it.
struct SelectionCandidate {
  const RankedCandidate* ranked = nullptr;
  double factor = 1;  // what lowered it
  Eligibility eligibility = Eligibility::kEligible;
  double score() const { return ranked->score * factor; }
};

struct SelectionSettings {
  FeedbackSettings feedback;
  seconds soft_half_life{86400};
  int per_author = 3, per_tag = 8;
  static SelectionSettings from(const Settings& settings) {
    return {settings.feedback, settings.recommend.soft_half_life, settings.recommend.max_per_author,
            settings.recommend.max_per_tag};
  }
};

class Selection {
 public:
  // All arguments must outlive this.
  Selection(const CandidateSet& candidate_set, const readers::ReaderState& state, ExclusionMode mode,
            const SelectionSettings& settings, UnixSeconds now);

  // Every candidate, best first by score(); equal ones as they were suggested.
  const std::vector<SelectionCandidate>& candidates() const { return candidates_; }
  std::string_view id(const SelectionCandidate& choice) const { return candidate_set_.id(choice.ranked->item); }
  const ExcludedCounts& excluded() const { return counts_; }
  Eligibility eligibility(std::string_view id) const;  // of any item

  // Indexes into choices() of the `limit` best that are eligible and `showable`: within the caps
  // per author and tag as long as that is possible, then beyond them.
  std::vector<std::size_t> select(std::size_t limit, const std::function<bool(const SelectionCandidate&)>& is_visible) const;

 private:
  // What the reader did with an item of the catalogue.
  struct ReaderMark {
    std::uint32_t item = 0;
    Eligibility eligibility = Eligibility::kEligible;
    std::optional<UnixSeconds> viewed;
  };
  void collect_exclusions();
  std::vector<ReaderMark> collect_marks() const;
  void classify(UnixSeconds now);
  void demote_similar_to_dismissed();

  const CandidateSet& candidate_set_;
  const readers::ReaderState& state_;
  const SelectionSettings& settings_;
  const ExclusionMode mode_;
  std::unordered_set<std::string_view> interacted_, dismissed_;  // without those of state.earlier
  std::unordered_map<std::string_view, UnixSeconds> viewed_;
  std::vector<SelectionCandidate> candidates_;
  ExcludedCounts counts_;
};

// What is left of the score of an item that was viewed so long ago: 0 at once, half of it after the
// half-life: 1 − 2^(−age/half_life).
double soft_exclusion_factor(seconds age, seconds half_life);

}  // namespace freshet::recommend
