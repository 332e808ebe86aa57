#include "core/recommend/suggestions.h"

#include <algorithm>
#include <unordered_map>

#include "core/model/content.h"

namespace freshet::recommend {

std::vector<std::optional<Because>> Suggestions::because(std::span<const std::uint32_t> items) const {
  struct Best {
    double total = 0, most = 0;
    std::uint32_t item = 0;
  };
  std::vector<Best> best(items.size());
  // Events of one item speak together; the first is the newest.
  std::vector<std::pair<const ProfileEvent*, double>> voices;
  std::unordered_map<std::uint32_t, std::size_t> voice_of;
  for (const ProfileEvent& each : profile_) {
    const auto [at, added] = voice_of.emplace(each.item, voices.size());
    if (added) voices.emplace_back(&each, 0.0);
    auto& voice = voices[at->second];
    voice.second += weight(each);
    // The strongest kind is what the reader would remember.
    if (each.kind > voice.first->kind) voice.first = &each;
  }
  const model::Few wanted(items);
  std::vector<double> shares(items.size());
  for (const auto& [event, speaks] : voices) {
    std::fill(shares.begin(), shares.end(), 0.0);
    add_relations(*event, wanted, shares);
    for (std::size_t i = 0; i < items.size(); ++i) {
      const double share = speaks * shares[i];
      if (share <= 0 || event->item == items[i]) continue;
      best[i].total += share;
      if (share > best[i].most) {
        best[i].most = share;
        best[i].item = event->item;
      }
    }
  }
  std::vector<std::optional<Because>> out(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (best[i].total <= 0) continue;
    const ProfileEvent& event = *voices[voice_of.at(best[i].item)].first;
    out[i] = Because{ItemId::trusted(std::string(catalogue_->id(best[i].item))), event.kind,
                     best[i].most / best[i].total};
  }
  return out;
}

double Suggestions::weight(const ProfileEvent& event) const {
  return readers::interaction_weight(weights_, event.kind) * readers::recency(event.at, now_, half_life_);
}

void Suggestions::add_relations(const ProfileEvent& event, const model::Few& wanted,
                                std::span<double> shares) const {
  const model::Model* model = catalogue_->model();
  if (model == nullptr) return;
  const model::Mix mix = model->mix();
  if (event.item < catalogue_->model_items()) {
    for (const model::Part part : {model::Part::kCf, model::Part::kContent, model::Part::kBorrowed}) {
      const double scale = mix.part[static_cast<std::size_t>(part)];
      if (scale != 0) model->relate(part, event.item, scale, wanted, shares);
    }
  }
  // What one of the two being newer than the model leaves: their content.
  const double content = mix.part[static_cast<std::size_t>(model::Part::kContent)];
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const std::uint32_t item = wanted.items()[i];
    if (std::max(item, event.item) < catalogue_->model_items()) continue;
    shares[i] += content * model::dot(catalogue_->terms(event.item), catalogue_->terms(item));
  }
}

}  // namespace freshet::recommend
