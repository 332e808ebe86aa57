#include <array>
#include <memory>
#include <string>
#include <vector>

#include "scripts/ctl/commands/commands.h"
#include "scripts/ctl/commands/explain.h"
#include "scripts/ctl/commands/fetch_model.h"
#include "scripts/ctl/commands/push_recommendations.h"
#include "scripts/ctl/commands/train.h"
#include "scripts/ctl/commands/tune.h"
#include "scripts/ctl/evaluate/evaluate.h"
#include "scripts/ctl/replay/import.h"
#include "scripts/ctl/replay/import_counters.h"
#include "scripts/ctl/replay/import_events.h"
#include "scripts/ctl/replay/replay.h"

namespace freshet::ctl {
namespace {

constexpr int kMaxConnections = 1024;

const char* const kTimeHelp = "date or Unix seconds, in the log's own time";

void add_source_options(CLI::App& app, ImportOptions& options) {
  app.add_option("--feed", options.feed, "RSS, Atom or JSON Feed")->type_name("URL|FILE");
  app.add_option("--sitemap", options.sitemap, "sitemap or sitemap index, also compressed")
      ->type_name("URL|FILE");
  app.add_option("--wxr", options.wxr, "export of WordPress")->type_name("FILE");
  app.add_option("--ghost", options.ghost, "export of Ghost")->type_name("FILE");
  app.add_option("--markdown", options.markdown, "folder of Hugo, Jekyll or Hexo")->type_name("DIR");
  app.add_option("--csv", options.csv, "table with a header row")->type_name("FILE");
  app.add_option("--outbox", options.outbox, "outbox of an archive of Mastodon")->type_name("FILE");
  app.add_option(
         "--id", options.id,
         "id of an item: guid, url, path, slug, a column of a table, or a regular expression, matched "
         "against "
         "the URL, whose first group is the id (default: the column id of a table that has one, else path)")
      ->type_name("RULE");
  app.add_option("--base-url", options.base_url, "address of the site, for relative links")->type_name("URL");
  app.add_option("--source", options.source, "name of the source (default: its URL or absolute path)")
      ->type_name("NAME");
  app.add_flag("-n,--dry-run", options.dry_run, "print the items as NDJSON, write nothing");
  app.add_flag("--prune", options.prune, "delete items of earlier imports that are gone from the source");
  app.add_flag("--force", options.force, "with --prune: delete more than a third of the items, too");
  app.add_option("--limit-age", options.limit_age, "leave out entries that are older, such as 90d or 12h")
      ->type_name("AGE");
  app.add_option("--cache", options.cache,
                 "folder for import state (default: import in --state or in $STATE_DIRECTORY)")
      ->type_name("DIR");
  app.add_flag("--public-only", options.public_only, "refuse to fetch from private addresses");
  app.add_option("--hosts", options.hosts, "host that --public-only allows; may be repeated")
      ->type_name("HOST")
      ->allow_extra_args(false);
  app.add_option("--max-bytes", options.max_bytes, "maximum size of a fetched document, unpacked")
      ->check(CLI::PositiveNumber)
      ->type_name("BYTES")
      ->capture_default_str();
  app.add_option("--timeout", options.timeout_s, "time for fetching a document")
      ->check(CLI::PositiveNumber)
      ->type_name("SECONDS")
      ->capture_default_str();
}

CommandAction import_command(CLI::App& app) {
  auto options = std::make_shared<ImportOptions>();
  app.add_option("FILE", options->file,
                 "items, one JSON object per line (id, title, published_at, tags, …), or one of the other "
                 "formats; -: stdin, one JSON object per line");
  add_source_options(app, *options);
  app.add_option("--job", options->job, "read more options from a TOML file, such as feed = \"https://…\"")
      ->type_name("FILE");
  app.add_flag("--shift-to-now", options->shift_to_now,
               "shift the items' times so that the log that is replayed next ends when its replay does");
  app.add_option("--events", options->events, "that log (default: events.ndjson next to FILE)");
  app.add_option("--speed", options->speed, "the speed of that replay")->capture_default_str();
  app.add_option("--resume", options->resume,
                 "file for the progress, to resume an interrupted import (default: FILE.import)")
      ->type_name("NOTES");
  app.add_flag("--json", options->json, kJsonHelp);
  app.add_flag("-q,--quiet", options->quiet, "no progress output");
  app.footer(
      "The format of FILE is detected, and gzip is unpacked. Entries become items; a repetition changes\n"
      "nothing, so an interrupted import is repeated. Only NDJSON imports without --prune, --dry-run or\n"
      "--limit-age can be resumed. Drafts and private entries are hidden, and entries of the future appear\n"
      "at their time. If two entries have the same id, the newer one is taken, or the last one of NDJSON.\n"
      "A document that its server reports as unchanged is not read again. --prune is for complete\n"
      "sources: most feeds list only the newest entries. It deletes nothing if a part of the source could\n"
      "not be read.\n"
      "Exit status 1: something was not imported; 2: the import failed.");
  return [options](const Target& target) { return run_import(*options, target); };
}

CommandAction import_counters_command(CLI::App& app) {
  auto options = std::make_shared<ImportCountersOptions>();
  app.add_option("FILE", options->file,
                 "counts, one JSON object per line: id, pv (page views), uv (visitors, optional), first "
                 "(date); -: stdin")
      ->required();
  app.add_flag("--json", options->json, kJsonHelp);
  app.footer(
      "Adds the counts of another plugin to the model engagement. `first` is the article's publication "
      "date,\n"
      "or that of its first view; it is required for articles that Freshet does not know, replaces a date "
      "that\n"
      "only pages reported, and is ignored if your site put or reported the date. A date in the future "
      "counts\n"
      "as now. Importing the same articles again replaces what the earlier import added, so a repetition\n"
      "changes nothing and a newer file adds the difference. Visitor counts are estimates (±0.8 %). "
      "Imported\n"
      "visitors are anonymous, so a reader who comes back counts once more. Imported page views have no "
      "reading\n"
      "time and lower the mean. Views are not imported, because their scores depend on the times of the "
      "views.\n"
      "Counters expire hot.counter_ttl after the import, unless the article is read again.");
  return [options](const Target& target) { return run_import_counters(*options, target); };
}

CommandAction import_events_command(CLI::App& app) {
  auto options = std::make_shared<ImportEventsOptions>();
  app.add_option("FILE", options->file, "log of events: NDJSON, or CSV with a header; -: stdin")->required();
  app.add_option("--min-rating", options->min_rating, "a rating of this or more is a like")
      ->capture_default_str()
      ->type_name("NUMBER");
  app.add_option("--kind", options->kinds,
                 "interaction that an event's type stands for, such as vote=like; may be repeated")
      ->type_name("TYPE=KIND")
      ->allow_extra_args(false);
  app.add_flag("--json", options->json, kJsonHelp);
  app.add_flag("-q,--quiet", options->quiet, "no progress output");
  app.footer(
      "NDJSON has one object per line: user, item, at (a date or Unix seconds), and type (like, favorite, "
      "share, reply, post)\nor rating (a number). CSV has these columns: user or userId, item, itemId or "
      "movieId, timestamp or at, rating or type;\nratings.csv of MovieLens is one. Events become "
      "interactions with their own times, from which `freshetctl train` learns.\nViews are left out, because "
      "the service counts them when they happen, as are lower ratings and other types. Importing\na file "
      "again changes nothing.");
  return [options](const Target& target) { return run_import_events(*options, target); };
}

void add_replay_options(CLI::App& app, ReplayOptions& options) {
  app.add_option("--speed", options.speed, "seconds of the log per second (600 or 600x), or max")
      ->capture_default_str();
  app.add_option("--connections", options.connections,
                 "persistent connections, each with one request at a time")
      ->check(CLI::Range(1, kMaxConnections))
      ->capture_default_str();
  app.add_option("--route", options.route, "endpoint that receives each event")
      ->check(CLI::IsMember({"track", "views", "both"}))
      ->capture_default_str();
  app.add_flag("--shift-to-now", options.shift_to_now,
               "shift publish times so that the log ends when the replay does (default: unchanged)");
  app.add_flag("--loop", options.loop, "start again at the end, until interrupted");
  app.add_flag("--event-ids", options.event_ids, "send event ids and repeat reports without a reply");
  app.add_option("--user-agent", options.user_agent, "User-Agent of events without one")
      ->capture_default_str();
  app.add_flag("--strict", options.strict, "exit with status 1 if any request was not accepted");
  app.add_flag("-q,--quiet", options.quiet, "no progress output");
}

CommandAction replay_command(CLI::App& app) {
  auto options = std::make_shared<ReplayOptions>();
  app.add_option("LOG", options->log,
                 "an events.ndjson, or a directory with one or with Deskdrop's users_interactions.csv")
      ->required();
  app.add_option("--from", options->from, std::string("skip events before this time: ") + kTimeHelp)
      ->type_name("TIME");
  app.add_option("--until", options->until, "skip events at this time or later")->type_name("TIME");
  app.add_option("--type", options->types, "only events of this type (VIEW, vote, …); may be repeated");
  app.add_option("--limit", options->limit, "the first N events; with --at, the length of the list (20)")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  add_replay_options(app, *options);
  app.add_option("--at", options->at, std::string("send nothing; print the list at this time: ") + kTimeHelp)
      ->type_name("TIME");
  app.add_option("--model", options->model, "list to print with --at")
      ->check(CLI::IsMember({"views", "engagement"}))
      ->capture_default_str();
  app.add_option("--mode", options->mode, "mode of the list with --at --model views")
      ->check(CLI::IsMember({"accumulate", "current"}))
      ->capture_default_str();
  app.add_flag("--json", options->json, kJsonHelp);
  app.footer(
      "Dwell times are in milliseconds. Deskdrop has none: an event's dwell is the time to the next event of "
      "its session, at most 180,000 ms, and 0 for\nthe last one. A log without sessions gets them: a pause "
      "of 30 minutes in the log ends a reader's session. The service's deduplication\nwindow passes in real "
      "time, so at high speeds more views count as duplicates (dedup). With views.from_track, --route track "
      "also "
      "counts views, and\n--route both counts each reader twice in the model views. --at --model views "
      "computes the "
      "list as if each event were sent to /api/views.");
  return [options](const Target& target) { return run_replay(*options, target); };
}

CommandAction train_command(CLI::App& app) {
  auto options = std::make_shared<TrainOptions>();
  app.add_option("--output", options->output, "write here instead of recommend.model")->type_name("FILE");
  app.add_flag("--json", options->json, kJsonHelp);
  app.add_flag("-q,--quiet", options->quiet, "no progress output");
  app.footer("The service uses the previous model until the new one replaces it.");
  return [options](const Target& target) { return run_train(*options, target); };
}

CommandAction tune_command(CLI::App& app) {
  auto options = std::make_shared<TuneOptions>();
  app.add_flag("-n,--dry-run", options->dry_run, "write nothing");
  app.add_flag(
      "--if-due", options->if_due,
      "for timers: with three days of counts or more, do nothing if the file is less than 23 hours old");
  app.add_option("--output", options->output, "write here instead of the file that the service loads")
      ->type_name("FILE");
  app.add_flag("--json", options->json, kJsonHelp);
  app.add_flag("-q,--quiet", options->quiet, "print no table");
  app.footer(
      "At moments every two hours of the last 14 days, the best 20 of each list are compared with what was "
      "read in the next\nhour and in the next 24 hours (NDCG@20). Another list or parameter is chosen only "
      "if its gain is at least .01 and\nsignificant (95 %, paired by day). A directive that freshet.toml "
      "sets "
      "to anything but \"auto\" keeps its value. recall.decay_scale,\nrecall.interest_weight and "
      "recall.trend_weight are chosen by what readers who came back on these days interacted with.");
  return [options](const Target& target) { return run_tune(*options, target); };
}

CommandAction fetch_model_command(CLI::App& app) {
  auto options = std::make_shared<FetchModelOptions>();
  app.add_option("URL", options->url,
                 "the internal server of the host that trains: http://host:port (default: "
                 "recommend.model_from)");
  app.add_flag("--json", options->json, kJsonHelp);
  app.footer(
      "That host must set train.publish. An unchanged model is not downloaded again. The new model "
      "replaces\nrecommend.model if it is valid for this version; otherwise the previous one stays.");
  return [options](const Target& target) { return run_fetch_model(*options, target); };
}

CommandAction evaluate_command(CLI::App& app) {
  auto options = std::make_shared<EvaluateOptions>();
  app.add_option("--days", options->days, "number of days with interactions to evaluate, up to the last one")
      ->check(CLI::Range(1, 365))
      ->capture_default_str();
  app.add_option("--model", options->model, "model to compare with, instead of recommend.model")
      ->type_name("FILE");
  app.add_flag("--json", options->json, kJsonHelp);
  app.add_flag("-q,--quiet", options->quiet, "no progress output");
  app.footer(
      "For each day a model is trained on earlier interactions and evaluated by the items that readers "
      "first\ninteracted with on that day. The current model is evaluated only on events after its training: "
      "to\nevaluate it over several days, keep a copy and pass it as --model. Hot lists are\nevaluated as "
      "`freshetctl tune` does. Writes nothing.");
  return [options](const Target& target) { return run_evaluate(*options, target); };
}

CommandAction explain_command(CLI::App& app) {
  auto options = std::make_shared<ExplainOptions>();
  app.add_option("user", options->user, "the reader")->required()->type_name("USER");
  app.add_option("--limit", options->limit, "items per page")->check(CLI::Range(1, 100));
  app.add_option("--exclude", options->exclude, "hard, soft or off")
      ->check(CLI::IsMember({"hard", "soft", "off"}));
  app.add_flag("--all", options->all, "list all candidates, not only the first hundred");
  app.add_flag("--json", options->json, kJsonHelp);
  app.footer("Reads Redis and the model as a worker would now. Writes nothing.");
  return [options](const Target& target) { return run_explain(*options, target); };
}

CommandAction push_recommendations_command(CLI::App& app) {
  auto options = std::make_shared<PushRecommendationsOptions>();
  app.add_option("CHANNEL", options->channel, "one of waterfall.channels, except the follow channel")
      ->required();
  app.add_option("--reader", options->readers, "push to this reader, active or not; may be repeated")
      ->type_name("ID")
      ->allow_extra_args(false);
  app.add_option("--readers", options->readers_file, "push to the readers of a file with one id per line")
      ->type_name("FILE");
  app.add_option("--limit", options->limit, "maximum of items per reader, instead of fill.items")
      ->check(CLI::Range(1, 100));
  app.add_option("--every", options->every, "repeat after this many seconds, until SIGTERM")
      ->check(CLI::PositiveNumber)
      ->type_name("SECONDS");
  app.add_flag("--dry-run", options->dry_run, "print what each reader would get, push nothing");
  app.add_flag("--json", options->json, "print each run's totals as one line of JSON");
  app.footer(
      "Without --reader and --readers it pushes to readers who opened the channel within fill.active and "
      "have\nno unread items. Items in the seen filter are not pushed, and pushed items are not shown by the "
      "feed\nfor seven days. An interrupted run can be repeated: nothing is pushed twice.");
  return [options](const Target& target) { return run_push_recommendations(*options, target); };
}

constexpr std::array kContentCommands{
    Command{"import", "Import items from a feed, a sitemap, an export, a folder or an NDJSON file",
            import_command},
    Command{"import-counters", "Import another plugin's page views and visitors from an NDJSON file",
            import_counters_command},
    Command{"import-events", "Import ratings and reactions of the past from a CSV or NDJSON file",
            import_events_command},
    Command{"replay", "Replay a log of events over HTTP, or compute a past list from it", replay_command},
    Command{"train", "Train the recommender's model from the database", train_command},
    Command{"tune",
            "Choose the default hot list and the feed's weights by how well they predict what is read next",
            tune_command},
    Command{"fetch-model", "Download the recommender's model from the host that trains it",
            fetch_model_command},
    Command{
        "evaluate",
        "Evaluate recommendations on the site's own history, compared with trends only and the current model",
        evaluate_command},
    Command{"explain",
            "List the candidates of a reader's recommendations with their score terms and outcomes",
            explain_command},
    Command{"push-recommendations", "Push recommendations into the timelines of a channel's active readers",
            push_recommendations_command},
};

}  // namespace

std::span<const Command> content_commands() { return kContentCommands; }

}  // namespace freshet::ctl
