#include "scripts/ctl/evaluate/evaluate.h"

#include <fmt/format.h>

#include "core/base/json.h"
#include "core/model/model_copy.h"
#include "core/training/in_memory_model.h"
#include "core/training/learn_rerank.h"
#include "core/training/training_source.h"
#include "scripts/ctl/commands/owner.h"
#include "scripts/ctl/commands/print.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/commands/tune.h"
#include "scripts/ctl/evaluate/offline_metrics.h"

namespace freshet::ctl {
namespace {

using ModelPtr = std::shared_ptr<const model::Model>;
using recommend::RankingSettings;
using training::kOneDay;

constexpr int kRetuneDays = 7;           // days
constexpr std::size_t kMaxCases = 1000;  // per day, evenly sampled from its readers

RankingSettings trend_only(RankingSettings settings) {
  settings.cf_weight = 0;
  settings.rerank = false;
  settings.trend_half_life = seconds{0};
  settings.discover_every = 0;
  return settings;
}

class Strategy {
 public:
  Strategy(std::string name, const RankingSettings& settings) : name_(std::move(name)), ranking_(settings) {}

  void evaluate(const std::vector<EvaluationCase>& cases, const training::EventReplay& replay,
                const ModelPtr& model) {
    const training::RerankDatasetSettings defaults;
    const IndexedCatalogue catalogue(
        model, replay,
        replay.live_items(defaults.trend_items, defaults.trending_items, defaults.newest_items));
    const std::size_t stride = 1 + cases.size() / kMaxCases;
    for (std::size_t i = 0; i < cases.size(); i += stride) {
      score_.add(
          top_items(cases[i], replay, catalogue, ranking_, ranking_.settings().max_profile_events, false),
          cases[i].relevant);
    }
  }
  std::size_t case_count() const { return static_cast<std::size_t>(score_.count()); }
  Quality quality(std::size_t items) const {
    return {name_, score_.ndcg(), score_.recall(), score_.coverage(items)};
  }

 private:
  std::string name_;
  recommend::Ranker ranking_;
  RankingScore score_;
};

class Evaluation {
 public:
  Evaluation(const training::TrainingData& data, const Settings& settings, ModelPtr present,
             const training::Progress& progress)
      : settings_(settings),
        ranking_(RankingSettings::from(settings)),
        replay_(data),
        current_model_(std::move(present)),
        progress_(progress) {}

  Result<std::vector<Comparison>> run(int days) {
    const UnixSeconds from =
        std::max(replay_.first_day() + kOneDay, replay_.last_day() - (days - 1) * kOneDay);
    const auto count = (replay_.last_day() - from) / kOneDay + 1;
    for (std::int64_t i = 0; i < count; ++i) {
      stage_ = fmt::format("day {} of {}", i + 1, count);
      progress_(stage_, static_cast<double>(i) / static_cast<double>(count));
      evaluate_day(from + i * kOneDay);
    }
    std::vector<Comparison> out{comparison(fmt::format("from {}", to_rfc3339(from)), {&trend_, &trained_})};
    if (current_trend_.case_count() > 0) {
      const auto begin = std::max(from, current_model_->trained_at());
      out.push_back(
          comparison(fmt::format("from {}, with the current model ({} of {})", to_rfc3339(begin),
                                 current_model_->algorithm(), to_rfc3339(current_model_->trained_at())),
                     {&current_trend_, &current_trained_, &current_strategy_}));
    }
    return out;
  }

 private:
  void evaluate_day(UnixSeconds day) {
    replay_.advance_to(day);
    const UnixSeconds end = day + kOneDay;
    auto cases = evaluation_cases(replay_, end);
    if (cases.empty()) return;
    const ModelPtr model = model_before(day);
    trend_.evaluate(cases, replay_, nullptr);
    trained_.evaluate(cases, replay_, model);
    if (!current_model_ || current_model_->trained_at() >= end) return;
    if (current_model_->trained_at() > day) {
      replay_.advance_to(current_model_->trained_at());
      cases = evaluation_cases(replay_, end);
    }
    current_trend_.evaluate(cases, replay_, nullptr);
    current_trained_.evaluate(cases, replay_, model);
    current_strategy_.evaluate(cases, replay_, current_model_);
  }

  // Null when there is no training data yet: the service would then rank by trend only.
  ModelPtr model_before(UnixSeconds day) {
    const bool retune = !parameters_ || day - tuned_at_ >= kRetuneDays * kOneDay;
    auto trained = retune ? training::train(
                                replay_.known(), settings_.train,
                                [this](std::string_view what, double done) {
                                  progress_(stage_ + ": " + std::string(what), done);
                                },
                                ranking_)
                          : training::train_with_parameters(replay_.known(), settings_.train, *parameters_);
    if (!trained) return nullptr;
    if (retune) {
      tuned_at_ = day;
      parameters_ = trained->parameters;
      reranker_ = trained->reranker;
      chosen_ = trained->ranking;
    }
    trained->reranker = reranker_;
    trained->ranking = chosen_;
    return training::to_model(std::move(*trained));
  }

  Comparison comparison(std::string period, std::initializer_list<const Strategy*> strategies) const {
    Comparison out{std::move(period), (*strategies.begin())->case_count(), {}};
    for (const Strategy* strategy : strategies)
      out.rows.push_back(strategy->quality(replay_.existing_items().size()));
    return out;
  }

  const Settings& settings_;
  const RankingSettings ranking_;
  training::EventReplay replay_;
  const ModelPtr current_model_;
  const training::Progress& progress_;
  std::string stage_;
  std::optional<training::Parameters> parameters_;
  std::vector<float> reranker_;
  model::ChosenRanking chosen_;
  UnixSeconds tuned_at_;
  Strategy trend_{"trend only", trend_only(ranking_)}, trained_{"trained before each day", ranking_};
  // The same strategies since the current model was trained, for the second comparison.
  Strategy current_trend_ = trend_, current_trained_ = trained_, current_strategy_{"current model", ranking_};
};

void print_table(const std::vector<Comparison>& comparisons) {
  for (const Comparison& each : comparisons) {
    ctl::print("{}: {} evaluation cases\n", each.period,
               format_number(static_cast<std::int64_t>(each.cases)));
    ctl::print("  {:<26}{:>12}{:>12}{:>12}\n", "", "ndcg@20", "recall@20", "coverage@20");
    for (const Quality& row : each.rows)
      ctl::print("  {:<26}{:>12.4f}{:>12.4f}{:>12.4f}\n", row.name, row.ndcg, row.recall, row.coverage);
  }
}

void print_json(const std::vector<Comparison>& comparisons, const tuning::HotScores& hot_lists) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("comparisons").begin_array();
  for (const Comparison& each : comparisons) {
    writer.begin_object().key("period").string(each.period);
    writer.key("moments").unsigned_integer(each.cases).key("rows").begin_array();
    for (const Quality& row : each.rows) {
      writer.begin_object().key("name").string(row.name).key("ndcg").number(row.ndcg);
      writer.key("recall").number(row.recall).key("coverage").number(row.coverage).end_object();
    }
    writer.end_array().end_object();
  }
  writer.end_array().key("hot_lists");
  write_hot_lists(writer, hot_lists);
  writer.end_object();
  print_json_line(out);
}

void print_hot_section(const tuning::HotScores& scores, const tuning::HotCandidate& served) {
  std::vector<std::string> marks(scores.lists.size());
  for (std::size_t i = 0; i < marks.size(); ++i) marks[i] = scores.lists[i] == served ? "served now" : "";
  ctl::print("hot lists: {} moments of the last 14 days, ndcg@20\n",
             format_number(static_cast<std::int64_t>(scores.moments.size())));
  print_hot_lists(scores, marks);
}

}  // namespace

Result<std::vector<Comparison>> evaluate_past(const training::TrainingData& data, const Settings& settings,
                                              int days, std::shared_ptr<const model::Model> current_model,
                                              const training::Progress& progress) {
  const auto [first, last] = std::minmax_element(data.events.begin(), data.events.end(),
                                                 [](const auto& a, const auto& b) { return a.at < b.at; });
  if (data.events.empty() || training::start_of_day(first->at) == training::start_of_day(last->at))
    return fail(ErrorCode::kInvalid, "no_past", {}, "the database has interactions of fewer than two days");
  return Evaluation(data, settings, std::move(current_model), progress).run(days);
}

Result<int> run_evaluate(const EvaluateOptions& options, const Target& target) {
  FRESHET_TRY(settings, load_settings(target));
  if (auto ok = switch_to_owner(settings->recorder.database); !ok) return tl::unexpected(ok.error());
  FRESHET_TRY(data, training::read_training_data(settings->recorder.database, settings->train, wall_now()));
  const auto copy = model::copy_model(options.model.empty() ? settings->recommend.model : options.model);
  ProgressLine line(stderr, options.quiet);
  const auto began = ProgressLine::Clock::now();
  const auto compared = evaluate_past(
      *data, *settings, options.days, copy ? copy->model : nullptr, [&](std::string_view what, double done) {
        constexpr std::int64_t kSteps = 1000;
        line.update(
            {static_cast<std::int64_t>(done * kSteps), kSteps, ProgressLine::Clock::now() - began, {}},
            "  " + std::string(what));
      });
  line.clear();
  const tuning::HotValues values = hot_values(*settings);
  FRESHET_TRY(views,
              tuning::read_view_history(settings->recorder.database, data->now, tuning::HotMoments().period));
  const tuning::HotScores hot_lists = score_hot_lists(*views, values);
  if (!compared && (compared.error().reason != "no_past" || hot_lists.moments.empty()))
    return tl::unexpected(compared.error());
  const auto comparisons = compared.value_or(std::vector<Comparison>());
  if (options.json) {
    print_json(comparisons, hot_lists);
  } else {
    print_table(comparisons);
    if (!hot_lists.moments.empty()) print_hot_section(hot_lists, values.served());
  }
  if (!compared) {
    ctl::print(stderr, "{}\n", compared.error().detail);
    return 0;
  }
  if (!copy)
    ctl::print(stderr, "no current model: {}\n", copy.error().detail);
  else if (compared->size() == 1)
    ctl::print(stderr, "the current model was trained after all of these events, so it is not evaluated\n");
  return 0;
}

}  // namespace freshet::ctl
