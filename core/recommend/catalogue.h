// What can be ranked now: the items of the model and what is live.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/time.h"
#include "core/model/model.h"
#include "core/readers/interaction.h"

namespace freshet::recommend {

// What is known by the second of an item that is trending or new; of one that is in the model, too.
struct LiveItem {
  std::string id;
  std::string title, author;
  std::vector<std::string> tags;
  UnixSeconds published;
  double points = 0;  // undecayed, as mode=current of the hot views counts them
  // Content vector by the model's vocabulary; only when not in the model.
  std::vector<model::TermWeight> terms;
};

// What is known of an item. Views live as long as the catalogue.
struct ItemMetadata {
  std::string_view title, author;
  std::vector<std::string_view> tags;
  UnixSeconds published;
};

// What can be ranked now: the items of the model, then the live ones that it does not have.
// Immutable; shared by all requests until the next snapshot. `model` may be null: only live items
// then. Of live items with one id the first counts.
class Catalogue {
 public:
  Catalogue(std::shared_ptr<const model::Model> model, std::vector<LiveItem> live);
  Catalogue(const Catalogue&) = delete;  // views into itself
  Catalogue& operator=(const Catalogue&) = delete;

  std::uint32_t size() const { return model_items() + static_cast<std::uint32_t>(new_positions_.size()); }
  std::uint32_t model_items() const { return model_items_; }  // indexes below are the model's own
  std::optional<std::uint32_t> find(std::string_view id) const;
  // find() of each, model::kNone for what is neither in the model nor live.
  void find_all(std::span<const std::string_view> ids, std::span<std::uint32_t> out) const;
  std::string_view id(std::uint32_t item) const;
  ItemMetadata metadata(std::uint32_t item) const;  // the live one's when there is one
  // The same into `out`, whose memory is used again.
  void metadata(std::uint32_t item, ItemMetadata& out) const;
  UnixSeconds published(std::uint32_t item) const;
  double points(std::uint32_t item) const;  // live, else the model's count; finite, ≥ 0
  // About how many events the item had within the last day or so: what the model says of its
  // training, decayed since then; of an item that is newer than the model, its points in units of
  // the model's counts.
  // `decay`: of now.
  double recent_events(std::uint32_t item, double decay) const;
  double recent_decay(UnixSeconds now) const;
  std::span<const std::uint32_t> live_items() const { return live_items_; }  // indexes of the live items, distinct
  const model::Model* model() const { return model_.get(); }
  std::uint64_t generation() const { return generation_; }  // another one for each of this process
  std::span<const model::TermWeight> terms(std::uint32_t item) const;

 private:
  const LiveItem* find_live(std::uint32_t item) const;

  const std::uint64_t generation_;
  std::shared_ptr<const model::Model> model_;
  std::uint32_t model_items_ = 0;
  std::vector<LiveItem> live_;
  std::vector<std::uint32_t> live_items_;
  std::vector<std::uint32_t> new_positions_;  // positions in live_, by index − model_items_
  std::unordered_map<std::string_view, std::uint32_t> new_by_id_;  // id → index, of new_, views into live_
  std::vector<bool> is_live_;                                      // by index in the model
  std::unordered_map<std::uint32_t, std::uint32_t> live_positions_;       // index → position in live_
  double points_per_event_ = 1;
};

}  // namespace freshet::recommend
