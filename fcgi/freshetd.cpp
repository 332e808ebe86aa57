// freshetd: the master's main. Reads the command line and the configuration, prepares what every
// worker inherits, runs the pool.

#include <iostream>
#include <memory>

#include "core/base/limit_table.h"
#include "core/base/log.h"
#include "core/config/config.h"
#include "fcgi/handlers/routes.h"
#include "fcgi/model_process.h"
#include "fcgi/options.h"
#include "fcgi/prepare.h"
#include "fcgi/process/child.h"
#include "fcgi/process/daemonize.h"
#include "fcgi/process/master.h"
#include "fcgi/recorder.h"
#include "fcgi/status_process.h"
#include "fcgi/worker.h"

namespace {

using namespace freshet;

// Everything that is read of files: by the master, anew for each generation.
struct Configured {
  LoadedConfig loaded;
  std::shared_ptr<const Prepared> prepared;
};

Result<Configured> configure(const Options& options, const std::string& random_salt) {
  FRESHET_TRY(loaded, load_config(options.config));
  FRESHET_TRY(prepared, prepare(loaded->settings, random_salt));
  return Configured{std::move(*loaded), std::make_shared<const Prepared>(std::move(*prepared))};
}

Plan plan(Configured configured, Scoreboard& board, TokenBucketTable& limits, model::ModelHandoff& shelf) {
  const auto prepared = std::move(configured.prepared);
  return {std::move(configured.loaded),
          [prepared, &limits, &shelf](WorkerContext& context) {
            return run_worker(context, *prepared, limits, shelf);
          },
          [prepared, &board](const Settings& settings) {
            return run_recorder(settings, *prepared, board.recorder_report());
          },
          [&shelf](const Settings& settings) { return run_model_keeper(settings, shelf); }};
}

// That of the master before, as it stands; else an empty one.
TokenBucketTable limit_table(std::size_t bytes, Handover* before) {
  if (before != nullptr && before->limits.get() >= 0) {
    auto table = TokenBucketTable::adopt(std::move(before->limits), bytes);
    if (table) return std::move(*table);
    log::warning("limits_start_empty", {{"why", table.error().detail}});
  }
  return TokenBucketTable(bytes);
}

int run(const Options& options, Program program) {
  auto handover = Handover::receive();
  if (!handover) {
    std::cerr << handover.error().detail << "\n";
    return kExitSoftware;
  }
  // Stays the same over reloads and upgrades.
  const std::string random_salt = *handover ? (*handover)->state : make_random_salt();
  auto first = configure(options, random_salt);
  if (!first) {
    std::cerr << first.error().detail << "\n";
    return kExitConfig;
  }
  const Settings& settings = first->loaded.settings;
  log::open(settings.error_log, settings.log_level);
  for (const std::string& warning : first->loaded.warnings) log::warning("config", {{"text", warning}});
  MasterOptions master;
  master.allow_root = options.allow_root;
  master.program = std::move(program);
  master.program.test = {master.program.arguments[0], "-t", "-y", options.config};
  master.state = random_salt;
  if (options.daemonize && !*handover) {  // a new binary is in the background already
    auto started = daemonize();
    if (!started) {
      std::cerr << started.error().detail << "\n";
      return kExitSoftware;
    }
    master.on_started = std::move(*started);
  }
  Scoreboard board(scoreboard_slots(settings));
  TokenBucketTable limits = limit_table(settings.limits.table_bytes, *handover ? &**handover : nullptr);
  master.limits_fd = limits.fd();
  model::ModelHandoff shelf;
  const auto name_routes = [&board](const Settings& serving) { handlers::publish_route_names(serving, board); };
  name_routes(settings);
  master.on_reloaded = name_routes;
  master.status = [&board](const Settings& serving, int listen_fd) {
    return run_status(serving, board, listen_fd);
  };
  const auto load = [&]() -> Result<Plan> {
    FRESHET_TRY(next, configure(options, random_salt));
    return plan(std::move(*next), board, limits, shelf);
  };
  return run_master(plan(std::move(*first), board, limits, shelf), board, load, master, std::move(*handover));
}

}  // namespace

int main(int argc, char* argv[]) {
  const Options options = parse_options(argc, argv);
  switch (options.action) {
    case Options::Action::kVersion:
    case Options::Action::kHelp:
      std::cout << options.text;
      return 0;
    case Options::Action::kUsage:
      std::cerr << "freshetd: " << options.text << "Run with --help for the options.\n";
      return kExitUsage;
    case Options::Action::kTest:
    case Options::Action::kDump:
      return test_config(options, std::cerr, [](const Settings& settings) {
        return read_clients(settings.clients).map([](const http::ClientLists&) {});
      });
    case Options::Action::kRun:
      break;
  }
  try {
    return run(options, this_program(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "freshetd: " << error.what() << "\n";
    return kExitSoftware;
  }
}
