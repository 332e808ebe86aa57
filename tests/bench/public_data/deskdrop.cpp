// Deskdrop (CI&T's articles, real readers), daily prequential: before each day (UTC) everything is
// trained on all earlier events, then articles first seen before that day and not yet touched by
// the reader are ranked. The last 141 of its 352 days, with the day as the clock's midnight; a
// reader counts on a day when something was known of them before it and when they touch at least
// one such article; what they touch first on that day is what should have been on top. Relevance is
// binary, means are over (reader, day).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <unordered_map>

#include "core/training/learn_rerank.h"
#include "core/training/train.h"
#include "core/training/validation.h"
#include "scripts/ctl/evaluate/offline_metrics.h"
#include "scripts/ctl/replay/csv.h"
#include "tests/bench/public_data/data.h"
#include "tests/bench/public_data/sets.h"

namespace freshet::bench {
namespace {

using ctl::EvaluationCase;
using ctl::RankingScore;
using ctl::IndexedCatalogue;
using recommend::Ranker;
using recommend::RankingSettings;
using training::EventReplay;

constexpr int kTestDays = 141;
constexpr int kLessonDays = 84;            // as LessonSettings::within
constexpr int kLearnAnew = 7;              // the re-ranker, every so many days
constexpr std::size_t kMostLessons = 107;  // of a day: 3,000 over 28 days, as LessonSettings has them

constexpr std::size_t kMinuteStride = 3;  // of first touches for Q9
constexpr std::size_t kCurveStride = 4;   // of readers' moments for the learning curve

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

// --- the data

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
    if (csv.line() == 1) continue;  // names of columns
    const auto kind = std::find_if(kEventKinds.begin(), kEventKinds.end(), [&](const EventKind& each) {
      return fields.size() > 3 && each.name == fields[1];
    });
    const auto at = fields.empty() ? 0 : std::strtoll(fields[0].c_str(), nullptr, 10);
    if (kind == kEventKinds.end() || at <= 0 || at > kMaxUnixSeconds) {
      return fail(ErrorCode::kInvalid, "bad_data", {},
                  fmt::format("{}: line {} is no event of Deskdrop's", path.string(), csv.line()));
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

// --- measuring

// What is served to whom: the ways of ranking under comparison.
struct Way {
  std::string name;
  RankingSettings settings;
  std::size_t profile = 200;  // newest events of the reader that it knows
};

RankingSettings formula(double cf_weight) {
  RankingSettings settings;
  settings.cf_weight = cf_weight;
  settings.rerank = false;
  settings.discover_every = 0;
  return settings;
}

RankingSettings reranked(bool discoveries) {
  RankingSettings settings;
  if (!discoveries) settings.discover_every = 0;
  return settings;
}

class Ways {
 public:
  explicit Ways(std::vector<Way> ways) : ways_(std::move(ways)), scores_(ways_.size()) {
    for (const Way& way : ways_) rankings_.emplace_back(way.settings);
  }

  void add(const EventReplay& past, const IndexedCatalogue& shelf, const EvaluationCase& moment) {
    for (std::size_t way = 0; way < ways_.size(); ++way) {
      const auto top = ctl::top_items(moment, past, shelf, rankings_[way], ways_[way].profile, true);
      scores_[way].add(top, moment.relevant);
    }
  }
  const std::vector<Way>& ways() const { return ways_; }
  const RankingScore& score(std::size_t way) const { return scores_[way]; }

 private:
  std::vector<Way> ways_;
  std::vector<Ranker> rankings_;
  std::vector<RankingScore> scores_;
};

// The same for orders that are everybody's: by a number of each item.
struct Everybody {
  std::string name;
  double (*value)(const EventReplay& past, std::uint32_t item);
  RankingScore score;
};

double hours_old(const EventReplay& past, std::uint32_t item) {
  return static_cast<double>((past.known().now - past.published(item)).count()) / 3600;
}

std::vector<Everybody> for_everybody() {
  return {
      {"newest first", [](const EventReplay& past, std::uint32_t item) { return -hours_old(past, item); }, {}},
      {"popularity", [](const EventReplay& past, std::uint32_t item) { return past.points(item); }, {}},
      {"by engagement: base / 2^days",
       [](const EventReplay& past, std::uint32_t item) {
         return past.points(item) * std::exp2(-hours_old(past, item) / 24);
       },
       {}},
  };
}

void add_everybody(std::vector<Everybody>& all, const EventReplay& past, std::span<const EvaluationCase> moments) {
  for (Everybody& each : all) {
    auto order = past.existing_items();
    std::vector<double> values(past.known().items.size(), 0);
    for (const std::uint32_t item : order) values[item] = each.value(past, item);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return values[a] > values[b]; });
    for (const EvaluationCase& moment : moments) {
      std::vector<std::uint32_t> top;
      for (std::size_t i = 0; i < order.size() && top.size() < training::kListLength; ++i) {
        if (!past.has_touched(moment.reader, order[i])) top.push_back(order[i]);
      }
      each.score.add(top, moment.relevant);
    }
  }
}

// --- the days

class Prequential {
 public:
  Prequential(const training::TrainingData& data, const Stage& stage)
      : data_(data),
        past_(data),
        taught_(data),
        stage_(stage),
        lessons_(RankingSettings{}),
        everybody_(for_everybody()) {}

  Result<void> run() {
    const UnixSeconds test = past_.last_day() - (kTestDays - 1) * training::kOneDay;
    const UnixSeconds begin =
        std::max(past_.first_day() + training::kOneDay, test - kLessonDays * training::kOneDay);
    for (UnixSeconds day = begin; day <= past_.last_day(); day += training::kOneDay) {
      stage_("daily", static_cast<double>((day - begin).count()) /
                          static_cast<double>((past_.last_day() - begin).count() + 1));
      past_.advance_to(day);
      if (auto ok = one_day(day, day >= test); !ok) return ok;
    }
    return {};
  }

  EvaluationReport report() const;

 private:
  Result<void> one_day(UnixSeconds day, bool test) {
    const auto readers = training::first_touches(past_, day + training::kOneDay);
    // Lessons as training takes them: of every third day.
    const bool teaches = (day.time_since_epoch() / training::kOneDay) % 3 == 0;
    if (readers.empty() || (!test && !teaches)) return {};
    if (test && (!learned_at_ || day - *learned_at_ >= kLearnAnew * training::kOneDay)) {
      lessons_.discard_before(day - kLessonDays * training::kOneDay);
      reranker_ = lessons_.learn();
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
    const auto file = folder_.path() / "model";
    if (auto ok = training::write_model(*trained, file); !ok) return ok;
    FRESHET_TRY(model, model::Model::open(file));
    if (teaches) {
      taught_.advance_to(day);
      training::add_examples(lessons_, taught_, *model, {}, kMostLessons);
    }
    if (test) judge(*model, day);
    if (test) judge_by_the_minute(*model, day);
    return {};
  }

  // Q9: before each first touch of the day, with counters and profiles as they are then.
  void judge_by_the_minute(const std::shared_ptr<const model::Model>& model, UnixSeconds day) {
    const auto today = past_.upcoming(day + training::kOneDay);
    for (const training::TrainingEvent& each : today) {
      past_.advance_to(each.at);
      if (!past_.exists(each.item) || past_.has_touched(each.reader, each.item)) continue;
      if (past_.events_of(each.reader).empty() || ++minutes_ % kMinuteStride != 0) continue;
      by_the_minute_.add(past_, IndexedCatalogue(model, past_, past_.live_items()), {each.reader, {each.item}});
    }
  }

  void judge(const std::shared_ptr<const model::Model>& model, UnixSeconds day) {
    const IndexedCatalogue shelf(model, past_, past_.live_items());
    const auto moments = ctl::evaluation_cases(past_, day + training::kOneDay);
    add_everybody(everybody_, past_, moments);
    for (const EvaluationCase& moment : moments) {
      daily_.add(past_, shelf, moment);
      const bool known_well = past_.events_of(moment.reader).size() >= 10;
      if (known_well && ++well_known_ % kCurveStride == 0) curve_.add(past_, shelf, moment);
    }
  }

  const training::TrainingData& data_;
  EventReplay past_, taught_;  // the latter goes on within a day
  const Stage& stage_;
  const ScratchFolder folder_{std::filesystem::temp_directory_path()};
  training::RerankDataset lessons_;
  std::vector<float> reranker_;
  std::optional<UnixSeconds> learned_at_;
  std::size_t well_known_ = 0, minutes_ = 0;
  std::optional<training::Parameters> chosen_;  // by validation, anew with each re-ranker
  std::map<std::string, int> algorithms_;
  std::vector<Everybody> everybody_;
  Ways daily_{{{"by views: (1 + points) / (hours + 2)^1.5", formula(0)},
               {"trend x (1 + 2 x affinity)", formula(2)},
               {"trend x (1 + 0.5 x affinity)", formula(0.5)},
               {"trend x (1 + 0.25 x affinity)", formula(0.25)},
               {"re-ranker without discoveries", reranked(false)},
               {"re-ranker (served)", reranked(true)}}};
  Ways by_the_minute_{{{"by views", formula(0)},
                       {"trend x (1 + 2 x affinity)", formula(2)},
                       {"trend x (1 + 0.5 x affinity)", formula(0.5)},
                       {"re-ranker (served)", reranked(true)}}};
  Ways curve_{{{"0", reranked(true), 0},
               {"1", reranked(true), 1},
               {"3", reranked(true), 3},
               {"5", reranked(true), 5},
               {"10", reranked(true), 10},
               {"200", reranked(true), 200}}};
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
  for (const Everybody& each : everybody_) add(each.name, each.score, false);
  for (std::size_t way = 0; way < daily_.ways().size(); ++way)
    add(daily_.ways()[way].name, daily_.score(way), way + 1 == daily_.ways().size());
  for (std::size_t way = 0; way < by_the_minute_.ways().size(); ++way) {
    report.add({"Q9",
                "ndcg@20 by the minute " + by_the_minute_.ways()[way].name,
                by_the_minute_.score(way).ndcg(),
                "",
                {},
                {}});
  }
  for (std::size_t way = 0; way < curve_.ways().size(); ++way) {
    report.add({"",
                "ndcg@20 knowing a reader's newest " + curve_.ways()[way].name,
                curve_.score(way).ndcg(),
                "",
                {},
                {}});
  }
  std::string chosen;
  for (const auto& [algorithm, days] : algorithms_) chosen += fmt::format(" {} on {} days", algorithm, days);
  report.note(
      fmt::format("{} moments of a reader; {} articles; chosen:{}; re-ranker learned anew every {} days",
                  daily_.score(0).count(), items, chosen, kLearnAnew));
  return report;
}

}  // namespace

Result<EvaluationReport> evaluate_deskdrop(const std::string& directory, const Stage& stage) {
  stage("reading", 0);
  FRESHET_TRY(data, read_events(std::filesystem::path(directory) / "users_interactions.csv"));
  Prequential days(*data, stage);
  if (auto ok = days.run(); !ok) return tl::unexpected(ok.error());
  return days.report();
}

}  // namespace freshet::bench
