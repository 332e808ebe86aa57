// Quality of recommendations on news clicks: how well a reader's page predicts what they read next.
//
// Days: UTC days 4 (from noon), 5 and 6 of the set; the first is day 0. Before each day a model is
// trained on all clicks until midnight, as `freshetctl train` does at night, with default settings,
// written and mapped. The re-ranker and what else training chooses come from those earlier clicks.
// Readers: of each day, 2,500 of the readers who come back, the first ones by a hash of their
// number.
// A reader comes back if they click on that day, have clicked before it or earlier on it, and have
// at least one relevant article.
// Moment: the reader's first click of the day. Known are all clicks of all readers before that
// second: the reader's profile, the live items as training simulates them (those that trend most,
// and the newest) and their counts. An article is published at its first click.
// Relevant: the articles published by the moment that the reader clicks in the 24 hours from it,
// for the first time.
// Metric: NDCG@20 (binary) and recall@20 of the best 20 without articles that the reader has
// clicked, before caps per author and tag. Means are over (reader, day).
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "core/training/learn_rerank.h"
#include "core/training/train.h"
#include "core/tuning/scratch_folder.h"
#include "scripts/ctl/evaluate/offline_metrics.h"
#include "tests/bench/public_data/data.h"
#include "tests/bench/public_data/reads.h"
#include "tests/bench/public_data/sets.h"

namespace freshet::bench {
namespace {

using ctl::EvaluationCase;
using ctl::IndexedCatalogue;
using ctl::RankingScore;
using recommend::RankingSettings;
using training::EventReplay;
using training::kOneDay;

constexpr std::size_t kReadersPerDay = 2500;

training::TrainingData to_training_data(const Reads& clicks) {
  training::TrainingData data;
  for (std::uint32_t item = 0; item < clicks.published.size(); ++item)
    data.items.push_back({padded_id(item), {}, {}, {}, {}, {}, false});
  for (const Read& each : clicks.reads)
    data.events.push_back(
        {each.reader, each.item, readers::Interaction::kView, UnixSeconds(seconds(each.at))});
  data.now = data.events.back().at + seconds{1};
  return data;
}

struct Strategy {
  std::string name;
  recommend::Ranker ranker;
  RankingScore score = {};
};

struct Moment {
  UnixSeconds at;
  EvaluationCase reader_case;
};

// The cases of the day, by time.
std::vector<Moment> moments_of_day(const std::vector<std::vector<Read>>& by_reader,
                                   std::span<const std::optional<UnixSeconds>> published, UnixSeconds from,
                                   UnixSeconds until) {
  const auto is_earlier = [](const Read& read, std::int64_t at) { return read.at < at; };
  std::vector<Moment> out;
  for (std::uint32_t reader = 0; reader < by_reader.size(); ++reader) {
    const std::vector<Read>& reads = by_reader[reader];
    const auto first = std::lower_bound(reads.begin(), reads.end(), unix_s(from), is_earlier);
    if (first == reads.begin() || first == reads.end() || first->at >= unix_s(until)) continue;
    const UnixSeconds at{seconds{first->at}};
    std::unordered_set<std::uint32_t> seen;
    for (auto read = reads.begin(); read != first; ++read) seen.insert(read->item);
    std::vector<std::uint32_t> relevant;
    for (auto read = first; read != reads.end() && read->at < unix_s(at + kOneDay); ++read) {
      if (*published[read->item] < at && seen.insert(read->item).second) relevant.push_back(read->item);
    }
    if (relevant.empty()) continue;
    std::sort(relevant.begin(), relevant.end());
    out.push_back({at, {reader, std::move(relevant)}});
  }
  std::ranges::sort(out, {}, [](const Moment& each) { return reader_hash(each.reader_case.reader); });
  if (out.size() > kReadersPerDay) out.erase(out.begin() + kReadersPerDay, out.end());
  std::ranges::stable_sort(out, {}, &Moment::at);
  return out;
}

}  // namespace

Result<EvaluationReport> evaluate_news_recommendations(const std::string& directory,
                                                       const Progress& progress) {
  progress("reading", 0);
  FRESHET_TRY(clicks, read_clicks(std::filesystem::path(directory) / "clicks.csv"));
  const training::TrainingData data = to_training_data(*clicks);
  std::vector<std::vector<Read>> by_reader;
  for (const Read& each : clicks->reads) {
    if (each.reader >= by_reader.size()) by_reader.resize(each.reader + 1);
    by_reader[each.reader].push_back(each);
  }
  RankingSettings without_discoveries;
  without_discoveries.discover_every = 0;
  std::vector<Strategy> strategies;
  strategies.push_back({"served", recommend::Ranker(RankingSettings())});
  strategies.push_back({"served, without discoveries", recommend::Ranker(without_discoveries)});
  strategies.push_back({"trend x (1 + 2 x affinity)", recommend::Ranker(trend_by_views(2))});
  strategies.push_back({"trend x (1 + 0.5 x affinity)", recommend::Ranker(trend_by_views(0.5))});
  strategies.push_back({"trend alone: (1 + points) / (hours + 2)^1.5", recommend::Ranker(trend_by_views(0))});
  for (const seconds half_life : kTrendingHalfLives) {
    RankingSettings settings = trend_by_views(0);
    settings.trend_half_life = half_life;
    strategies.push_back(
        {fmt::format("views halved every {} min", half_life.count() / 60), recommend::Ranker(settings)});
  }
  RankingSettings reranked;
  reranked.rerank = true;
  reranked.discover_every = 0;
  strategies.push_back({"re-ranker, without discoveries", recommend::Ranker(reranked)});
  EventReplay replay(data);
  const tuning::ScratchFolder folder(std::filesystem::temp_directory_path());
  const UnixSeconds first_day = replay.first_day();
  EvaluationReport report(
      "news-clicks: recommendations at a reader's first click of the day, days 4 (from noon), 5 and 6");
  constexpr int kFirst = 4, kLast = 6;
  const training::RerankDatasetSettings defaults;
  std::size_t cases = 0;
  for (int day = kFirst; day <= kLast; ++day) {
    const UnixSeconds midnight = first_day + day * kOneDay;
    replay.advance_to(midnight);
    RankingSettings ranking;
    ranking.rerank = true;  // train it even if it is not chosen
    FRESHET_TRY(trained, training::train(replay.known(), {}, progress, ranking));
    const auto file = folder.path() / "model";
    if (auto ok = training::write_model(*trained, file); !ok) return tl::unexpected(ok.error());
    FRESHET_TRY(model, model::Model::open(file));
    report.note(fmt::format("day {}: {}; {}; {} readers compared", day, trained->algorithm, trained->report,
                            trained->ranking_choice.cases));
    for (const training::ComparedRanking& each : trained->ranking_choice.compared)
      report.note(fmt::format("  {:.4f} {}{}", each.ndcg, ranking_name(each.ranking),
                              each.is_chosen ? " (served)" : ""));
    const auto moments = moments_of_day(
        by_reader, clicks->published, day == kFirst ? midnight + kOneDay / 2 : midnight, midnight + kOneDay);
    cases += moments.size();
    for (std::size_t i = 0; i < moments.size(); ++i) {
      progress("ranking", static_cast<double>(i) / static_cast<double>(moments.size()));
      replay.advance_to(moments[i].at);
      const IndexedCatalogue catalogue(
          *model, replay,
          replay.live_items(defaults.trend_items, defaults.trending_items, defaults.newest_items));
      for (Strategy& each : strategies) {
        const EvaluationCase& reader_case = moments[i].reader_case;
        each.score.add(top_items(reader_case, replay, catalogue, each.ranker,
                                 each.ranker.settings().max_profile_events, false),
                       reader_case.relevant);
      }
    }
  }
  for (const Strategy& each : strategies) {
    const bool is_served = &each == &strategies.front();
    const auto goal = [&](double value) { return is_served ? std::optional(value) : std::nullopt; };
    const std::string id = is_served ? "news" : "";
    report.add({id, "ndcg@20 " + each.name, each.score.ndcg(), "", goal(.395), goal(.42)});
    report.add({id, "recall@20 " + each.name, each.score.recall(), "", goal(.595), goal(.62)});
  }
  report.note(fmt::format("{} cases", cases));
  return report;
}

}  // namespace freshet::bench
