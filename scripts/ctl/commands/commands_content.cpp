#include <array>
#include <memory>
#include <string>
#include <vector>

#include "scripts/ctl/commands/commands.h"
#include "scripts/ctl/commands/explain.h"
#include "scripts/ctl/commands/fetch_model.h"
#include "scripts/ctl/commands/push_recommendations.h"
#include "scripts/ctl/commands/train.h"
#include "scripts/ctl/evaluate/evaluate.h"
#include "scripts/ctl/replay/import.h"
#include "scripts/ctl/replay/replay.h"

namespace freshet::ctl {
namespace {

constexpr int kMaxConnections = 1024;

const char* const kTimeHelp = "RFC 3339 or unix seconds, in the log's own time";

CommandAction import_command(CLI::App& app) {
  auto options = std::make_shared<ImportOptions>();
  app.add_option("FILE", options->file, "items, one JSON object a line (id, title, published_at, tags, …)")
      ->required();
  app.add_flag(
      "--shift-to-now", options->shift_to_now,
      "move published_at and update_time so that the log that is replayed next ends when its replay does");
  app.add_option("--events", options->events, "that log (default: events.ndjson beside FILE)");
  app.add_option("--speed", options->speed, "the speed it will be replayed at")->capture_default_str();
  app.add_option("--resume", options->resume,
                 "where it notes how far it has come, to go on there after an interruption (default: "
                 "FILE.import)")
      ->type_name("NOTES");
  app.add_flag("--json", options->json, kJsonHelp);
  app.add_flag("-q,--quiet", options->quiet, "no progress");
  return [options](const Target& target) { return run_import(*options, target); };
}

void add_replay_options(CLI::App& app, ReplayOptions& options) {
  app.add_option("--speed", options.speed, "seconds of the log played in a second (600 or 600x), or max")
      ->capture_default_str();
  app.add_option("--connections", options.connections, "kept connections, each with one request at a time")
      ->check(CLI::Range(1, kMaxConnections))
      ->capture_default_str();
  app.add_option("--route", options.route, "what each event is reported to")
      ->check(CLI::IsMember({"track", "views", "both"}))
      ->capture_default_str();
  app.add_flag(
      "--shift-to-now", options.shift_to_now,
      "move publish times so that the log ends when the replay does; without, they stay as they were");
  app.add_flag("--loop", options.loop, "begin again at the end, for ever");
  app.add_flag("--event-ids", options.event_ids, "send an eventId, and a report again whose reply was lost");
  app.add_option("--user-agent", options.user_agent, "of events whose log has none")->capture_default_str();
  app.add_flag("--strict", options.strict, "exit status 1 when any request was not accepted");
  app.add_flag("-q,--quiet", options.quiet, "no progress");
}

CommandAction replay_command(CLI::App& app) {
  auto options = std::make_shared<ReplayOptions>();
  app.add_option("LOG", options->log,
                 "an events.ndjson, or a directory with one or with Deskdrop's users_interactions.csv")
      ->required();
  app.add_option("--from", options->from, std::string("leave out what came before: ") + kTimeHelp)
      ->type_name("TIME");
  app.add_option("--until", options->until, "leave out what came at this time or later")->type_name("TIME");
  app.add_option("--type", options->types, "only events of this type (VIEW, vote, …); may be repeated");
  app.add_option("--limit", options->limit, "the first N events; with --at, the length of the list (20)")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  add_replay_options(app, *options);
  app.add_option("--at", options->at, std::string("send nothing; print the list as it stood then: ") + kTimeHelp)
      ->type_name("TIME");
  app.add_option("--model", options->model, "with --at: which list")
      ->check(CLI::IsMember({"views", "engagement"}))
      ->capture_default_str();
  app.add_option("--mode", options->mode, "with --at --model views")
      ->check(CLI::IsMember({"accumulate", "current"}))
      ->capture_default_str();
  app.add_flag("--json", options->json, kJsonHelp);
  app.footer(
      "Dwell is in milliseconds. Deskdrop has none: an event's dwell is the time to the next event of its "
      "session, at "
      "most 180,000 ms, and 0 for the last one.\nA log without sessions gets them: 30 minutes of the log "
      "without an event "
      "of a reader end one. The window in which the service counts a\nreader's views of an item once passes "
      "in "
      "real time, so at high speeds more of them are dedup.");
  return [options](const Target& target) { return run_replay(*options, target); };
}

CommandAction train_command(CLI::App& app) {
  auto options = std::make_shared<TrainOptions>();
  app.add_option("--output", options->output, "write here instead of recommend.model")->type_name("FILE");
  app.add_flag("--json", options->json, kJsonHelp);
  app.add_flag("-q,--quiet", options->quiet, "no progress");
  app.footer("Serving goes on with the model before until the new one takes its place.");
  return [options](const Target& target) { return run_train(*options, target); };
}

CommandAction fetch_model_command(CLI::App& app) {
  auto options = std::make_shared<FetchModelOptions>();
  app.add_option("URL", options->url,
                 "the internal server of the host that trains: http://host:port (default: "
                 "recommend.model_from)");
  app.add_flag("--json", options->json, kJsonHelp);
  app.footer(
      "That host has train.publish. What has not changed since the last time is not sent again. What comes "
      "takes the\nplace of recommend.model when it is a model that this version reads; else that stays.");
  return [options](const Target& target) { return run_fetch_model(*options, target); };
}

CommandAction evaluate_command(CLI::App& app) {
  auto options = std::make_shared<EvaluateOptions>();
  app.add_option("--days", options->days, "the last days with interactions")
      ->check(CLI::Range(1, 365))
      ->capture_default_str();
  app.add_option("--model", options->model, "the present model, instead of recommend.model")
      ->type_name("FILE");
  app.add_flag("--json", options->json, kJsonHelp);
  app.add_flag("-q,--quiet", options->quiet, "no progress");
  app.footer(
      "For each day a model is trained on the interactions before it, and readers are judged by what they\n"
      "touched for the first time on that day. The present model is judged only by what happened since it\n"
      "was trained: to compare it over days, keep it and give it as --model. Writes nothing.");
  return [options](const Target& target) { return run_evaluate(*options, target); };
}

CommandAction explain_command(CLI::App& app) {
  auto options = std::make_shared<ExplainOptions>();
  app.add_option("user", options->user, "the reader")->required()->type_name("USER");
  app.add_option("--limit", options->limit, "items of a page")->check(CLI::Range(1, 100));
  app.add_option("--exclude", options->exclude, "hard, soft or off")
      ->check(CLI::IsMember({"hard", "soft", "off"}));
  app.add_flag("--all", options->all, "every candidate, not the first hundred");
  app.add_flag("--json", options->json, kJsonHelp);
  app.footer("Reads Redis and the model as a worker does at this moment, and writes nothing.");
  return [options](const Target& target) { return run_explain(*options, target); };
}

CommandAction push_recommendations_command(CLI::App& app) {
  auto options = std::make_shared<PushRecommendationsOptions>();
  app.add_option("CHANNEL", options->channel, "one of waterfall.channels that is not the follow channel")
      ->required();
  app.add_option("--reader", options->readers, "this reader, active or not; may be repeated")
      ->type_name("ID")
      ->allow_extra_args(false);
  app.add_option("--readers", options->readers_file, "those of a file, an id a line")->type_name("FILE");
  app.add_option("--limit", options->limit, "items to each reader at most, instead of fill.items")
      ->check(CLI::Range(1, 100));
  app.add_option("--every", options->every, "again after so many seconds, until SIGTERM")
      ->check(CLI::PositiveNumber)
      ->type_name("SECONDS");
  app.add_flag("--dry-run", options->dry_run, "print what each reader would get, and push nothing");
  app.add_flag("--json", options->json, "each run's sums as a line of JSON");
  app.footer(
      "Without --reader and --readers it is for those who opened the channel within fill.active and have\n"
      "seen what they got before. What the seen-filter knows is not pushed, and what is pushed is not shown\n"
      "by the feed for seven days. An interrupted run can be repeated: nothing is pushed twice.");
  return [options](const Target& target) { return run_push_recommendations(*options, target); };
}

constexpr std::array kContentCommands{
    Command{"import", "Put items into the service, from an NDJSON file", import_command},
    Command{"replay", "Play a log of events through HTTP, or compute a list of the past from it",
            replay_command},
    Command{"train", "Make the recommender's model anew from the database", train_command},
    Command{"fetch-model", "Bring the recommender's model from the host that trains", fetch_model_command},
    Command{"evaluate",
            "Measure recommendations on the site's own past, beside the trend alone and the present model",
            evaluate_command},
    Command{"explain",
            "Every candidate of a reader's recommendations, its score's terms, and why it was dropped",
            explain_command},
    Command{"push-recommendations", "Push recommendations into a channel's timelines, for the readers who come for them",
            push_recommendations_command},
};

}  // namespace

std::span<const Command> content_commands() { return kContentCommands; }

}  // namespace freshet::ctl
