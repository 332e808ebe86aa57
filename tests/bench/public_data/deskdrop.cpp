// Daily prequential evaluation on Deskdrop (articles of CI&T with real readers), for the last 141
// of its 352 days (UTC). Before each day a model is trained on all earlier events. At midnight all
// articles that existed by then are ranked for each reader, without those that the reader has
// touched. Articles of the ranking that the reader touches for the first time on that day are
// relevant (binary). Only readers with earlier events and at least one relevant article count.
// Means are over (reader, day).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <unordered_map>

#include "core/training/learn_rerank.h"
#include "core/training/ranking/compare_rankings.h"
#include "core/training/train.h"
#include "core/training/validation.h"
#include "core/tuning/scratch_folder.h"
#include "scripts/ctl/evaluate/offline_metrics.h"
#include "scripts/ctl/replay/csv.h"
#include "tests/bench/public_data/data.h"
#include "tests/bench/public_data/sets.h"

namespace freshet::bench {
namespace {

using ctl::EvaluationCase;
using ctl::IndexedCatalogue;
using ctl::RankingScore;
using recommend::Ranker;
using recommend::RankingSettings;
using training::EventReplay;

constexpr int kTestDays = 141;
constexpr int kExampleDays = 84;                 // as RerankDatasetSettings::window_days
constexpr int kRelearnDays = 7;                  // interval of training the re-ranker
constexpr std::size_t kMaxExamplesPerDay = 107;  // as RerankDatasetSettings: 3,000 over 28 days
constexpr int kComparedDays = 51;                // three fifths of the days, as in training
constexpr std::size_t kMaxCasesPerDay = 71;      // as RerankDatasetSettings: 1,200 over 17 days

constexpr std::size_t kMinuteStride = 3;  // every third first touch is used for Q9
constexpr std::size_t kCurveStride = 4;   // every fourth case is used for the learning curve

struct EventKind {
  std::string_view name;
  readers::Interaction kind;
};
constexpr std::array kEventKinds{
    EventKind{"VIEW", readers::Interaction::kView},
    EventKind{"LIKE", readers::Interaction::kLike},
    EventKind{"BOOKMARK", readers::Interaction::kFavorite},
    EventKind{"COMMENT CREATED", readers::Interaction::kReply},
    EventKind{"FOLLOW", readers::Interaction::kShare},
};

// --- data

Result<training::TrainingData> read_events(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(ErrorCode::kNotFound, "no_file", {}, "cannot read " + path.string());
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  ctl::CsvReader csv(text);
  training::TrainingData data;
  std::unordered_map<std::string, std::uint32_t> items, readers;
  std::vector<std::string> fields;
  for (;;) {
    FRESHET_TRY(more, csv.next(fields));
    if (!*more) break;
    if (csv.line() == 1) continue;  // column names
    const auto kind = std::find_if(kEventKinds.begin(), kEventKinds.end(), [&](const EventKind& each) {
      return fields.size() > 3 && each.name == fields[1];
    });
    const auto at = fields.empty() ? 0 : std::strtoll(fields[0].c_str(), nullptr, 10);
    if (kind == kEventKinds.end() || at <= 0 || at > kMaxUnixSeconds) {
      return fail(ErrorCode::kInvalid, "bad_data", {},
                  fmt::format("{}: line {} is not a Deskdrop event", path.string(), csv.line()));
    }
    const auto [item, is_new] = items.emplace(fields[2], static_cast<std::uint32_t>(items.size()));
    if (is_new) data.items.push_back({fields[2], {}, {}, {}, {}, {}, false});
    const auto reader = readers.emplace(fields[3], static_cast<std::uint32_t>(readers.size())).first->second;
    data.events.push_back({reader, item->second, kind->kind, UnixSeconds(seconds(at))});
  }
  if (data.events.empty()) return fail(ErrorCode::kInvalid, "bad_data", {}, path.string() + ": no events");
  for (const auto& each : data.events) data.now = std::max(data.now, each.at + seconds{1});
  return data;
}

// --- measurement

// A ranking strategy to compare.
struct Strategy {
  std::string name;
  RankingSettings settings;
  std::size_t profile = 200;  // number of the reader's newest events to use
};

RankingSettings reranked(bool discoveries) {
  RankingSettings settings;
  settings.rerank = true;
  settings.discover_every = discoveries ? 6 : 0;
  return settings;
}

RankingSettings served() { return {}; }

// Scores of several strategies on the same cases.
class StrategyComparison {
 public:
  explicit StrategyComparison(std::vector<Strategy> strategies)
      : strategies_(std::move(strategies)), scores_(strategies_.size()) {
    for (const Strategy& each : strategies_) rankers_.emplace_back(each.settings);
  }

  void add(const EventReplay& past, const IndexedCatalogue& catalogue, const EvaluationCase& test_case) {
    for (std::size_t i = 0; i < strategies_.size(); ++i) {
      const auto top = ctl::top_items(test_case, past, catalogue, rankers_[i], strategies_[i].profile, true);
      scores_[i].add(top, test_case.relevant);
    }
  }
  const std::vector<Strategy>& strategies() const { return strategies_; }
  const RankingScore& score(std::size_t strategy) const { return scores_[strategy]; }

 private:
  std::vector<Strategy> strategies_;
  std::vector<Ranker> rankers_;
  std::vector<RankingScore> scores_;
};

// A ranking that is the same for all readers: by descending value().
struct GlobalRanking {
  std::string name;
  double (*value)(const EventReplay& past, std::uint32_t item);
  RankingScore score;
};

double hours_old(const EventReplay& past, std::uint32_t item) {
  return static_cast<double>((past.known().now - past.published(item)).count()) / 3600;
}

std::vector<GlobalRanking> global_rankings() {
  return {
      {"newest first",
       [](const EventReplay& past, std::uint32_t item) { return -hours_old(past, item); },
       {}},
      {"popularity", [](const EventReplay& past, std::uint32_t item) { return past.points(item); }, {}},
      {"by engagement: base / 2^days",
       [](const EventReplay& past, std::uint32_t item) {
         return past.points(item) * std::exp2(-hours_old(past, item) / 24);
       },
       {}},
  };
}

void add_global_rankings(std::vector<GlobalRanking>& rankings, const EventReplay& past,
                         std::span<const EvaluationCase> cases) {
  for (GlobalRanking& each : rankings) {
    auto order = past.existing_items();
    std::vector<double> values(past.known().items.size(), 0);
    for (const std::uint32_t item : order) values[item] = each.value(past, item);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return values[a] > values[b]; });
    for (const EvaluationCase& test_case : cases) {
      std::vector<std::uint32_t> top;
      for (std::size_t i = 0; i < order.size() && top.size() < training::kListLength; ++i) {
        if (!past.has_touched(test_case.reader, order[i])) top.push_back(order[i]);
      }
      each.score.add(top, test_case.relevant);
    }
  }
}

// --- days

class Prequential {
 public:
  Prequential(const training::TrainingData& data, const Progress& progress)
      : data_(data),
        past_(data),
        example_past_(data),
        comparison_past_(data),
        progress_(progress),
        examples_(RankingSettings{}),
        comparison_(RankingSettings{}),
        global_rankings_(global_rankings()) {}

  Result<void> run() {
    const UnixSeconds test = past_.last_day() - (kTestDays - 1) * training::kOneDay;
    const UnixSeconds begin =
        std::max(past_.first_day() + training::kOneDay, test - kExampleDays * training::kOneDay);
    for (UnixSeconds day = begin; day <= past_.last_day(); day += training::kOneDay) {
      progress_("daily", static_cast<double>((day - begin).count()) /
                             static_cast<double>((past_.last_day() - begin).count() + 1));
      past_.advance_to(day);
      if (auto ok = run_day(day, day >= test); !ok) return ok;
    }
    return {};
  }

  EvaluationReport report() const;

 private:
  Result<void> run_day(UnixSeconds day, bool test) {
    const auto readers = training::first_touches(past_, day + training::kOneDay);
    // Every third day provides examples for the re-ranker, as in training.
    const bool has_examples = (day.time_since_epoch() / training::kOneDay) % 3 == 0;
    if (readers.empty() || (!test && !has_examples)) return {};
    if (!learned_at_ || day - *learned_at_ >= kRelearnDays * training::kOneDay) {
      examples_.discard_before(day - kExampleDays * training::kOneDay);
      comparison_.discard_before(day - kComparedDays * training::kOneDay);
      reranker_ = examples_.learn();
      ranking_ = comparison_.choose().ranking;
      if (test) ++rankings_[ranking_name(ranking_)];
      learned_at_ = day;
      chosen_.reset();
    }
    const TrainSettings settings;
    FRESHET_TRY(trained, chosen_ ? training::train_with_parameters(past_.known(), settings, *chosen_)
                                 : training::train_relations(past_.known(), settings,
                                                             [](std::string_view, double) {}));
    chosen_ = trained->parameters;
    if (test) ++algorithms_[trained->algorithm];
    trained->reranker = reranker_;
    trained->ranking = ranking_;
    const auto file = folder_.path() / "model";
    if (auto ok = training::write_model(*trained, file); !ok) return ok;
    FRESHET_TRY(model, model::Model::open(file));
    if (has_examples) {
      comparison_past_.advance_to(day);
      comparison_.add_day(comparison_past_, *model, {}, kMaxCasesPerDay);
      example_past_.advance_to(day);
      training::add_examples(examples_, example_past_, *model, {}, kMaxExamplesPerDay);
    }
    if (test) evaluate_at_midnight(*model, day);
    if (test) evaluate_by_minute(*model, day);
    return {};
  }

  // Q9: ranks before each first touch of the day, with the counters and profiles of that moment.
  void evaluate_by_minute(const std::shared_ptr<const model::Model>& model, UnixSeconds day) {
    const auto today = past_.upcoming(day + training::kOneDay);
    for (const training::TrainingEvent& each : today) {
      past_.advance_to(each.at);
      if (!past_.exists(each.item) || past_.has_touched(each.reader, each.item)) continue;
      if (past_.events_of(each.reader).empty() || ++first_touches_ % kMinuteStride != 0) continue;
      by_minute_.add(past_, IndexedCatalogue(model, past_, past_.live_items()), {each.reader, {each.item}});
    }
  }

  void evaluate_at_midnight(const std::shared_ptr<const model::Model>& model, UnixSeconds day) {
    const IndexedCatalogue catalogue(model, past_, past_.live_items());
    const auto cases = ctl::evaluation_cases(past_, day + training::kOneDay);
    add_global_rankings(global_rankings_, past_, cases);
    for (const EvaluationCase& test_case : cases) {
      daily_.add(past_, catalogue, test_case);
      const bool has_history = past_.events_of(test_case.reader).size() >= 10;
      if (has_history && ++curve_candidates_ % kCurveStride == 0) curve_.add(past_, catalogue, test_case);
    }
  }

  const training::TrainingData& data_;
  EventReplay past_, example_past_, comparison_past_;  // the latter two advance within a day
  const Progress& progress_;
  const tuning::ScratchFolder folder_{std::filesystem::temp_directory_path()};
  training::RerankDataset examples_;
  training::RankingComparison comparison_;  // of days that the re-ranker has not learned from
  model::ChosenRanking ranking_;
  std::map<std::string, int> rankings_;  // chosen ranking → number of choices
  std::vector<float> reranker_;
  std::optional<UnixSeconds> learned_at_;
  std::size_t curve_candidates_ = 0, first_touches_ = 0;
  std::optional<training::Parameters> chosen_;  // by validation, again after each training of the re-ranker
  std::map<std::string, int> algorithms_;       // chosen algorithm → number of test days
  std::vector<GlobalRanking> global_rankings_;
  StrategyComparison daily_{{{"by views: (1 + points) / (hours + 2)^1.5", trend_by_views(0)},
                             {"trend x (1 + 2 x affinity)", trend_by_views(2)},
                             {"trend x (1 + 0.5 x affinity)", trend_by_views(0.5)},
                             {"trend x (1 + 0.25 x affinity)", trend_by_views(0.25)},
                             {"re-ranker without discoveries", reranked(false)},
                             {"re-ranker", reranked(true)},
                             {"served", served()}}};
  StrategyComparison by_minute_{{{"by views", trend_by_views(0)},
                                 {"trend x (1 + 2 x affinity)", trend_by_views(2)},
                                 {"trend x (1 + 0.5 x affinity)", trend_by_views(0.5)},
                                 {"served", served()}}};
  StrategyComparison curve_{{{"0", served(), 0},
                             {"1", served(), 1},
                             {"3", served(), 3},
                             {"5", served(), 5},
                             {"10", served(), 10},
                             {"200", served(), 200}}};
};

EvaluationReport Prequential::report() const {
  EvaluationReport report("deskdrop: daily prequential, the last 141 days");
  const std::size_t items = past_.known().items.size();
  const auto add = [&](const std::string& name, const RankingScore& score, bool served) {
    const std::string goal = served ? "Q7" : "";
    Metric ndcg{goal, "ndcg@20 " + name, score.ndcg(), "", {}, {}};
    Metric recall{goal, "recall@20 " + name, score.recall(), "", {}, {}};
    Metric coverage{served ? "Q8" : "", "coverage@20 " + name, score.coverage(items), "", {}, {}};
    if (served) {
      ndcg.must = 0.525, ndcg.stretch = 0.55;
      recall.must = 0.79, recall.stretch = 0.81;
      coverage.must = 0.40, coverage.stretch = 0.70;
    }
    for (const Metric& each : {ndcg, recall, coverage}) report.add(each);
  };
  for (const GlobalRanking& each : global_rankings_) add(each.name, each.score, false);
  const std::size_t strategies = daily_.strategies().size();  // the last one is served
  for (std::size_t i = 0; i < strategies; ++i)
    add(daily_.strategies()[i].name, daily_.score(i), i + 1 == strategies);
  for (std::size_t i = 0; i < by_minute_.strategies().size(); ++i) {
    report.add({"Q9",
                "ndcg@20 by the minute " + by_minute_.strategies()[i].name,
                by_minute_.score(i).ndcg(),
                "",
                {},
                {}});
  }
  for (std::size_t i = 0; i < curve_.strategies().size(); ++i) {
    report.add({"",
                "ndcg@20 knowing a reader's newest " + curve_.strategies()[i].name,
                curve_.score(i).ndcg(),
                "",
                {},
                {}});
  }
  std::string chosen;
  for (const auto& [algorithm, days] : algorithms_) chosen += fmt::format(" {} on {} days", algorithm, days);
  std::string rankings;
  for (const auto& [name, times] : rankings_) rankings += fmt::format("{} {} times; ", name, times);
  report.note("rankings: " + rankings);
  report.note(fmt::format("{} cases; {} articles; chosen:{}; re-ranker trained every {} days",
                          daily_.score(0).count(), items, chosen, kRelearnDays));
  return report;
}

}  // namespace

Result<EvaluationReport> evaluate_deskdrop(const std::string& directory, const Progress& progress) {
  progress("reading", 0);
  FRESHET_TRY(data, read_events(std::filesystem::path(directory) / "users_interactions.csv"));
  Prequential evaluation(*data, progress);
  if (auto ok = evaluation.run(); !ok) return tl::unexpected(ok.error());
  return evaluation.report();
}

}  // namespace freshet::bench
