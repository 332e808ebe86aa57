#include "core/training/learn_rerank.h"

#include <algorithm>
#include <map>

#include "core/training/event_replay.h"
#include "core/training/ranking/compare_rankings.h"
#include "core/training/rerank_dataset.h"

namespace freshet::training {
namespace {

// Chooses the training days, ascending: evenly spread over the last complete days.
std::vector<UnixSeconds> training_days(const TrainingData& data, const EventReplay& replay,
                                       const RerankDatasetSettings& settings) {
  const double events = std::max(1.0, static_cast<double>(data.events.size()));
  const int max_days = std::clamp(static_cast<int>(settings.max_events / events), 7, settings.days);
  const UnixSeconds end = std::min(start_of_day(data.now), replay.last_day() + kOneDay);
  const auto span =
      static_cast<int>(std::min<std::int64_t>((end - replay.first_day()) / kOneDay, settings.window_days));
  std::vector<UnixSeconds> days;
  const int count = std::min(max_days, span);
  for (int i = count; i > 0; --i) days.push_back(end - kOneDay * (1 + (i - 1) * span / count));
  return days;
}

// Adds the examples of the moment replay.known().now.
void add_examples_at(RerankDataset& dataset, const EventReplay& replay, const recommend::Catalogue& catalogue,
                     UnixSeconds until, std::size_t limit) {
  const auto index = catalogue_indexes(catalogue, replay.known());
  const auto readers = first_touches(replay, until);
  const std::size_t stride = std::max<std::size_t>(1, (readers.size() + limit - 1) / limit);
  std::size_t number = 0;
  for (const auto& [reader, items] : readers) {
    if (number++ % stride != 0) continue;
    std::vector<recommend::ProfileEvent> profile;
    std::vector<std::uint32_t> touched, positives;
    for (const TrainingEvent& each : replay.events_of(reader)) {
      if (index[each.item] == kNotInCatalogue) continue;
      profile.push_back({index[each.item], each.kind, each.at});
      touched.push_back(index[each.item]);
    }
    if (profile.empty()) continue;
    std::reverse(profile.begin(), profile.end());
    std::sort(touched.begin(), touched.end());
    for (const std::uint32_t item : items) {
      if (index[item] != kNotInCatalogue) positives.push_back(index[item]);
    }
    dataset.add(catalogue, {profile, touched, positives, replay.known().now, number});
  }
}

}  // namespace

std::map<std::uint32_t, std::vector<std::uint32_t>> first_touches(const EventReplay& replay,
                                                                  UnixSeconds until) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> out;
  for (const TrainingEvent& each : replay.upcoming(until)) {
    if (!replay.exists(each.item) || replay.has_touched(each.reader, each.item)) continue;
    if (replay.events_of(each.reader).empty()) continue;
    auto& touched = out[each.reader];
    if (std::find(touched.begin(), touched.end(), each.item) == touched.end()) touched.push_back(each.item);
  }
  return out;
}

std::vector<std::uint32_t> catalogue_indexes(const recommend::Catalogue& catalogue,
                                             const TrainingData& data) {
  std::vector<std::uint32_t> out;
  out.reserve(data.items.size());
  for (const TrainingItem& each : data.items)
    out.push_back(catalogue.find(each.id).value_or(kNotInCatalogue));
  return out;
}

void add_examples(RerankDataset& dataset, EventReplay& replay,
                  const std::shared_ptr<const model::Model>& model, const RerankDatasetSettings& settings,
                  std::size_t limit) {
  const UnixSeconds day = replay.known().now, end = day + kOneDay;
  const auto moments = static_cast<std::size_t>(std::max<std::int64_t>(1, kOneDay / settings.interval));
  dataset.begin_day(day);
  for (UnixSeconds at = day; at < end; at += settings.interval) {
    replay.advance_to(at);
    const UnixSeconds until = at == day ? end : std::min(end, at + settings.interval);
    const recommend::Catalogue catalogue(
        model, replay.live_items(settings.trend_items, settings.trending_items, settings.newest_items));
    add_examples_at(dataset, replay, catalogue, until, 1 + limit / moments);
  }
}

LearnedRanking learn_ranking(const TrainingData& data, const recommend::RankingSettings& ranking,
                             const RelationTrainer& train_relations_of,
                             const RerankDatasetSettings& settings) {
  if (data.events.empty()) return {};
  EventReplay replay(data), comparison_replay(data);
  RerankDataset dataset(ranking);
  RankingComparison comparison(ranking);
  const auto days = training_days(data, replay, settings);
  const std::size_t fifth = std::max<std::size_t>(1, days.size() / 5);
  const std::size_t held_out = std::min(days.size(), 3 * fifth);
  std::vector<float> earlier;  // the re-ranker of the days before the current fifth
  for (std::size_t i = 0; i < days.size(); ++i) {
    const bool is_held_out = i + held_out >= days.size();
    if (is_held_out && (days.size() - i) % fifth == 0) earlier = dataset.learn();
    replay.advance_to(days[i]);
    const auto model = train_relations_of(replay.known(), earlier);
    if (!model) continue;
    if (is_held_out) {
      comparison_replay.advance_to(days[i]);
      comparison.add_day(comparison_replay, model, settings, settings.max_cases / held_out);
    }
    add_examples(dataset, replay, model, settings, settings.max_examples / days.size());
  }
  LearnedRanking out{comparison.choose(), {}};
  const bool is_chosen = out.choice.ranking.method == model::RankingMethod::kReranker;
  if (ranking.rerank.value_or(is_chosen)) out.reranker = dataset.learn();
  return out;
}

}  // namespace freshet::training
