#include <array>
#include <memory>
#include <string>

#include "scripts/ctl/backup/backup.h"
#include "scripts/ctl/backup/rebuild_redis.h"
#include "scripts/ctl/backup/repartition.h"
#include "scripts/ctl/backup/restore.h"
#include "scripts/ctl/check/check.h"
#include "scripts/ctl/check/visitor_contributions.h"
#include "scripts/ctl/commands/commands.h"
#include "scripts/ctl/commands/reindex.h"
#include "scripts/ctl/commands/schedule.h"
#include "scripts/ctl/doctor/doctor.h"
#include "scripts/ctl/doctor/status.h"

namespace freshet::ctl {
namespace {

CommandAction check_command(CLI::App& app) {
  auto options = std::make_shared<CheckOptions>();
  app.add_flag("--sweep", options->sweep,
               "remove stale members: rank members without counters, tag members without items, …");
  app.add_option("--expect-pv", options->expect_pv, "expected total of all items' page views");
  app.add_option("--expect-views", options->expect_views, "expected total of all items' counted views");
  app.add_flag("--strict", options->strict, "fail on suspicious and stale findings, too");
  app.add_flag("--json", options->json, kJsonHelp);
  app.add_flag("-q,--quiet", options->quiet, "no progress output");
  app.footer(
      "Exits with status 1 when violations remain. The service keeps running; use --expect-pv and "
      "--expect-views only while no events arrive.");
  return [options](const Target& target) { return run_check(*options, target); };
}

CommandAction rebuild_rank_command(CLI::App& app) {
  auto options = std::make_shared<RebuildRankOptions>();
  app.add_flag("--json", options->json, kJsonHelp);
  return [options](const Target& target) { return run_rebuild_rank(*options, target); };
}

CommandAction reindex_command(CLI::App& app) {
  auto options = std::make_shared<ReindexOptions>();
  app.add_flag("--json", options->json, kJsonHelp);
  app.add_flag("-q,--quiet", options->quiet, "no progress output");
  app.footer("The service keeps running and uses the old index until the new one replaces it.");
  return [options](const Target& target) { return run_reindex(*options, target); };
}

CommandAction rebuild_redis_command(CLI::App& app) {
  auto options = std::make_shared<RebuildRedisOptions>();
  app.add_flag("--force", options->force, "overwrite the items that Redis has");
  app.add_flag("--json", options->json, kJsonHelp);
  app.add_flag("-q,--quiet", options->quiet, "no progress output");
  app.footer("Restores items, interactions, dismissals and follows. Counters are lost with Redis.");
  return [options](const Target& target) { return run_rebuild_redis(*options, target); };
}

CommandAction repartition_command(CLI::App& app) {
  auto options = std::make_shared<RepartitionOptions>();
  app.add_flag("--json", options->json, kJsonHelp);
  app.add_flag("-q,--quiet", options->quiet, "no progress output");
  app.footer("Stop the service on all hosts first. After an interruption, run it again.");
  return [options](const Target& target) { return run_repartition(*options, target); };
}

CommandAction backup_command(CLI::App& app) {
  auto options = std::make_shared<BackupOptions>();
  app.add_option("FOLDER", options->folder,
                 "the backup to create, which must not exist; with --verify, an existing backup")
      ->required();
  app.add_flag(
      "--verify", options->verify,
      "verify a backup instead: read all of it and exit with status 1 unless it is complete and unchanged");
  app.add_flag("--with-config", options->with_config,
               "include freshet.toml and conf.d; restore does not install them");
  app.add_flag("--json", options->json, kJsonHelp);
  app.add_flag("-q,--quiet", options->quiet, "no progress output");
  app.footer(
      "Run it on the recorder's host; the service keeps running. The backup is written as FOLDER.partial and "
      "renamed\nwhen it is complete. Included: Freshet's keys in Redis, the database, the model. Not "
      "included: the search index,\nwhich is rebuilt from the database; keys and passwords; events in spool "
      "files. It contains personal data:\nprotect it like the service's own files, and delete it within the "
      "period in which you promise erasure.");
  return [options](const Target& target) { return run_backup(*options, target); };
}

CommandAction restore_command(CLI::App& app) {
  auto options = std::make_shared<RestoreOptions>();
  app.add_option("FOLDER", options->folder, "a backup")->required();
  app.add_flag("--replace", options->replace, "delete what Redis and the database hold now");
  app.add_option("--erase", options->erase, "file of all readers erased after the backup, one id per line")
      ->type_name("FILE");
  app.add_flag("--accept-unknown-erasures", options->accept_unknown_erasures,
               "restore although readers erased after the backup are not known; erase them again afterwards");
  app.add_flag("--json", options->json, kJsonHelp);
  app.add_flag("-q,--quiet", options->quiet, "no progress output");
  app.footer(
      "Stop the service on all hosts first; the command refuses to run while a recorder is active. A backup "
      "that the server cannot\nload is refused before anything is deleted. Keys keep their remaining TTL, "
      "less "
      "the time since the backup. Readers erased\nafter the backup are erased again if the replaced database "
      "lists them (identity.salt_file must be the same). If that\ndatabase is lost, give --erase or "
      "--accept-unknown-erasures; otherwise the exit status is 3 and nothing is changed.\nAfter an "
      "interruption, repeat with --replace.");
  return [options](const Target& target) { return run_restore(*options, target); };
}

const char* const kVisitorHelp =
    "A visitor is \"u…\" (a user of the site), \"c…\" (a cookie signed by the service) or \"a…\" (an "
    "address, for IPv6 its\n/64, with a User-Agent), as the service counts them. Contributions are recorded "
    "for limits.contribution_ttl.";

void add_visitor_options(CLI::App& app, VisitorSelector& visitors) {
  app.add_option("VISITOR", visitors.names, "as `freshetctl top-contributors` prints them");
  app.add_option("--reader", visitors.readers, "the site's user with this id; may be repeated")
      ->type_name("ID")
      ->allow_extra_args(false);
  app.add_option("--address", visitors.address, "the anonymous visitor without a cookie from this address …")
      ->type_name("IP");
  app.add_option("--agent", visitors.agent, "… and with this User-Agent")->type_name("TEXT");
  app.add_option("--network", visitors.network,
                 "all visitors last seen in this network: an address, its /24 (IPv4) or /48 (IPv6), or as "
                 "`freshetctl top-contributors` prints it")
      ->type_name("NET");
}

CommandAction top_contributors_command(CLI::App& app) {
  auto options = std::make_shared<TopContributorsOptions>();
  add_visitor_options(app, options->visitors);
  for (const char* one : {"VISITOR", "--reader", "--address"})
    app.get_option("--network")->excludes(app.get_option(one));
  app.add_option("--top", options->top, "number of visitors to list if none is named")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_flag("--json", options->json, kJsonHelp);
  app.footer(kVisitorHelp);
  return [options](const Target& target) { return run_top_contributors(*options, target); };
}

CommandAction revert_visitor_command(CLI::App& app) {
  auto options = std::make_shared<RevertVisitorOptions>();
  add_visitor_options(app, options->visitors);
  app.add_flag("-n,--dry-run", options->dry_run, "only print the contributions");
  app.add_flag("--json", options->json, kJsonHelp);
  app.footer(std::string(kVisitorHelp) +
             "\nPage views, reading time, views and their scores are reduced as if the visitor had never "
             "come; lists change at\nonce. The number of visitors is an estimate, and so is its reduction. "
             "If the visitor returns, events count again,\nbut not as a new visitor of the same articles; "
             "use clients.deny_file to block visitors. Cannot be undone.");
  return [options](const Target& target) { return run_revert_visitor(*options, target); };
}

CommandAction doctor_command(CLI::App& app) {
  auto options = std::make_shared<DoctorOptions>();
  app.add_flag("--json", options->json, kJsonHelp);
  app.add_option(
      "--user", options->user,
      "account that the service runs as (default: `user`, else the owner of the database's folder)");
  app.add_option("--nginx", options->nginx, "nginx program whose configuration (-T) is checked; empty: none")
      ->capture_default_str();
  app.add_option("--backups", options->backups, "folder of the backups, to check the age of the newest")
      ->type_name("DIR");
  app.footer(
      "Changes nothing. Exits with status 1 if there is an error. Checks without the necessary permissions "
      "are \"skipped\": run\nit as root.");
  return [options](const Target& target) { return run_doctor(*options, target); };
}

CommandAction status_command(CLI::App& app) {
  auto options = std::make_shared<StatusOptions>();
  app.add_flag("--json", options->json, "print the pool's status as JSON");
  app.add_flag("--health", options->health,
               "print one line, and exit with status 1 unless the service is ready; for health checks");
  app.add_option("--socket", options->socket, "the pool's unix socket, to read its listen queue");
  app.footer("Asks the sockets of the configuration, without nginx; with --base, an internal server.");
  return [options](const Target& target) { return run_status(*options, target); };
}

CommandAction schedule_command(CLI::App& app) {
  auto options = std::make_shared<ScheduleOptions>();
  app.add_option("JOB", options->jobs, "jobs to run (default: those that the configuration enables)")
      ->check(CLI::IsMember({"train", "tune", "check", "push-recommendations", "fetch-model", "import"}));
  app.add_option("--channel", options->channels, "channel for push-recommendations; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_flag("--now", options->run_now, "also run each job at the start");
  app.add_flag("--json", options->json, "print the jobs and when they are due as JSON, and run none");
  app.footer(
      "Replaces the systemd timers, for example in a container; runs until SIGTERM. train runs daily at "
      "03:30 "
      "and check at\n05:00 (local time), tune every hour, the others every ten minutes. train also runs at "
      "the "
      "start if the model is older\nthan a day. Enabled are: train and tune where recorder.enabled is true, "
      "check, "
      "push-recommendations for \"discover\" if it is one of\nwaterfall.channels, fetch-model if "
      "recommend.model_from is set, and an import for each file import.d/NAME.conf next to the "
      "configuration. "
      "Each run is a process of its own; a job that\nfails is logged and runs "
      "again when it is next due. --redis-user applies to check only.");
  return [options](const Target& target) { return run_schedule(*options, target); };
}

constexpr std::array kOperationCommands{
    Command{"status", "Show the pool's status and its listen queue", status_command},
    Command{"doctor", "Check a deployment and suggest a fix for each finding", doctor_command},
    Command{"check", "Verify the invariants of a running instance's Redis", check_command},
    Command{"schedule", "Run train, tune, check and other jobs at their times, instead of systemd timers",
            schedule_command},
    Command{"backup", "Back up all durable data while the service runs", backup_command},
    Command{"restore", "Restore a backup while the service is stopped", restore_command},
    Command{"top-contributors", "List the visitors who contributed most to the counters",
            top_contributors_command},
    Command{"revert-visitor", "Revert visitors' contributions to the counters", revert_visitor_command},
    Command{"rebuild-rank", "Rebuild hot:rank from the counters, after a change of half-life or weights",
            rebuild_rank_command},
    Command{"rebuild-redis", "Restore Redis' items from the database after a data loss",
            rebuild_redis_command},
    Command{"repartition", "Change the number of partitions of a Redis Cluster to redis.partitions",
            repartition_command},
    Command{"reindex", "Rebuild the search index from the database", reindex_command},
};

}  // namespace

std::span<const Command> operation_commands() { return kOperationCommands; }

}  // namespace freshet::ctl
