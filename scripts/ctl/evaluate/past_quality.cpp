#include "scripts/ctl/evaluate/past_quality.h"

#include <algorithm>

#include "core/training/learn_rerank.h"
#include "core/training/validation.h"

namespace freshet::ctl {

void Score::add(std::span<const std::uint32_t> top, std::span<const std::uint32_t> taken) {
  shown_.insert(top.begin(), top.end());
  ndcg_ += training::ndcg(top, taken);
  recall_ += training::recall(top, taken);
  ++count_;
}

double Score::coverage(std::size_t items) const {
  return static_cast<double>(shown_.size()) / static_cast<double>(std::max<std::size_t>(1, items));
}

std::vector<Moment> moments_of(const training::EventReplay& past, UnixSeconds until) {
  std::vector<Moment> out;
  for (auto& [reader, taken] : training::first_touches(past, until)) {
    out.push_back({reader, taken});
    std::sort(out.back().taken.begin(), out.back().taken.end());
  }
  return out;
}

Shelf::Shelf(std::shared_ptr<const model::Model> model, const training::EventReplay& past,
             std::vector<recommend::LiveItem> live)
    : catalogue(std::move(model), std::move(live)),
      index(training::catalogue_indexes(catalogue, past.known())),
      back(catalogue.size(), training::kNotInCatalogue) {
  for (std::uint32_t item = 0; item < index.size(); ++item) {
    if (index[item] != training::kNotInCatalogue) back[index[item]] = item;
  }
}

std::vector<std::uint32_t> best_for(const Moment& moment, const training::EventReplay& past, const Shelf& shelf,
                                    recommend::Ranker& ranking, std::size_t known, bool all) {
  std::vector<recommend::ProfileEvent> profile;
  const auto events = past.events_of(moment.reader);
  for (std::size_t i = events.size(); i-- > 0 && profile.size() < known;) {
    const std::uint32_t item = shelf.index[events[i].item];
    if (item != training::kNotInCatalogue) profile.push_back({item, events[i].kind, events[i].at});
  }
  std::vector<std::uint32_t> top;
  for (const recommend::RankedCandidate& each : ranking.rank(shelf.catalogue, profile, past.known().now, all)) {
    const std::uint32_t item = shelf.back[each.item];
    if (item == training::kNotInCatalogue || !past.exists(item) || past.has_touched(moment.reader, item)) continue;
    top.push_back(item);
    if (top.size() == training::kListLength) break;
  }
  return top;
}

}  // namespace freshet::ctl
