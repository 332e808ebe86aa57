// What was suggested to one reader at one moment, and what speaks for it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/recommend/ranking.h"

namespace freshet::recommend {

// The event of a reader that speaks most for an item.
struct Because {
  ItemId item;
  readers::Interaction kind = readers::Interaction::kView;
  double share = 0;  // of the item's affinity, 0..1
};

// Items are indexes into the catalogue. Views live as long as this.
class Suggestions {
 public:
  // `all`: of the catalogue, best first, each item once. `profile`, `settings` and `now` as it was
  // ranked with.
  Suggestions(std::shared_ptr<const Catalogue> catalogue, std::vector<Ranked> all,
              std::vector<ProfileEvent> profile, const RankingSettings& settings, UnixSeconds now)
      : catalogue_(std::move(catalogue)),
        all_(std::move(all)),
        profile_(std::move(profile)),
        weights_(settings.weights),
        half_life_(settings.profile_half_life),
        now_(now) {}
  virtual ~Suggestions() = default;

  const std::vector<Ranked>& all() const { return all_; }
  std::string_view id(std::uint32_t item) const { return catalogue_->id(item); }
  Facts facts(std::uint32_t item) const { return catalogue_->facts(item); }
  void facts(std::uint32_t item, Facts& out) const { catalogue_->facts(item, out); }
  // Of any item of the catalogue, candidate or not.
  std::optional<std::uint32_t> find(std::string_view id) const { return catalogue_->find(id); }
  // find() of each, model::kNone for those it does not know.
  void find_all(std::span<const std::string_view> ids, std::span<std::uint32_t> out) const {
    catalogue_->find_all(ids, out);
  }
  // `items`: each once. In order; nullopt where no event speaks for the item. O(profile ×
  // neighbours) for all together. Virtual for unit tests, which say themselves what speaks.
  virtual std::vector<std::optional<Because>> because(std::span<const std::uint32_t> items) const;

 private:
  struct Voice {
    const ProfileEvent* event = nullptr;
    double weight = 0;
  };
  // What each item of the profile says, the newest first.
  std::vector<Voice> voices() const;
  double weight(const ProfileEvent& event) const;
  template <class Each>
  void each_part(const ProfileEvent& event, const Each& each) const;
  void fetch_place(const ProfileEvent& event) const;
  void fetch(const ProfileEvent& event) const;
  // What `event` adds to the affinity of each that is wanted.
  void add_relations(const ProfileEvent& event, const model::Few& wanted, std::span<double> shares) const;

  const std::shared_ptr<const Catalogue> catalogue_;
  const std::vector<Ranked> all_;
  const std::vector<ProfileEvent> profile_;
  const InteractionSettings weights_;
  const seconds half_life_;
  const UnixSeconds now_;
};

}  // namespace freshet::recommend
