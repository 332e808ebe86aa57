#include "core/recommend/suggestions.h"

#include <algorithm>

#include "core/model/content.h"

namespace freshet::recommend {

// Events of one item speak together; the first is the newest.
std::vector<Suggestions::Voice> Suggestions::voices() const {
  std::vector<std::uint64_t> order(profile_.size());  // item, then place
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = std::uint64_t{profile_[i].item} << 32U | i;
  std::sort(order.begin(), order.end());
  std::vector<Voice> by_place(profile_.size());
  Voice* voice = nullptr;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint64_t place = order[i] & 0xFFFFFFFF;
    const ProfileEvent& each = profile_[place];
    if (i == 0 || order[i] >> 32U != order[i - 1] >> 32U) voice = &(by_place[place] = {&each, 0});
    voice->weight += weight(each);
    // The strongest kind is what the reader would remember.
    if (each.kind > voice->event->kind) voice->event = &each;
  }
  std::erase_if(by_place, [](const Voice& each) { return each.event == nullptr; });
  return by_place;
}

std::vector<std::optional<Because>> Suggestions::because(std::span<const std::uint32_t> items) const {
  struct Best {
    double total = 0, most = 0;
    const ProfileEvent* event = nullptr;
  };
  std::vector<Best> best(items.size());
  const model::Few wanted(items);
  std::vector<double> shares(items.size());
  const std::vector<Voice> all = voices();
  for (const Voice& each : all) fetch_place(*each.event);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Voice& voice = all[i];
    if (i + 1 < all.size()) fetch(*all[i + 1].event);
    std::fill(shares.begin(), shares.end(), 0.0);
    add_relations(*voice.event, wanted, shares);
    for (std::size_t j = 0; j < items.size(); ++j) {
      const double share = voice.weight * shares[j];
      if (share <= 0 || voice.event->item == items[j]) continue;
      best[j].total += share;
      if (share > best[j].most) {
        best[j].most = share;
        best[j].event = voice.event;
      }
    }
  }
  std::vector<std::optional<Because>> out(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (best[i].total <= 0) continue;
    const ProfileEvent& event = *best[i].event;
    out[i] = Because{ItemId::trusted(std::string(catalogue_->id(event.item))), event.kind,
                     best[i].most / best[i].total};
  }
  return out;
}

double Suggestions::weight(const ProfileEvent& event) const {
  return readers::interaction_weight(weights_, event.kind) * readers::recency_weight(event.at, now_, half_life_);
}

template <class Each>
void Suggestions::each_part(const ProfileEvent& event, const Each& each) const {
  const model::Model* model = catalogue_->model();
  if (model == nullptr || event.item >= catalogue_->model_items()) return;
  const model::Mix mix = model->mix();
  for (const model::Part part : {model::Part::kCf, model::Part::kContent, model::Part::kBorrowed}) {
    const double scale = mix.part[static_cast<std::size_t>(part)];
    if (scale != 0) each(*model, part, scale);
  }
}

void Suggestions::fetch_place(const ProfileEvent& event) const {
  each_part(event, [&](const model::Model& model, model::Part part, double) {
    model.fetch_place(part, event.item);
  });
}

void Suggestions::fetch(const ProfileEvent& event) const {
  each_part(event,
            [&](const model::Model& model, model::Part part, double) { model.fetch(part, event.item); });
}

void Suggestions::add_relations(const ProfileEvent& event, const model::Few& wanted,
                                std::span<double> shares) const {
  const model::Model* model = catalogue_->model();
  if (model == nullptr) return;
  each_part(event, [&](const model::Model& of, model::Part part, double scale) {
    of.relate(part, event.item, scale, wanted, shares);
  });
  // What one of the two being newer than the model leaves: their content.
  const double content = model->mix().part[static_cast<std::size_t>(model::Part::kContent)];
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const std::uint32_t item = wanted.items()[i];
    if (std::max(item, event.item) < catalogue_->model_items()) continue;
    shares[i] += content * model::dot(catalogue_->terms(event.item), catalogue_->terms(item));
  }
}

}  // namespace freshet::recommend
