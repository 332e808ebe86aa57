#include "scripts/ctl/evaluate/offline_metrics.h"

#include <algorithm>

#include "core/training/learn_rerank.h"
#include "core/training/validation.h"

namespace freshet::ctl {

void RankingScore::add(std::span<const std::uint32_t> top, std::span<const std::uint32_t> relevant) {
  covered_.insert(top.begin(), top.end());
  ndcg_ += training::ndcg(top, relevant);
  recall_ += training::recall(top, relevant);
  ++count_;
}

double RankingScore::coverage(std::size_t items) const {
  return static_cast<double>(covered_.size()) / static_cast<double>(std::max<std::size_t>(1, items));
}

std::vector<EvaluationCase> evaluation_cases(const training::EventReplay& replay, UnixSeconds until) {
  std::vector<EvaluationCase> out;
  for (auto& [reader, relevant] : training::first_touches(replay, until)) {
    out.push_back({reader, relevant});
    std::sort(out.back().relevant.begin(), out.back().relevant.end());
  }
  return out;
}

IndexedCatalogue::IndexedCatalogue(std::shared_ptr<const model::Model> model,
                                   const training::EventReplay& replay, std::vector<recommend::LiveItem> live)
    : catalogue(std::move(model), std::move(live)),
      to_catalogue(training::catalogue_indexes(catalogue, replay.known())),
      to_data(catalogue.size(), training::kNotInCatalogue) {
  for (std::uint32_t item = 0; item < to_catalogue.size(); ++item) {
    if (to_catalogue[item] != training::kNotInCatalogue) to_data[to_catalogue[item]] = item;
  }
}

std::vector<std::uint32_t> top_items(const EvaluationCase& reader_case, const training::EventReplay& replay,
                                     const IndexedCatalogue& catalogue, recommend::Ranker& ranking,
                                     std::size_t max_events, bool all) {
  std::vector<recommend::ProfileEvent> profile;
  const auto events = replay.events_of(reader_case.reader);
  for (std::size_t i = events.size(); i-- > 0 && profile.size() < max_events;) {
    const std::uint32_t item = catalogue.to_catalogue[events[i].item];
    if (item != training::kNotInCatalogue) profile.push_back({item, events[i].kind, events[i].at});
  }
  std::vector<std::uint32_t> top;
  for (const recommend::RankedCandidate& each :
       ranking.rank(catalogue.catalogue, profile, replay.known().now, all)) {
    const std::uint32_t item = catalogue.to_data[each.item];
    if (item == training::kNotInCatalogue || !replay.exists(item) ||
        replay.has_touched(reader_case.reader, item))
      continue;
    top.push_back(item);
    if (top.size() == training::kListLength) break;
  }
  return top;
}

}  // namespace freshet::ctl
