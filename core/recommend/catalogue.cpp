#include "core/recommend/catalogue.h"

#include <algorithm>
#include <cmath>

#include "core/readers/interaction.h"

namespace freshet::recommend {
namespace {

constexpr seconds kRecentHalfLife{86400};  // of Model::decayed_count()

double sane(double count) { return std::isfinite(count) && count > 0 ? count : 0; }

}  // namespace

Catalogue::Catalogue(std::shared_ptr<const model::Model> model, std::vector<LiveItem> live)
    : model_(std::move(model)), model_items_(model_ ? model_->items() : 0), live_(std::move(live)) {
  std::vector<double> ratios;
  for (std::uint32_t position = 0; position < live_.size(); ++position) {
    const LiveItem& each = live_[position];
    const std::uint32_t index = model_ ? model_->find(each.id).value_or(size()) : size();
    if (!by_id_.emplace(each.id, index).second) continue;
    live_index_.push_back(index);
    live_of_.emplace(index, position);
    if (index == size()) {
      new_.push_back(position);
    } else if (sane(each.points) > 0 && sane(model_->count(index)) > 0) {
      ratios.push_back(sane(each.points) / sane(model_->count(index)));
    }
  }
  if (ratios.empty()) return;
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  points_per_event_ = *middle;
}

const LiveItem* Catalogue::live_of(std::uint32_t item) const {
  if (item >= model_items_) return &live_[new_[item - model_items_]];
  const auto at = live_of_.find(item);
  return at == live_of_.end() ? nullptr : &live_[at->second];
}

std::optional<std::uint32_t> Catalogue::find(std::string_view id) const {
  if (const auto at = by_id_.find(id); at != by_id_.end()) return at->second;
  return model_ ? model_->find(id) : std::nullopt;
}

std::string_view Catalogue::id(std::uint32_t item) const {
  return item < model_items_ ? model_->id(item) : std::string_view(live_of(item)->id);
}

std::string_view Catalogue::title(std::uint32_t item) const {
  const LiveItem* const live = live_of(item);
  return live ? std::string_view(live->title) : model_->title(item);
}

std::string_view Catalogue::author(std::uint32_t item) const {
  const LiveItem* const live = live_of(item);
  return live ? std::string_view(live->author) : model_->author(item);
}

std::vector<std::string_view> Catalogue::tags(std::uint32_t item) const {
  const LiveItem* const live = live_of(item);
  return live ? std::vector<std::string_view>(live->tags.begin(), live->tags.end()) : model_->tags(item);
}

UnixSeconds Catalogue::published(std::uint32_t item) const {
  const LiveItem* const live = live_of(item);
  return live ? live->published : model_->published(item);
}

double Catalogue::points(std::uint32_t item) const {
  const LiveItem* const live = live_of(item);
  return sane(live ? live->points : static_cast<double>(model_->count(item)));
}

double Catalogue::recent(std::uint32_t item, double decay) const {
  if (item >= model_items_) return points(item) / points_per_event_;
  return sane(model_->decayed_count(item)) * decay;
}

double Catalogue::recent_decay(UnixSeconds now) const {
  return model_ ? readers::recency(model_->trained_at(), now, kRecentHalfLife) : 1;
}

std::span<const model::TermWeight> Catalogue::terms(std::uint32_t item) const {
  return item < model_items_ ? model_->terms(item) : std::span<const model::TermWeight>(live_of(item)->terms);
}

}  // namespace freshet::recommend
