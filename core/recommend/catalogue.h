// The items that can be ranked at a moment: those of the model and the live ones.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/time.h"
#include "core/hot/trending.h"
#include "core/model/model.h"
#include "core/readers/interaction.h"

namespace freshet::recommend {

// How often an item was put on a page, and its page views, of which some followed an impression.
struct Exposure {
  double clicks = 0, impressions = 0;
  // Click-through, smoothed towards 1 in 20.
  double click_through() const {
    constexpr double kPriorClicks = 1, kPriorImpressions = 20;
    return (clicks + kPriorClicks) / (impressions + kPriorImpressions);
  }
};

// Metadata and points of a trending or new item, refreshed by TrendSource. It may also be in the
// model.
struct LiveItem {
  std::string id;
  std::string title, author;
  std::vector<std::string> tags;
  UnixSeconds published;
  double points = 0;  // undecayed, counted like views in mode=current
  // Content vector in the model's vocabulary. Set only if the item is not in the model.
  std::vector<model::TermWeight> terms;
  std::string author_id = {};  // empty: the author's name
  // Decayed sums of its views; nullopt: none was counted.
  std::optional<hot::TrendSums> trend = {};
  Exposure exposure = {};
};

// Views are valid as long as the catalogue.
struct ItemMetadata {
  std::string_view title, author;
  std::vector<std::string_view> tags;
  UnixSeconds published;
  std::string_view author_id = {};  // empty: the author's name
};

// The model's items followed by the live items that the model does not have. Immutable and shared
// by all requests until the next refresh. Without a model (null), it holds only live items. If
// several live items have the same id, the first wins.
class Catalogue {
 public:
  Catalogue(std::shared_ptr<const model::Model> model, std::vector<LiveItem> live);
  Catalogue(const Catalogue&) = delete;  // holds views into itself
  Catalogue& operator=(const Catalogue&) = delete;

  std::uint32_t size() const { return model_items() + static_cast<std::uint32_t>(new_positions_.size()); }
  std::uint32_t model_items() const { return model_items_; }  // smaller indexes are model indexes
  std::optional<std::uint32_t> find(std::string_view id) const;
  // find() for each id; model::kNoIndex if the id is neither in the model nor live.
  void find_all(std::span<const std::string_view> ids, std::span<std::uint32_t> out) const;
  std::string_view id(std::uint32_t item) const;
  ItemMetadata metadata(std::uint32_t item) const;  // prefers the live item over the model
  // Reuses the memory of `out`.
  void metadata(std::uint32_t item, ItemMetadata& out) const;
  UnixSeconds published(std::uint32_t item) const;
  // Points of the live item, otherwise the model's event count; finite, ≥ 0.
  double points(std::uint32_t item) const;
  // nullopt if the item is not live, so that its exposure is unknown.
  std::optional<Exposure> exposure(std::uint32_t item) const;
  // Estimates the item's number of events within about the last day. For model items: the decayed
  // count at training, times `decay`, which is recent_decay(now). For newer items: the points,
  // converted to the scale of the model's counts.
  double recent_events(std::uint32_t item, double decay) const;
  double recent_decay(UnixSeconds now) const;
  // The item's views at `now`, each halved with every half-life of kTrendingHalfLives since it was
  // counted; finite, ≥ 0. For a live item without views: the view that it enters with at its
  // publication. For items that are not live, whose counts are unknown: as if recent_events() were
  // spread over the day. `decay`: recent_decay(now).
  using DecayedViews = std::array<float, kTrendingHalfLives.size()>;
  DecayedViews decayed_views(std::uint32_t item, UnixSeconds now, double decay) const;
  std::span<const std::uint32_t> live_items() const { return live_items_; }  // distinct indexes
  const LiveItem* find_live(std::uint32_t item) const;                       // null if the item is not live
  const model::Model* model() const { return model_.get(); }
  std::uint64_t generation() const { return generation_; }  // unique within this process
  std::span<const model::TermWeight> terms(std::uint32_t item) const;

 private:
  const std::uint64_t generation_;
  std::shared_ptr<const model::Model> model_;
  std::uint32_t model_items_ = 0;
  std::vector<LiveItem> live_;
  std::vector<std::uint32_t> live_items_;
  std::vector<std::uint32_t> new_positions_;  // positions in live_, by index − model_items_
  // Id → index; the keys are views into live_.
  std::unordered_map<std::string_view, std::uint32_t> new_by_id_;
  std::vector<bool> is_live_;                                        // by model index
  std::unordered_map<std::uint32_t, std::uint32_t> live_positions_;  // index → position in live_
  double points_per_event_ = 1;
};

}  // namespace freshet::recommend
