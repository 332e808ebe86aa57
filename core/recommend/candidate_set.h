// What was suggested to one reader at one moment, and what speaks for it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/recommend/ranker.h"

namespace freshet::recommend {

// The event of a reader that speaks most for an item.
struct Attribution {
  ItemId item;
  readers::Interaction kind = readers::Interaction::kView;
  double share = 0;  // of the item's affinity, 0..1
};

// Items are indexes into the catalogue. Views live as long as this.
class CandidateSet {
 public:
  // `all`: of the catalogue, best first, each item once. `profile`, `settings` and `now` as it was
  // ranked with.
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
  // Of any item of the catalogue, candidate or not.
  std::optional<std::uint32_t> find(std::string_view id) const { return catalogue_->find(id); }
  // find() of each, model::kNone for those it does not know.
  void find_all(std::span<const std::string_view> ids, std::span<std::uint32_t> out) const {
    catalogue_->find_all(ids, out);
  }
  // `items`: each once. In order; nullopt where no event speaks for the item. O(profile ×
  // neighbours) for all together. Virtual for unit tests, which say themselves what speaks.
  virtual std::vector<std::optional<Attribution>> find_attributions(std::span<const std::uint32_t> items) const;

 private:
  struct ProfileContribution {
    const ProfileEvent* event = nullptr;
    double weight = 0;
  };
  // What each item of the profile says, the newest first.
  std::vector<ProfileContribution> collect_contributions() const;
  double weight(const ProfileEvent& event) const;
  template <class Each>
  void for_each_relation(const ProfileEvent& event, const Each& visit) const;
  void prefetch_row_bounds(const ProfileEvent& event) const;
  void prefetch_row(const ProfileEvent& event) const;
  // What `event` adds to the affinity of each that is wanted.
  void add_affinities(const ProfileEvent& event, const model::SparseIndexSet& targets, std::span<double> shares) const;

  const std::shared_ptr<const Catalogue> catalogue_;
  const std::vector<RankedCandidate> candidates_;
  const std::vector<ProfileEvent> profile_;
  const InteractionSettings weights_;
  const seconds half_life_;
  const UnixSeconds now_;
};

}  // namespace freshet::recommend
