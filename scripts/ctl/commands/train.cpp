#include "scripts/ctl/commands/train.h"

#include "core/model/model_copy.h"
#include "core/model/replace_model.h"
#include "core/training/train.h"
#include "core/training/training_source.h"
#include "scripts/ctl/commands/json_report.h"
#include "scripts/ctl/commands/owner.h"
#include "scripts/ctl/commands/print.h"
#include "scripts/ctl/commands/progress.h"

namespace freshet::ctl {
namespace {

void print_rankings(const training::RankingChoice& choice) {
  if (choice.compared.empty()) {
    ctl::print("rankings: too few readers came back to compare them\n");
    return;
  }
  ctl::print("rankings, ndcg@20 of {} readers who came back on the last days:\n",
             format_number(static_cast<std::int64_t>(choice.cases)));
  for (const training::ComparedRanking& each : choice.compared)
    ctl::print("  {:.4f}  {}{}\n", each.ndcg, ranking_name(each.ranking), each.is_chosen ? "  (chosen)" : "");
}

void write_rankings(json::Writer& out, const training::RankingChoice& choice) {
  out.key("ranking").string(ranking_name(choice.ranking));
  out.key("rankings").begin_array();
  for (const training::ComparedRanking& each : choice.compared)
    out.begin_object()
        .key("name")
        .string(ranking_name(each.ranking))
        .key("ndcg")
        .number(each.ndcg)
        .end_object();
  out.end_array();
}

}  // namespace

Result<int> run_train(const TrainOptions& options, const Target& target) {
  FRESHET_TRY(settings, load_settings(target));
  const std::string& file = options.output.empty() ? settings->recommend.model : options.output;
  if (auto ok = switch_to_owner(settings->recorder.database); !ok) return tl::unexpected(ok.error());

  ProgressLine line(stderr, options.quiet);
  const auto began = ProgressLine::Clock::now();
  const auto spent = [&] { return ProgressLine::Clock::now() - began; };
  line.update({0, 0, spent(), {}}, "  reading " + settings->recorder.database);
  FRESHET_TRY(data, training::read_training_data(settings->recorder.database, settings->train, wall_now()));
  const training::Progress show = [&](std::string_view stage, double done) {
    constexpr double kSteps = 100;
    line.update({static_cast<std::int64_t>(done * kSteps), static_cast<std::int64_t>(kSteps), spent(), {}},
                "  " + std::string(stage));
  };
  const auto trained =
      training::train(*data, settings->train, show, recommend::RankingSettings::from(*settings));
  line.clear();
  if (!trained && trained.error().reason == "no_events") {
    if (options.json)
      report_json(
          [&](json::Writer& out) { out.key("model").null().key("why").string(trained.error().detail); });
    else
      ctl::print("{}; no model was trained\n", trained.error().detail);
    return 0;
  }
  if (!trained) return tl::unexpected(trained.error());
  if (auto ok = training::write_model(*trained, file); !ok) return tl::unexpected(ok.error());
  if (const std::string& folder = settings->train.publish_folder; options.output.empty() && !folder.empty()) {
    const auto published = model::publish_model(file, folder);
    if (!published)
      return fail(published.error().code, published.error().reason, {},
                  file + " is trained but not published: " + published.error().detail);
  }
  FRESHET_TRY(copy, model::copy_model(file));
  const auto interactions = static_cast<std::int64_t>(data->events.size());
  if (options.json) {
    report_json([&](json::Writer& out) {
      out.key("model").string(file).key("algorithm").string(trained->algorithm);
      out.key("items").integer(copy->model->items()).key("interactions").integer(interactions);
      out.key("bytes").integer(static_cast<std::int64_t>(copy->model->bytes()));
      out.key("validation").string(trained->report).key("seconds").number(to_seconds(spent()));
      write_rankings(out, trained->ranking_choice);
    });
    return 0;
  }
  ctl::print("{}: {} of {} items, {} interactions, {:.1f} MB, in {}\n", file, trained->algorithm,
             format_number(copy->model->items()), format_number(interactions),
             static_cast<double>(copy->model->bytes()) / 1e6, format_duration(spent()));
  ctl::print("validation: {}\n", trained->report);
  print_rankings(trained->ranking_choice);
  return 0;
}

}  // namespace freshet::ctl
