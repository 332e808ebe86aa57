// Main function of freshetd: reads the command line and the configuration, loads what every worker
// inherits, and runs the master.

#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#include <iostream>
#include <memory>
#include <utility>

#include "core/base/log.h"
#include "core/config/config.h"
#include "core/config/tuning.h"
#include "fcgi/handlers/routes.h"
#include "fcgi/model_publisher_process.h"
#include "fcgi/options.h"
#include "fcgi/process/child.h"
#include "fcgi/process/daemonize.h"
#include "fcgi/process/master.h"
#include "fcgi/recorder.h"
#include "fcgi/shared_tables.h"
#include "fcgi/startup_files.h"
#include "fcgi/status_process.h"
#include "fcgi/worker.h"

namespace {

using namespace freshet;

// Everything that the master reads from files, once per generation.
struct ServiceConfig {
  LoadedConfig configuration;
  std::shared_ptr<const StartupFiles> startup_files;
};

Result<ServiceConfig> load_service_config(const Options& options, const std::string& random_salt) {
  FRESHET_TRY(loaded, load_config(options.config));
  FRESHET_TRY(prepared, load_startup_files(loaded->settings, random_salt));
  return ServiceConfig{std::move(*loaded), std::make_shared<const StartupFiles>(std::move(*prepared))};
}

GenerationSpec make_generation_spec(ServiceConfig config, Scoreboard& board, SharedTables& tables,
                                    model::ModelHandoff& model_handoff) {
  const auto prepared = std::move(config.startup_files);
  return {
      std::move(config.configuration),
      [prepared, &tables, &model_handoff](WorkerContext& context) {
        return run_worker(context, *prepared, tables, model_handoff);
      },
      [prepared, &board](const Settings& settings) {
        return run_recorder(settings, *prepared, board.recorder_report());
      },
      [&model_handoff](const Settings& settings) { return run_model_publisher(settings, model_handoff); }};
}

// Adopts the table of the previous master if there is one, else creates an empty one.
TokenBucketTable make_bucket_table(std::size_t bytes, Handover* previous) {
  if (previous != nullptr && previous->limits.get() >= 0) {
    auto table = TokenBucketTable::adopt(std::move(previous->limits), bytes);
    if (table) return std::move(*table);
    log::warning("limit_table_reset", {{"error", table.error().detail}});
  }
  return TokenBucketTable(bytes);
}

// Tells whether the values of tune.file changed since the configuration was read.
class TunedFileWatch {
 public:
  void set_path(const std::string& path) {
    if (std::exchange(path_, path) == path) return;
    version_ = read_version();
    values_ = read_values();
  }
  // True once for each change, so that a reload that fails is not repeated.
  bool has_changed() {
    const auto version = read_version();
    if (std::exchange(version_, version) == version) return false;
    auto values = read_values();
    return std::exchange(values_, values) != values;
  }

 private:
  // Inode and modification time; zeros without a file.
  using Version = std::pair<ino_t, std::int64_t>;
  Version read_version() const {
    struct stat found {};
    if (path_.empty() || stat(path_.c_str(), &found) != 0) return {};
    return {found.st_ino, found.st_mtim.tv_sec * 1'000'000'000 + found.st_mtim.tv_nsec};
  }

  using Values = decltype(Tuning::values);
  Values read_values() const {
    auto tuning = load_tuning(path_, wall_now());
    return tuning ? std::move(tuning->values) : Values();
  }

  std::string path_;
  Version version_{};
  Values values_;
};

int run(const Options& options, Program program) {
  auto handover = Handover::from_environment();
  if (!handover) {
    std::cerr << handover.error().detail << "\n";
    return kExitSoftware;
  }
  // Constant across reloads and upgrades.
  const std::string random_salt = *handover ? (*handover)->opaque_state : make_random_salt();
  auto first = load_service_config(options, random_salt);
  if (!first) {
    std::cerr << first.error().detail << "\n";
    return kExitConfig;
  }
  const Settings& settings = first->configuration.settings;
  log::open(settings.error_log, settings.log_level);
  for (const std::string& warning : first->configuration.warnings)
    log::warning("config_warning_issued", {{"text", warning}});
  TunedFileWatch tuned_file;
  tuned_file.set_path(settings.tune_file);
  MasterOptions master;
  master.needs_reload = [&tuned_file] { return tuned_file.has_changed(); };
  master.allow_root = options.allow_root;
  master.program = std::move(program);
  master.program.test_arguments = {master.program.arguments[0], "-t", "-y", options.config};
  master.handover_state = random_salt;
  if (options.daemonize && !*handover) {  // a new binary already runs in the background
    auto started = daemonize();
    if (!started) {
      std::cerr << started.error().detail << "\n";
      return kExitSoftware;
    }
    master.on_started = std::move(*started);
  }
  Scoreboard board(scoreboard_slot_count(settings));
  // The daily counts are lost in a binary upgrade, so each network's allowances start over.
  SharedTables tables{
      .limits = {make_bucket_table(settings.limits.table_bytes, *handover ? &**handover : nullptr),
                 DailyCountTable(settings.limits.table_bytes / 4)},
      .last_lists = {}};
  master.limits_fd = tables.limits.buckets.fd();
  model::ModelHandoff model_handoff;
  const auto name_routes = [&board](const Settings& serving) {
    handlers::publish_route_names(serving, board);
  };
  name_routes(settings);
  master.on_reloaded = name_routes;
  master.status_main = [&board](const Settings& serving, int listen_fd) {
    return run_status_process(serving, board, listen_fd);
  };
  const auto load = [&]() -> Result<GenerationSpec> {
    static_cast<void>(tuned_file.has_changed());  // this reads it, whatever caused the reload
    FRESHET_TRY(next, load_service_config(options, random_salt));
    tuned_file.set_path(next->configuration.settings.tune_file);
    return make_generation_spec(std::move(*next), board, tables, model_handoff);
  };
  return run_master(make_generation_spec(std::move(*first), board, tables, model_handoff), board, load,
                    master, std::move(*handover));
}

// The checks of -t. Where systemd runs, the unit's User= decides whether the service is root.
Result<std::vector<std::string>> check_start(const Options& options, const Settings& settings) {
  auto warnings = check_startup_files(settings);
  if (!warnings || sd_booted() > 0) return warnings;
  if (const auto ok = check_user(settings.pool, options.allow_root); !ok)
    warnings->push_back("user: a start as root is refused: " + ok.error().detail);
  return warnings;
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
      return test_config(options, std::cerr,
                         [&](const Settings& settings) { return check_start(options, settings); });
    case Options::Action::kRun:
      break;
  }
  try {
    return run(options, current_program(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "freshetd: " << error.what() << "\n";
    return kExitSoftware;
  }
}
