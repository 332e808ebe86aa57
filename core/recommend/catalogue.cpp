#include "core/recommend/catalogue.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "core/base/ids.h"
#include "core/readers/interaction.h"

namespace freshet::recommend {
namespace {

constexpr seconds kRecentHalfLife{86400};  // must match Model::decayed_count()

std::uint64_t next_generation() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

double finite_or_zero(double count) { return std::isfinite(count) && count > 0 ? count : 0; }

}  // namespace

Catalogue::Catalogue(std::shared_ptr<const model::Model> model, std::vector<LiveItem> live)
    : generation_(next_generation()),
      model_(std::move(model)),
      model_items_(model_ ? model_->items() : 0),
      live_(std::move(live)) {
  std::vector<double> ratios;
  is_live_.resize(model_items_);
  for (std::uint32_t position = 0; position < live_.size(); ++position) {
    const LiveItem& each = live_[position];
    const std::uint32_t index = model_ ? model_->find(each.id).value_or(size()) : size();
    const bool is_new = index == size();
    const bool added = is_new ? new_by_id_.emplace(each.id, index).second : !is_live_[index];
    if (!added) continue;
    live_items_.push_back(index);
    live_positions_.emplace(index, position);
    if (!is_new) is_live_[index] = true;
    if (is_new) {
      new_positions_.push_back(position);
    } else if (finite_or_zero(each.points) > 0 && finite_or_zero(model_->count(index)) > 0) {
      ratios.push_back(finite_or_zero(each.points) / finite_or_zero(model_->count(index)));
    }
  }
  if (ratios.empty()) return;
  const auto median = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), median, ratios.end());
  points_per_event_ = *median;
}

const LiveItem* Catalogue::find_live(std::uint32_t item) const {
  if (item >= model_items_) return &live_[new_positions_[item - model_items_]];
  return is_live_[item] ? &live_[live_positions_.at(item)] : nullptr;
}

std::optional<std::uint32_t> Catalogue::find(std::string_view id) const {
  if (model_) {
    if (const auto item = model_->find(id)) return item;
  }
  const auto at = new_by_id_.find(id);
  return at == new_by_id_.end() ? std::nullopt : std::optional(at->second);
}

void Catalogue::find_all(std::span<const std::string_view> ids, std::span<std::uint32_t> out) const {
  std::fill(out.begin(), out.end(), model::kNoIndex);
  if (model_) model_->find_all(ids, out);
  if (new_by_id_.empty()) return;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (out[i] != model::kNoIndex) continue;
    if (const auto at = new_by_id_.find(ids[i]); at != new_by_id_.end()) out[i] = at->second;
  }
}

std::string_view Catalogue::id(std::uint32_t item) const {
  return item < model_items_ ? model_->id(item) : std::string_view(find_live(item)->id);
}

ItemMetadata Catalogue::metadata(std::uint32_t item) const {
  ItemMetadata out;
  metadata(item, out);
  return out;
}

void Catalogue::metadata(std::uint32_t item, ItemMetadata& out) const {
  if (const LiveItem* const live = find_live(item)) {
    out.title = live->title;
    out.author = live->author;
    out.author_id = live->author_id;
    out.tags.assign(live->tags.begin(), live->tags.end());
    out.published = live->published;
    return;
  }
  out.title = model_->title(item);
  const std::string_view author = model_->author(item);
  const std::size_t name_bytes = std::min(author.find(kIdSeparator), author.size());
  out.author = author.substr(0, name_bytes);
  out.author_id = author.substr(std::min(name_bytes + 1, author.size()));
  model_->tags(item, out.tags);
  out.published = model_->published(item);
}

UnixSeconds Catalogue::published(std::uint32_t item) const {
  const LiveItem* const live = find_live(item);
  return live ? live->published : model_->published(item);
}

double Catalogue::points(std::uint32_t item) const {
  const LiveItem* const live = find_live(item);
  return finite_or_zero(live ? live->points : static_cast<double>(model_->count(item)));
}

std::optional<Exposure> Catalogue::exposure(std::uint32_t item) const {
  const LiveItem* const live = find_live(item);
  return live ? std::optional(live->exposure) : std::nullopt;
}

double Catalogue::recent_events(std::uint32_t item, double decay) const {
  if (item >= model_items_) return points(item) / points_per_event_;
  return finite_or_zero(model_->decayed_count(item)) * decay;
}

Catalogue::DecayedViews Catalogue::decayed_views(std::uint32_t item, UnixSeconds now, double decay) const {
  constexpr double kMaxViews = 1e15;
  DecayedViews out{};
  const LiveItem* const live = find_live(item);
  const hot::TrendSums sums = !live         ? hot::no_trend()
                              : live->trend ? *live->trend
                                            : hot::trend_of_view(std::min(now, live->published));
  const double recent = live ? 0 : recent_events(item, decay);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const seconds half_life = kTrendingHalfLives[i];
    const double views = live ? hot::score_at(sums[i], now, half_life)
                              : recent * std::min(1.0, hot::half_lives(half_life, kRecentHalfLife));
    out[i] = static_cast<float>(std::min(kMaxViews, std::isnan(views) ? 0 : views));
  }
  return out;
}

double Catalogue::recent_decay(UnixSeconds now) const {
  return model_ ? readers::recency_weight(model_->trained_at(), now, kRecentHalfLife) : 1;
}

std::span<const model::TermWeight> Catalogue::terms(std::uint32_t item) const {
  return item < model_items_ ? model_->terms(item)
                             : std::span<const model::TermWeight>(find_live(item)->terms);
}

}  // namespace freshet::recommend
