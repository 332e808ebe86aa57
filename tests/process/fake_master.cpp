#include "tests/process/fake_master.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "core/base/log.h"
#include "core/config/config.h"
#include "tests/process/fake_recorder.h"
#include "tests/process/fake_status.h"
#include "tests/process/fake_worker.h"

namespace freshet::testing {

void set_up_fake_master(const std::string& folder) {
  const int log_fd = open((folder + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  dup2(log_fd, STDERR_FILENO);
  close(log_fd);
  setenv("NOTIFY_SOCKET", (folder + "/notify").c_str(), 1);
  log::open("stderr", "debug");
}

namespace {

Result<GenerationSpec> read_spec(const std::string& folder) {
  auto loaded = load_config(folder + "/freshet.toml");
  if (!loaded) return tl::unexpected(loaded.error());
  if (loaded->settings.pool.ping_response == "loader throws")
    throw std::runtime_error("thrown by the loader");
  std::string secret = "none";
  std::ifstream(folder + "/secret") >> secret;
  return GenerationSpec{std::move(*loaded),
                        [secret](WorkerContext& context) { return fake_worker(context, secret); },
                        [secret, events = folder + "/recorder-events"](const Settings& settings) {
                          return fake_recorder(settings, secret, events);
                        }};
}

}  // namespace

int run_fake_master(const FakeMaster& fake, Scoreboard& board, std::optional<Handover> handover) {
  const auto load = [&] { return read_spec(fake.folder); };
  auto spec = load();
  if (!spec) return 99;
  MasterOptions options;
  options.allow_root = true;
  options.ready_timeout = fake.ready_timeout;
  options.status_main = [&](const Settings& settings, int fd) {
    return fake_status(settings, fd, fake.folder + "/status-events");
  };
  options.program = fake.program;
  options.handover_state = fake.handover_state;
  options.limits_fd = fake.limits_fd;
  return run_master(std::move(*spec), board, load, options, std::move(handover));
}

}  // namespace freshet::testing
