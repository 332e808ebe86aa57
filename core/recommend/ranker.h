// Ranks items for a reader's profile. Candidates are trending, related (item–item) and new items.
// The score is trend · (1 + w · affinity), or the odds of the learned re-ranker, as training chose
// (Model::ranking()). Some positions are reserved for discoveries.
// Pure; used by the service, `freshetctl explain` and the evaluation. Exclusions, caps and reasons
// follow later (core/recommend/recommendations.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "core/config/settings.h"
#include "core/model/model.h"
#include "core/readers/interaction.h"
#include "core/recommend/affinity_scorer.h"
#include "core/recommend/catalogue.h"
#include "core/recommend/radix_sorter.h"
#include "core/recommend/rerank.h"

namespace freshet::recommend {

struct ProfileEvent {
  std::uint32_t item = 0;  // catalogue index
  readers::Interaction kind = readers::Interaction::kView;
  UnixSeconds at;
};

// The source that first proposed a candidate.
enum class CandidateSource : std::uint8_t { kTrend, kAffinity, kNewest };

// A candidate with every term of its score, for `freshetctl explain`. All numbers are finite and ≥
// 0.
struct RankedCandidate {
  std::uint32_t item = 0;
  double score = 0;
  double trend = 0;            // power_law, or the decayed views of the chosen half-life
  double power_law = 0;        // (1 + points) / (hours + base)^gamma
  double affinity = 0;         // scaled so that the highest value outside the profile is 1
  double cf = 0, content = 0;  // the collaborative (including cold-start) and content shares of `affinity`
  double points = 0, age_hours = 0;
  Catalogue::DecayedViews decayed_views{};
  CandidateSource source = CandidateSource::kTrend;
  bool in_profile = false;   // the reader interacted with it or dismissed it
  bool discovery = false;    // moved up to a discovery position; has the score of the item after it
  bool exploration = false;  // the same, for a position of new items
};

struct RankingSettings {
  // nullopt: as training chose, otherwise as in RankingFormula.
  std::optional<double> cf_weight;
  std::optional<bool> rerank;
  // Every Nth position, not counting profile items, is a discovery: one of the
  // `discovery_pool_size` items with the highest affinity that would otherwise appear at least a
  // page later. The choice changes daily (UTC). Trend is the same for everyone, so without
  // discoveries only few items would ever be shown. 0: none.
  std::optional<std::size_t> discover_every;
  std::optional<seconds> trend_half_life;  // as model::ChosenRanking
  double base_hours = 2, gamma = 1.5;
  std::size_t max_profile_events = 200;
  seconds profile_half_life{30 * 86400};
  std::size_t affinity_candidates = 300;  // number of items with the highest affinity that become candidates
  std::size_t discovery_pool_size = 10;
  std::size_t discovery_min_events = 1;  // smallest profile that gets discoveries
  // Share of the positions, not counting profile items, that show new items (at most a week old)
  // which would otherwise appear at least a page later and have few impressions, or fewer without
  // clicks. Without them, good new items stay unseen where older ones have all the clicks. 0: none.
  double explore = 0;
  InteractionSettings weights;
  static RankingSettings from(const Settings& settings);
};

// The formula that follows from the settings and the model.
struct RankingFormula {
  std::optional<std::size_t> half_life;  // of the trend, in kTrendingHalfLives; nullopt: the power law
  double cf_weight = 2;
  bool rerank = true;
  std::size_t discover_every = 6;
  // `model` may be null.
  static RankingFormula of(const RankingSettings& settings, const model::Model* model);
  // ranking_name() of what a reader with or without a profile gets.
  std::string name(const model::Model* model, bool has_profile) const;
};

// Returns whether the reader interacted with the catalogue item long ago.
using ArchivePredicate = std::function<bool(std::uint32_t)>;

class Ranker {  // reuses its scratch memory; not thread-safe
 public:
  explicit Ranker(const RankingSettings& settings) : settings_(settings) {}
  // Returns all candidates, best first. Ties: newer first, then by id; a discovery comes before the
  // item it displaced. `profile` is newest first; events beyond settings.max_profile_events are
  // ignored. An empty profile ranks by trend, without discoveries. `include_all` makes every item
  // of the catalogue a candidate (for the evaluation; also implied if nothing is live). Items in
  // `excluded` will not be shown and take no position by affinity or as a discovery. The same holds
  // for items matching `is_archived`, unless there are too many of them. `reader` chooses the new
  // items of the positions for exploration, again each day (UTC); 0: none. Valid until the next
  // call. O(profile × neighbours + items / 16 + candidates · log candidates).
  //
  // The re-ranker's scores are odds relative to the best candidate, in (0, 1]. Multiplying them by
  // a factor therefore has the same effect as on trend scores.
  const std::vector<RankedCandidate>& rank(const Catalogue& catalogue, std::span<const ProfileEvent> profile,
                                           UnixSeconds now, bool include_all = false,
                                           std::span<const std::uint32_t> excluded = {},
                                           const ArchivePredicate& is_archived = nullptr,
                                           std::uint64_t reader = 0);
  const RankingSettings& settings() const { return settings_; }

 private:
  void weigh_profile(const Catalogue& catalogue, std::span<const ProfileEvent> profile, UnixSeconds now);
  void clear_profile(std::span<const ProfileEvent> profile);
  void exclude(std::uint32_t item);
  void fill_live(const Catalogue& catalogue, UnixSeconds now);
  void fill_trend(const Catalogue& catalogue, UnixSeconds now, double decay,
                  RankedCandidate& candidate) const;
  void collect_candidates(const Catalogue& catalogue, UnixSeconds now, bool include_all,
                          const ArchivePredicate& is_archived);
  std::vector<std::uint32_t> top_by_affinity(const Catalogue& catalogue, const ArchivePredicate& is_archived);
  void fill_affinities(const Catalogue& catalogue);
  void score(const Catalogue& catalogue, std::span<const ProfileEvent> profile, UnixSeconds now);
  void sort(const Catalogue& catalogue);
  void collect_discoveries();
  std::optional<std::uint32_t> pick_discovery(std::uint32_t unseen_rank, std::size_t day);
  void insert_discoveries(UnixSeconds now);
  void collect_explorations(const Catalogue& catalogue, UnixSeconds now, std::uint64_t reader);
  void insert_explorations(const Catalogue& catalogue, UnixSeconds now, std::uint64_t reader);
  double new_item_content(const Catalogue& catalogue, std::uint32_t item) const;

  struct DiscoveryCandidate {
    std::uint32_t position = 0;     // in ranked_
    std::uint32_t unseen_rank = 0;  // rank among the items outside the profile
    double affinity = 0;
  };
  struct ExplorationCandidate {
    std::uint64_t order = 0;     // a hash; the highest comes first
    std::uint32_t position = 0;  // in ranked_
  };
  RankingSettings settings_;
  RankingFormula formula_;  // for the catalogue of the current call
  AffinityScorer affinity_;
  std::vector<RankedCandidate> ranked_, scratch_;  // candidates, and the buffer for reordering them
  std::vector<RankedCandidate> live_;              // live candidates as of live_at_; the same for all readers
  std::uint64_t live_generation_ = 0;              // generation of the catalogue that live_ belongs to
  UnixSeconds live_at_;
  RadixSorter sorter_;
  std::vector<std::uint32_t> keys_;
  std::vector<ProfileItem> profile_items_;     // the profile's items that are in the model
  std::vector<float> profile_weights_;         // by catalogue index; 0 outside the profile
  std::vector<float> interests_;               // by term: Σ over the profile of event weight · term weight
  std::vector<std::uint32_t> interest_terms_;  // indexes of the non-zero interests_
  std::vector<std::uint8_t> is_candidate_;     // by catalogue index
  std::vector<std::uint32_t> excluded_, affinity_exclusions_, pool_;
  std::vector<FeatureVector> features_;
  std::vector<float> logits_;
  std::vector<DiscoveryCandidate> discoveries_;
  std::vector<ExplorationCandidate> explorations_;
};

}  // namespace freshet::recommend
