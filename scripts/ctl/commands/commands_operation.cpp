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
#include "scripts/ctl/doctor/doctor.h"
#include "scripts/ctl/doctor/status.h"

namespace freshet::ctl {
namespace {

CommandAction check_command(CLI::App& app) {
  auto options = std::make_shared<CheckOptions>();
  app.add_flag("--sweep", options->sweep,
               "remove what is stale: members without counters, tags' members without items, …");
  app.add_option("--expect-pv", options->expect_pv, "what the page views of all items must add up to");
  app.add_option("--expect-views", options->expect_views,
                 "what the counted views of all items must add up to");
  app.add_flag("--strict", options->strict, "odd and stale things are violations too");
  app.add_flag("--json", options->json, kJsonHelp);
  app.add_flag("-q,--quiet", options->quiet, "no progress");
  app.footer(
      "Exit status 1 when violations remain. Serving goes on meanwhile; do not expect sums while events come "
      "in.");
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
  app.add_flag("-q,--quiet", options->quiet, "no progress");
  app.footer("Serving goes on, with the old index until the new one takes its place.");
  return [options](const Target& target) { return run_reindex(*options, target); };
}

CommandAction rebuild_redis_command(CLI::App& app) {
  auto options = std::make_shared<RebuildRedisOptions>();
  app.add_flag("--force", options->force, "also when Redis has items: the database's replace them");
  app.add_flag("--json", options->json, kJsonHelp);
  app.add_flag("-q,--quiet", options->quiet, "no progress");
  app.footer("Items only: what was counted of them is lost with Redis.");
  return [options](const Target& target) { return run_rebuild_redis(*options, target); };
}

CommandAction repartition_command(CLI::App& app) {
  auto options = std::make_shared<RepartitionOptions>();
  app.add_flag("--json", options->json, kJsonHelp);
  app.add_flag("-q,--quiet", options->quiet, "no progress");
  app.footer("While no service runs, on whatever host. Interrupted, it is to be run again.");
  return [options](const Target& target) { return run_repartition(*options, target); };
}

CommandAction backup_command(CLI::App& app) {
  auto options = std::make_shared<BackupOptions>();
  app.add_option("FOLDER", options->folder,
                 "the backup: made by this, so it must not exist; with --verify, one that does")
      ->required();
  app.add_flag("--verify", options->verify,
               "make none: read all of a backup, and exit 1 unless it is whole and unchanged");
  app.add_flag("--with-config", options->with_config,
               "freshet.toml and conf.d, too; restoring leaves them where they are");
  app.add_flag("--json", options->json, kJsonHelp);
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

CommandAction restore_command(CLI::App& app) {
  auto options = std::make_shared<RestoreOptions>();
  app.add_option("FOLDER", options->folder, "a backup")->required();
  app.add_flag("--replace", options->replace, "delete what Redis and the database hold now");
  app.add_option("--erase", options->erase, "readers who were erased after the backup was made: an id a line")
      ->type_name("FILE");
  app.add_flag("--json", options->json, kJsonHelp);
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

const char* const kVisitorHelp =
    "A visitor is \"u…\" (a user of the site), \"c…\" (a cookie that the service signed) or \"a…\" (an "
    "address, of IPv6\nthe /64, and a User-Agent), as the service counts them. It is remembered for "
    "limits.contribution_ttl what each added.";

void add_visitor_options(CLI::App& app, VisitorSelector& visitors) {
  app.add_option("VISITOR", visitors.names, "as `freshetctl top-contributors` names them");
  app.add_option("--reader", visitors.readers, "the site's user of this id; may be repeated")
      ->type_name("ID")
      ->allow_extra_args(false);
  app.add_option("--address", visitors.address, "who came anonymously and without a cookie from here …")
      ->type_name("IP");
  app.add_option("--agent", visitors.agent, "… with this User-Agent")->type_name("TEXT");
  app.add_option("--network", visitors.network,
                 "all who came from this network last: 192.0.2.0/24, or as `freshetctl top-contributors` prints it")
      ->type_name("NET");
}

CommandAction top_contributors_command(CLI::App& app) {
  auto options = std::make_shared<TopContributorsOptions>();
  add_visitor_options(app, options->visitors);
  app.add_option("--top", options->top, "so many of those who added the most, when none is named")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_flag("--json", options->json, kJsonHelp);
  app.footer(kVisitorHelp);
  return [options](const Target& target) { return run_top_contributors(*options, target); };
}

CommandAction revert_visitor_command(CLI::App& app) {
  auto options = std::make_shared<RevertVisitorOptions>();
  add_visitor_options(app, options->visitors);
  app.add_flag("-n,--dry-run", options->dry_run, "only show it");
  app.add_flag("--json", options->json, kJsonHelp);
  app.footer(std::string(kVisitorHelp) +
             "\nPage views, reading time, views and their scores are as if the visitor had never come; "
             "lists show it at once.\nThe count of visitors is an estimate, and so is what is taken from it. "
             "Who comes again counts again, though not\nas a visitor of the same article: to keep somebody "
             "out, name them in clients.deny_file. It cannot be undone.");
  return [options](const Target& target) { return run_revert_visitor(*options, target); };
}

CommandAction doctor_command(CLI::App& app) {
  auto options = std::make_shared<DoctorOptions>();
  app.add_flag("--json", options->json, kJsonHelp);
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

CommandAction status_command(CLI::App& app) {
  auto options = std::make_shared<StatusOptions>();
  app.add_flag("--json", options->json, "the pool's own JSON");
  app.add_option("--socket", options->socket, "the pool's unix socket, for the length of its listen queue");
  return [options](const Target& target) { return run_status(*options, target); };
}

constexpr std::array kOperationCommands{
    Command{"status", "What the pool says of itself, and the length of its listen queue", status_command},
    Command{"doctor", "Check a deployment and name the cure of each finding", doctor_command},
    Command{"check", "Verify what must hold in a running instance's Redis", check_command},
    Command{"backup", "Save everything that is durable, while the service runs", backup_command},
    Command{"restore", "Make a backup the state of a service that does not run", restore_command},
    Command{"top-contributors", "Who added how much to the counters", top_contributors_command},
    Command{"revert-visitor", "Take back what visitors added to the counters", revert_visitor_command},
    Command{"rebuild-rank", "Make hot:rank anew from the counters, after a change of half-life or weights",
            rebuild_rank_command},
    Command{"rebuild-redis", "Give a Redis that lost its items them back from the database",
            rebuild_redis_command},
    Command{"repartition", "Put the articles of a Redis Cluster into as many groups as redis.partitions says",
            repartition_command},
    Command{"reindex", "Make the search index anew from the database", reindex_command},
};

}  // namespace

std::span<const Command> operation_commands() { return kOperationCommands; }

}  // namespace freshet::ctl
