// feed::Suggestions over a catalogue: what was ranked, and what speaks for each.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/recommend/ports.h"
#include "core/recommend/ranking.h"

namespace freshet::recommend {

class CatalogueSuggestions final : public Suggestions {
 public:
  // `all` with views into `catalogue`; `profile` as it was ranked with.
  CatalogueSuggestions(std::shared_ptr<const Catalogue> catalogue, std::vector<Suggestion> all,
                       std::vector<ProfileEvent> profile, const RankingSettings& settings, UnixSeconds now)
      : catalogue_(std::move(catalogue)),
        all_(std::move(all)),
        profile_(std::move(profile)),
        weights_(settings.weights),
        half_life_(settings.profile_half_life),
        now_(now) {}

  std::span<const Suggestion> all() const override { return all_; }
  Facts facts(std::uint32_t index) const override {
    return {catalogue_->title(index), catalogue_->author(index), catalogue_->tags(index),
            catalogue_->published(index)};
  }
  std::optional<std::uint32_t> find(const ItemId& item) const override {
    return catalogue_->find(item.view());
  }
  std::vector<std::optional<Because>> because(std::span<const std::uint32_t> items) const override;

 private:
  // The items asked about, with a filter before them: nearly all neighbours of a row are others.
  struct Wanted {
    explicit Wanted(std::span<const std::uint32_t> asked) : items(asked) {
      for (const std::uint32_t each : asked) some[each % some.size()] = true;
    }
    bool maybe(std::uint32_t item) const { return some[item % some.size()]; }
    std::span<const std::uint32_t> items;
    std::array<bool, 256> some{};
  };
  double weight(const ProfileEvent& event) const;
  // What `event` adds to the affinity of each that is wanted.
  void add_relations(const ProfileEvent& event, const Wanted& wanted, std::span<double> shares) const;

  const std::shared_ptr<const Catalogue> catalogue_;
  const std::vector<Suggestion> all_;
  const std::vector<ProfileEvent> profile_;
  const InteractionSettings weights_;
  const seconds half_life_;
  const UnixSeconds now_;
};

}  // namespace freshet::recommend
