#include "scripts/ctl/command_line.h"

#include <fmt/format.h>

#include <array>
#include <functional>
#include <memory>

#include "scripts/ctl/backup.h"
#include "scripts/ctl/check.h"
#include "scripts/ctl/doctor.h"
#include "scripts/ctl/evaluate.h"
#include "scripts/ctl/explain.h"
#include "scripts/ctl/fill.h"
#include "scripts/ctl/import.h"
#include "scripts/ctl/rebuild_redis.h"
#include "scripts/ctl/reindex.h"
#include "scripts/ctl/replay.h"
#include "scripts/ctl/restore.h"
#include "scripts/ctl/status.h"
#include "scripts/ctl/train.h"

namespace freshet::ctl {
namespace {

constexpr int kMostConnections = 1024;

using Run = std::function<Result<int>(const Target&)>;

const char* const kTimes = "RFC 3339 or unix seconds, in the log's own time";

Run import_command(CLI::App& app) {
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
  app.add_flag("-q,--quiet", options->quiet, "no progress");
  return [options](const Target& target) { return run_import(*options, target); };
}

void replay_over_http(CLI::App& app, ReplayOptions& options) {
  app.add_option("--speed", options.speed, "seconds of the log played in a second (600 or 600x), or max")
      ->capture_default_str();
  app.add_option("--connections", options.connections, "kept connections, each with one request at a time")
      ->check(CLI::Range(1, kMostConnections))
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

Run replay_command(CLI::App& app) {
  auto options = std::make_shared<ReplayOptions>();
  app.add_option("LOG", options->log,
                 "an events.ndjson, or a directory with one or with Deskdrop's users_interactions.csv")
      ->required();
  app.add_option("--from", options->from, std::string("leave out what came before: ") + kTimes)
      ->type_name("TIME");
  app.add_option("--until", options->until, "leave out what came at this time or later")->type_name("TIME");
  app.add_option("--type", options->types, "only events of this type (VIEW, vote, …); may be repeated");
  app.add_option("--limit", options->limit, "the first N events; with --at, the length of the list (20)")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  replay_over_http(app, *options);
  app.add_option("--at", options->at, std::string("send nothing; print the list as it stood then: ") + kTimes)
      ->type_name("TIME");
  app.add_option("--model", options->model, "with --at: which list")
      ->check(CLI::IsMember({"views", "engagement"}))
      ->capture_default_str();
  app.add_option("--mode", options->mode, "with --at --model views")
      ->check(CLI::IsMember({"accumulate", "current"}))
      ->capture_default_str();
  app.add_flag("--json", options->json, "with --at: as JSON");
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

Run check_command(CLI::App& app) {
  auto options = std::make_shared<CheckOptions>();
  app.add_flag("--sweep", options->sweep,
               "remove what is stale: members without counters, tags' members without items, …");
  app.add_option("--expect-pv", options->expect_pv, "what the page views of all items must add up to");
  app.add_option("--expect-views", options->expect_views,
                 "what the counted views of all items must add up to");
  app.add_flag("--strict", options->strict, "odd and stale things are violations too");
  app.add_flag("-q,--quiet", options->quiet, "no progress");
  app.footer(
      "Exit status 1 when violations remain. Serving goes on meanwhile; do not expect sums while events come "
      "in.");
  return [options](const Target& target) { return run_check(*options, target); };
}

Run rebuild_command(CLI::App&) {
  return [](const Target& target) { return run_rebuild_rank(target); };
}

Run reindex_command(CLI::App& app) {
  auto options = std::make_shared<ReindexOptions>();
  app.add_flag("-q,--quiet", options->quiet, "no progress");
  app.footer("Serving goes on, with the old index until the new one takes its place.");
  return [options](const Target& target) { return run_reindex(*options, target); };
}

Run rebuild_redis_command(CLI::App& app) {
  auto options = std::make_shared<RebuildRedisOptions>();
  app.add_flag("--force", options->force, "also when Redis has items: the database's replace them");
  app.add_flag("-q,--quiet", options->quiet, "no progress");
  app.footer("Items only: what was counted of them is lost with Redis.");
  return [options](const Target& target) { return run_rebuild_redis(*options, target); };
}

Run explain_command(CLI::App& app) {
  auto options = std::make_shared<ExplainOptions>();
  app.add_option("user", options->user, "the reader")->required()->type_name("USER");
  app.add_option("--limit", options->limit, "items of a page")->check(CLI::Range(1, 100));
  app.add_option("--exclude", options->exclude, "hard, soft or off")
      ->check(CLI::IsMember({"hard", "soft", "off"}));
  app.add_flag("--all", options->all, "every candidate, not the first hundred");
  app.footer("Reads Redis and the model as a worker does at this moment, and writes nothing.");
  return [options](const Target& target) { return run_explain(*options, target); };
}

Run fill_command(CLI::App& app) {
  auto options = std::make_shared<FillOptions>();
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
  app.footer(
      "Without --reader and --readers it is for those who opened the channel within fill.active and have\n"
      "seen what they got before. What the seen-filter knows is not pushed, and what is pushed is not shown\n"
      "by the feed for seven days. An interrupted run can be repeated: nothing is pushed twice.");
  return [options](const Target& target) { return run_fill(*options, target); };
}

Run status_command(CLI::App& app) {
  auto options = std::make_shared<StatusOptions>();
  app.add_flag("--json", options->json, "the pool's own JSON");
  app.add_option("--socket", options->socket, "the pool's unix socket, for the length of its listen queue");
  return [options](const Target& target) { return run_status(*options, target); };
}

Run train_command(CLI::App& app) {
  auto options = std::make_shared<TrainOptions>();
  app.add_option("--output", options->output, "write here instead of recommend.model")->type_name("FILE");
  app.add_flag("-q,--quiet", options->quiet, "no progress");
  app.footer("Serving goes on with the model before until the new one takes its place.");
  return [options](const Target& target) { return run_train(*options, target); };
}

Run evaluate_command(CLI::App& app) {
  auto options = std::make_shared<EvaluateOptions>();
  std::vector<std::string> names;
  std::string footer = "Data sets:";
  for (const DataSet& set : data_sets()) {
    names.emplace_back(set.name);
    footer += "\n  " + std::string(set.name) + ": " + std::string(set.help);
  }
  app.add_option("DATASET", options->data_set, "which protocol")->required()->check(CLI::IsMember(names));
  app.add_option("DIR", options->directory, "where its files are")->required();
  app.add_flag("--json", options->json, "as JSON instead of a table");
  app.add_flag("-q,--quiet", options->quiet, "no progress");
  app.footer(footer);
  return [options](const Target&) { return run_evaluate(*options); };
}

Run doctor_command(CLI::App& app) {
  auto options = std::make_shared<DoctorOptions>();
  app.add_flag("--json", options->json, "as JSON instead of lines");
  app.add_option("--user", options->user,
                 "whom the service runs as (default: `user`, else the owner of the database's folder)");
  app.add_option("--nginx", options->nginx, "the nginx whose configuration (-T) is looked at; empty: none")
      ->capture_default_str();
  app.add_option("--backups", options->backups,
                 "the folder that backups are made in, for the age of the newest")
      ->type_name("DIR");
  app.footer(
      "Without --config and --state it reads /etc/freshet/freshet.toml. It changes nothing, and exits 1 "
      "when\n"
      "something is an error. What it may not see is \"not looked at\": best called as root.");
  return [options](const Target& target) { return run_doctor(*options, target); };
}

Run backup_command(CLI::App& app) {
  auto options = std::make_shared<BackupOptions>();
  app.add_option("FOLDER", options->folder,
                 "the backup: made by this, so it must not exist; with --verify, one that does")
      ->required();
  app.add_flag("--verify", options->verify,
               "make none: read all of a backup, and exit 1 unless it is whole and unchanged");
  app.add_flag("--with-config", options->with_config,
               "freshet.toml and conf.d, too; restoring leaves them where they are");
  app.add_flag("-q,--quiet", options->quiet, "no progress");
  app.footer(
      "Serving goes on. It is made where the recorder runs, as FOLDER.partial, and moved to its place when "
      "it is\n"
      "whole. In it: what Redis holds of Freshet, the database, the model. Not in it: the search index, "
      "which is\n"
      "made from the database, keys and passwords, and events that wait in a spool while Redis is away. It "
      "names\n"
      "readers: keep it as you keep the service's own files, and not longer than you keep your word to "
      "forget.");
  return [options](const Target& target) { return run_backup(*options, target); };
}

Run restore_command(CLI::App& app) {
  auto options = std::make_shared<RestoreOptions>();
  app.add_option("FOLDER", options->folder, "a backup")->required();
  app.add_flag("--replace", options->replace, "delete what Redis and the database hold now");
  app.add_option("--erase", options->erase, "readers who were erased after the backup was made: an id a line")
      ->type_name("FILE");
  app.add_flag("-q,--quiet", options->quiet, "no progress");
  app.footer(
      "Stop the service first, on all hosts; it refuses while a recorder runs. Keys get what was left of "
      "their\n"
      "time when they were saved, less the time since. Whoever was erased after the backup is erased again "
      "where\n"
      "the database that is replaced says so (identity.salt_file must be the same); after the loss of the "
      "disk only\n"
      "--erase knows. Interrupted, it can be repeated with --replace.");
  return [options](const Target& target) { return run_restore(*options, target); };
}

struct Command {
  const char* name;
  const char* help;
  Run (*options)(CLI::App&);
};
constexpr std::array kCommands{
    Command{"import", "Put items into the service, from an NDJSON file", import_command},
    Command{"replay", "Play a log of events through HTTP, or compute a list of the past from it",
            replay_command},
    Command{"check", "Verify what must hold in a running instance's Redis", check_command},
    Command{"rebuild-rank", "Make hot:rank anew from the counters, after a change of half-life or weights",
            rebuild_command},
    Command{"reindex", "Make the search index anew from the database", reindex_command},
    Command{"rebuild-redis", "Give a Redis that lost its items them back from the database",
            rebuild_redis_command},
    Command{"backup", "Save everything that is durable, while the service runs", backup_command},
    Command{"restore", "Make a backup the state of a service that does not run", restore_command},
    Command{"train", "Make the recommender's model anew from the database", train_command},
    Command{"evaluate", "Measure the quality of recommendations on public data", evaluate_command},
    Command{"explain",
            "Every candidate of a reader's recommendations, its score's terms, and why it was dropped",
            explain_command},
    Command{"fill", "Push recommendations into a channel's timelines, for the readers who come for them",
            fill_command},
    Command{"doctor", "Check a deployment and name the cure of each finding", doctor_command},
    Command{"status", "What the pool says of itself, and the length of its listen queue", status_command},
};

void add_target(CLI::App& app, Target& target) {
  app.add_option("--state", target.state, "an instance that scripts/run --state DIR started")
      ->type_name("DIR");
  app.add_option(
         "--base", target.base,
         std::string("the internal server: http://host:port or unix:///path (default ") + kDefaultBase + ")")
      ->type_name("URL");
  app.add_option("--redis", target.redis, "unix:///path or redis://[user:password@]host[:port][/db]")
      ->type_name("URL");
  app.add_option("--redis-user", target.redis_user,
                 "another account of Redis than the service's, and the file with its password")
      ->type_name("NAME:FILE");
  app.add_option("--key", target.key,
                 "a key of the internal server (identity.internal_keys), and the file it is in")
      ->type_name("KID:FILE");
  app.add_option("--config", target.config, "the service's freshet.toml: Redis, key prefix, weights, caps")
      ->type_name("FILE");
}

int run(const Command& command, const Run& body, const Target& target) {
  const Result<int> status = body(target);
  if (status) return *status;
  const Error& error = status.error();
  std::string line = error.detail.empty() ? std::string(error.reason) : error.detail;
  while (line.ends_with('\n')) line.pop_back();
  fmt::print(stderr, "freshetctl {}: {}\n", command.name, line);
  return 1;
}

}  // namespace

void add_commands(CLI::App& app, int& status) {
  app.require_subcommand(1);
  app.fallthrough();  // --state and its like may stand before or after the subcommand
  auto target = std::make_shared<Target>();
  add_target(app, *target);
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.help);
    sub->callback(
        [&command, target, &status, body = command.options(*sub)] { status = run(command, body, *target); });
  }
}

}  // namespace freshet::ctl
