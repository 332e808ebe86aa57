// The ranked candidates of one reader at one moment, and which events contributed to each.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/recommend/ranker.h"

namespace freshet::recommend {

// The reader's event that contributes most to an item.
struct Attribution {
  ItemId item;
  readers::Interaction kind = readers::Interaction::kView;
  double share = 0;  // share of the item's affinity, 0..1
};

// Items are catalogue indexes. Views are valid as long as this object.
class CandidateSet {
 public:
  // `candidates`: best first, each item once, from the catalogue. `profile`, `settings` and `now`
  // must be those used for ranking.
  CandidateSet(std::shared_ptr<const Catalogue> catalogue, std::vector<RankedCandidate> candidates,
               std::vector<ProfileEvent> profile, const RankingSettings& settings, UnixSeconds now)
      : catalogue_(std::move(catalogue)),
        candidates_(std::move(candidates)),
        profile_(std::move(profile)),
        weights_(settings.weights),
        half_life_(settings.profile_half_life),
        now_(now) {}
  virtual ~CandidateSet() = default;

  const std::vector<RankedCandidate>& candidates() const { return candidates_; }
  std::string_view id(std::uint32_t item) const { return catalogue_->id(item); }
  ItemMetadata metadata(std::uint32_t item) const { return catalogue_->metadata(item); }
  void metadata(std::uint32_t item, ItemMetadata& out) const { catalogue_->metadata(item, out); }
  // For any item of the catalogue, candidate or not.
  std::optional<std::uint32_t> find(std::string_view id) const { return catalogue_->find(id); }
  // find() for each id; model::kNoIndex if it is unknown.
  void find_all(std::span<const std::string_view> ids, std::span<std::uint32_t> out) const {
    catalogue_->find_all(ids, out);
  }
  // Returns the attribution of each item, in order; nullopt if no event contributes to it. Items
  // must be distinct. O(profile × neighbours) for all items together. Virtual so that unit tests
  // can fake it.
  virtual std::vector<std::optional<Attribution>> find_attributions(
      std::span<const std::uint32_t> items) const;

 private:
  struct ProfileContribution {
    const ProfileEvent* event = nullptr;
    double weight = 0;
  };
  // The contribution of each distinct item of the profile, newest first.
  std::vector<ProfileContribution> collect_contributions() const;
  double weight(const ProfileEvent& event) const;
  template <class Each>
  void for_each_relation(const ProfileEvent& event, const Each& visit) const;
  void prefetch_row_bounds(const ProfileEvent& event) const;
  void prefetch_row(const ProfileEvent& event) const;
  // Adds the event's contribution to the affinity of each target.
  void add_affinities(const ProfileEvent& event, const model::SparseIndexSet& targets,
                      std::span<double> shares) const;

  const std::shared_ptr<const Catalogue> catalogue_;
  const std::vector<RankedCandidate> candidates_;
  const std::vector<ProfileEvent> profile_;
  const InteractionSettings weights_;
  const seconds half_life_;
  const UnixSeconds now_;
};

}  // namespace freshet::recommend
