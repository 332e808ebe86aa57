// Selects the candidates that a reader gets: exclusions, factors that lower a score, caps per
// author and tag. Pure; used by the service and by `freshetctl explain`.
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
  kHard,  // viewed and interacted items are excluded
  kSoft,  // viewed items get a lower score, depending on the age of the view
  kOff    // only dismissed items are excluded
};

// Number of distinct excluded ids.
struct ExcludedCounts {
  std::size_t interacted = 0, viewed = 0, not_interested = 0;
};

// If several apply, the highest value wins.
enum class Eligibility : std::uint8_t { kEligible, kViewed, kInteracted, kNotInterested };

// A candidate with its eligibility.
struct SelectionCandidate {
  const RankedCandidate* ranked = nullptr;
  double factor = 1;  // product of all demotions, 0..1
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
  // All arguments except `reader` must outlive this. `reader`: is not selected their own items.
  Selection(const CandidateSet& candidate_set, const readers::ReaderState& state, ExclusionMode mode,
            const SelectionSettings& settings, UnixSeconds now, const ReaderId& reader = {});

  // All candidates, best first by score(); equal scores in the original order.
  const std::vector<SelectionCandidate>& candidates() const { return candidates_; }
  std::string_view id(const SelectionCandidate& candidate) const {
    return candidate_set_.id(candidate.ranked->item);
  }
  const ExcludedCounts& excluded() const { return counts_; }
  Eligibility eligibility(std::string_view id) const;  // for any item, not only candidates
  // True if the reader is the author, that is, the author's key is the reader's id. Such items stay
  // among the eligible candidates, but are not selected.
  bool is_own(std::string_view author_id, std::string_view author) const;

  // Returns indexes into candidates() of the `limit` best candidates that are eligible, not the
  // reader's own, and for which `is_visible` returns true. Candidates beyond the caps per author
  // and tag are used only if the page cannot be filled without them.
  std::vector<std::size_t> select(std::size_t limit,
                                  const std::function<bool(const SelectionCandidate&)>& is_visible) const;

 private:
  // The reader's history with an item of the catalogue.
  struct ReaderMark {
    std::uint32_t item = 0;
    Eligibility eligibility = Eligibility::kEligible;
    std::optional<UnixSeconds> viewed;
  };
  void collect_exclusions();
  std::vector<ReaderMark> collect_marks() const;
  void classify(UnixSeconds now);
  void demote_similar_to_dismissed(UnixSeconds now);

  const CandidateSet& candidate_set_;
  const readers::ReaderState& state_;
  const SelectionSettings& settings_;
  const ExclusionMode mode_;
  const std::string own_author_;                                 // the author's key of the reader's own items
  std::unordered_set<std::string_view> interacted_, dismissed_;  // without the items in state.archived
  std::unordered_map<std::string_view, UnixSeconds> viewed_;
  std::vector<SelectionCandidate> candidates_;
  ExcludedCounts counts_;
};

// Factor for the score of a viewed item: 0 immediately after the view, half of the score after the
// half-life: 1 − 2^(−age/half_life).
double soft_exclusion_factor(seconds age, seconds half_life);

}  // namespace freshet::recommend
