#include "core/recommend/candidate_set.h"

#include <algorithm>

#include "core/model/content.h"

namespace freshet::recommend {

// Merges the events of each item into one contribution, at the position of the newest.
std::vector<CandidateSet::ProfileContribution> CandidateSet::collect_contributions() const {
  // Item index in the high half, position in the profile in the low half.
  std::vector<std::uint64_t> order(profile_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = std::uint64_t{profile_[i].item} << 32U | i;
  std::sort(order.begin(), order.end());
  std::vector<ProfileContribution> by_position(profile_.size());
  ProfileContribution* contribution = nullptr;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint64_t position = order[i] & 0xFFFFFFFF;
    const ProfileEvent& each = profile_[position];
    if (i == 0 || order[i] >> 32U != order[i - 1] >> 32U)
      contribution = &(by_position[position] = {&each, 0});
    contribution->weight += weight(each);
    // The reader most likely remembers the strongest interaction.
    if (each.kind > contribution->event->kind) contribution->event = &each;
  }
  std::erase_if(by_position, [](const ProfileContribution& each) { return each.event == nullptr; });
  return by_position;
}

std::vector<std::optional<Attribution>> CandidateSet::find_attributions(
    std::span<const std::uint32_t> items) const {
  struct Best {
    double total = 0, max_share = 0;
    const ProfileEvent* event = nullptr;
  };
  std::vector<Best> best(items.size());
  const model::SparseIndexSet targets(items);
  std::vector<double> shares(items.size());
  const std::vector<ProfileContribution> contributions = collect_contributions();
  for (const ProfileContribution& each : contributions) prefetch_row_bounds(*each.event);
  for (std::size_t i = 0; i < contributions.size(); ++i) {
    const ProfileContribution& contribution = contributions[i];
    if (i + 1 < contributions.size()) prefetch_row(*contributions[i + 1].event);
    std::fill(shares.begin(), shares.end(), 0.0);
    add_affinities(*contribution.event, targets, shares);
    for (std::size_t j = 0; j < items.size(); ++j) {
      const double share = contribution.weight * shares[j];
      if (share <= 0 || contribution.event->item == items[j]) continue;
      best[j].total += share;
      if (share > best[j].max_share) {
        best[j].max_share = share;
        best[j].event = contribution.event;
      }
    }
  }
  std::vector<std::optional<Attribution>> out(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (best[i].total <= 0) continue;
    const ProfileEvent& event = *best[i].event;
    out[i] = Attribution{ItemId::trusted(std::string(catalogue_->id(event.item))), event.kind,
                         best[i].max_share / best[i].total};
  }
  return out;
}

double CandidateSet::weight(const ProfileEvent& event) const {
  return readers::interaction_weight(weights_, event.kind) *
         readers::recency_weight(event.at, now_, half_life_);
}

template <class Each>
void CandidateSet::for_each_relation(const ProfileEvent& event, const Each& visit) const {
  const model::Model* model = catalogue_->model();
  if (model == nullptr || event.item >= catalogue_->model_items()) return;
  const model::BlendWeights blend = model->blend_weights();
  for (const model::Relation relation :
       {model::Relation::kCf, model::Relation::kContent, model::Relation::kColdStart}) {
    const double scale = blend.by_relation[static_cast<std::size_t>(relation)];
    if (scale != 0) visit(*model, relation, scale);
  }
}

void CandidateSet::prefetch_row_bounds(const ProfileEvent& event) const {
  for_each_relation(event, [&](const model::Model& model, model::Relation relation, double) {
    model.prefetch_row_bounds(relation, event.item);
  });
}

void CandidateSet::prefetch_row(const ProfileEvent& event) const {
  for_each_relation(event, [&](const model::Model& model, model::Relation relation, double) {
    model.prefetch(relation, event.item);
  });
}

void CandidateSet::add_affinities(const ProfileEvent& event, const model::SparseIndexSet& targets,
                                  std::span<double> shares) const {
  const model::Model* model = catalogue_->model();
  if (model == nullptr) return;
  for_each_relation(event, [&](const model::Model& source, model::Relation relation, double scale) {
    source.accumulate_selected(relation, event.item, scale, targets, shares);
  });
  // If either item is newer than the model, only their contents can be compared.
  const double content =
      model->blend_weights().by_relation[static_cast<std::size_t>(model::Relation::kContent)];
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const std::uint32_t item = targets.items()[i];
    if (std::max(item, event.item) < catalogue_->model_items()) continue;
    shares[i] += content * model::dot(catalogue_->terms(event.item), catalogue_->terms(item));
  }
}

}  // namespace freshet::recommend
