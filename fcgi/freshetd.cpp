// freshetd: the master's main. Reads the command line and the configuration, prepares what every worker
// inherits, runs the pool.

#include <iostream>
#include <memory>

#include "core/base/config.h"
#include "core/base/log.h"
#include "fcgi/handlers/routes.h"
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

// What the newest accepted configuration needs beside itself. Replaced at a reload, before the new workers
// are forked.
struct State {
  std::string random_salt;  // stays the same over reloads and upgrades
  Prepared prepared;
};

Result<Loaded> load(const Options& options, State& state) {
  auto loaded = load_config(options.config);
  if (!loaded) return loaded;
  auto prepared = prepare(loaded->settings, state.random_salt);
  if (!prepared) return tl::unexpected(prepared.error());
  state.prepared = std::move(*prepared);
  return loaded;
}

int run(const Options& options, Program program) {
  auto handover = Handover::receive();
  if (!handover) {
    std::cerr << handover.error().detail << "\n";
    return kExitSoftware;
  }
  State state{*handover ? (*handover)->keepsake : make_random_salt(), {}};
  auto loaded = load(options, state);
  if (!loaded) {
    std::cerr << loaded.error().detail << "\n";
    return kExitConfig;
  }
  log::open(loaded->settings.error_log, loaded->settings.log_level);
  for (const std::string& warning : loaded->warnings) log::warning("config", {{"text", warning}});
  MasterOptions master;
  master.allow_root = options.allow_root;
  master.program = std::move(program);
  master.program.test = {master.program.arguments[0], "-t", "-y", options.config};
  master.keepsake = state.random_salt;
  if (options.daemonize && !*handover) {  // a new binary is in the background already
    auto started = daemonize();
    if (!started) {
      std::cerr << started.error().detail << "\n";
      return kExitSoftware;
    }
    master.on_started = std::move(*started);
  }
  Scoreboard board(scoreboard_slots(loaded->settings));
  handlers::name_routes(loaded->settings, board);
  master.recorder = [&](const Settings& settings) {
    return run_recorder(settings, state.prepared, board.recorder_report());
  };
  master.status = [&](const Settings& settings, int listen_fd) {
    return run_status(settings, board, listen_fd);
  };
  const auto reload = [&] {
    auto next = load(options, state);
    if (next) handlers::name_routes(next->settings, board);
    return next;
  };
  return run_master(
      std::move(loaded->settings), board, reload,
      [&](WorkerContext& context) { return run_worker(context, state.prepared); }, master,
      std::move(*handover));
}

}  // namespace

int main(int argc, char* argv[]) {
  const Options options = parse_options(argc, argv);
  switch (options.action) {
    case Options::Action::kVersion:
      std::cout << version_text();
      return 0;
    case Options::Action::kHelp:
      std::cout << help_text();
      return 0;
    case Options::Action::kUsage:
      std::cerr << "freshetd: " << options.error << "\n" << help_text();
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
