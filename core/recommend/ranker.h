// From a reader's profile to ranked items: candidates = trend ∪ item–item ∪ newest, score = trend ·
// (1 + w · affinity), or the learned re-ranker's odds; some slots of the list are discoveries.
// Pure: the service, `freshetctl explain` and the evaluation all call this. Exclusions, caps and
// reasons are the use-case's (core/recommend/recommendations.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
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
  std::uint32_t item = 0;  // index in the catalogue
  readers::Interaction kind = readers::Interaction::kView;
  UnixSeconds at;
};

// Which of the sources named a candidate first.
enum class CandidateSource : std::uint8_t { kTrend, kAffinity, kNewest };

// A candidate and every term of its score, for explain. All numbers are finite and ≥ 0.
struct RankedCandidate {
  std::uint32_t item = 0;
  double score = 0;
  double trend = 0;            // (1 + points) / (hours + base)^gamma
  double affinity = 0;         // as the score uses it: 1 is the greatest of a candidate outside the profile
  double cf = 0, content = 0;  // what co-interaction (borrowed, too) and content add to it
  double points = 0, age_hours = 0;
  CandidateSource source = CandidateSource::kTrend;  // the first that named it
  bool in_profile = false;         // the reader did something with it, or does not want it
  bool discovery = false;          // raised to a discovery's slot; shares its score with the next one
};

struct RankingSettings {
  double cf_weight = 2;
  double base_hours = 2, gamma = 1.5;
  bool rerank = true;
  std::size_t max_profile_events = 200;
  seconds profile_half_life{30 * 86400};
  std::size_t affinity_candidates = 300;  // best by affinity that become candidates
  // Every Nth slot, of those for candidates outside the profile, is a discovery: one of the
  // `discover_among` of greatest affinity that would come a page or more later, another one each
  // day (UTC). The trend is the same for everybody: without discoveries few other items are ever
  // shown. 0: none.
  std::size_t discover_every = 6;
  std::size_t discovery_pool_size = 10;
  std::size_t discovery_min_events = 1;  // events of a profile
  InteractionSettings weights;
  static RankingSettings from(const Settings& settings);
};

// Whether the reader did something with an item long ago, by its catalogue index.
using ArchivePredicate = std::function<bool(std::uint32_t)>;

class Ranker {  // scratch memory, reused; one thread
 public:
  explicit Ranker(const RankingSettings& settings) : settings_(settings) {}
  // All candidates, best first (ties: newer, then by id; a discovery before what it displaced).
  // `profile` newest first; what is beyond settings.profile is left out. An empty profile: the
  // trend, without discoveries. `all`: every item of the catalogue is a candidate (evaluation; when
  // nothing is live, too). `unwanted`: items that will not be shown, which take no place of
  // affinity's or of a discovery; nor do those of which `done_before` is true, as long as affinity
  // does not name too many of them. Valid until the next call. O(profile × neighbours + items / 16
  // + candidates · log candidates).
  //
  // The re-ranker's scores are odds against the best candidate's, in (0, 1]: factors on them mean
  // what they mean on the trend's.
  const std::vector<RankedCandidate>& rank(const Catalogue& catalogue, std::span<const ProfileEvent> profile,
                                  UnixSeconds now, bool include_all = false,
                                  std::span<const std::uint32_t> excluded = {},
                                  const ArchivePredicate& is_archived = nullptr);
  const RankingSettings& settings() const { return settings_; }

 private:
  void weigh_profile(const Catalogue& catalogue, std::span<const ProfileEvent> profile, UnixSeconds now);
  void clear_profile(std::span<const ProfileEvent> profile);
  void exclude(std::uint32_t item);
  void fill_live(const Catalogue& catalogue, UnixSeconds now);
  void fill_trend(const Catalogue& catalogue, UnixSeconds now, RankedCandidate& candidate) const;
  void collect_candidates(const Catalogue& catalogue, UnixSeconds now, bool include_all, const ArchivePredicate& is_archived);
  std::vector<std::uint32_t> top_by_affinity(const Catalogue& catalogue, const ArchivePredicate& is_archived);
  void fill_affinities(const Catalogue& catalogue);
  void score(const Catalogue& catalogue, std::span<const ProfileEvent> profile, UnixSeconds now);
  void sort(const Catalogue& catalogue);
  void collect_discoveries();
  std::optional<std::uint32_t> pick_discovery(std::uint32_t unseen_rank, std::size_t day);
  void insert_discoveries(UnixSeconds now);
  double new_item_content(const Catalogue& catalogue, std::uint32_t item) const;

  struct DiscoveryCandidate {
    std::uint32_t position = 0;  // in ranked_
    std::uint32_t unseen_rank = 0;      // among those outside the profile
    double affinity = 0;
  };
  RankingSettings settings_;
  AffinityScorer affinity_;
  std::vector<RankedCandidate> ranked_, scratch_;  // the candidates; where they go when their order changes
  std::vector<RankedCandidate> live_;            // the catalogue's, described as of live_at_; shared by readers
  std::uint64_t live_generation_ = 0;           // the catalogue's number
  UnixSeconds live_at_;
  RadixSorter sorter_;
  std::vector<std::uint32_t> keys_;
  std::vector<ProfileItem> profile_items_;    // of the profile, those in the model
  std::vector<float> profile_weights_;         // by catalogue index; 0 outside the profile
  std::vector<float> interests_;      // by term: Σ weight · term weight over the profile
  std::vector<std::uint32_t> interest_terms_;  // where interests_ is not 0
  std::vector<std::uint8_t> is_candidate_;   // by catalogue index: already a candidate
  std::vector<std::uint32_t> excluded_, affinity_exclusions_, pool_;
  std::vector<FeatureVector> features_;
  std::vector<float> logits_;
  std::vector<DiscoveryCandidate> discoveries_;
};

}  // namespace freshet::recommend
