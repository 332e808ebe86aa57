// A real master with fake workers, a fake recorder and a fake status companion, over files in one
// folder: freshet.toml, secret (a word that is read with it, or there is none), log, diary (of the
// recorder), status-diary, notify (the socket where systemd would listen).
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "fcgi/process/master.h"

namespace freshet::testing {

struct FakeMaster {
  std::string folder;
  std::chrono::milliseconds ready_timeout{20000};
  Program program;
  std::string handover_state;
  int limits_fd = -1;
};

// Points stderr to the folder's log and NOTIFY_SOCKET to its notify.
void set_up_fake_master(const std::string& folder);
// Returns the exit status; 99 when the first configuration is bad.
int run_fake_master(const FakeMaster& fake, Scoreboard& board, std::optional<Handover> handover = {});

}  // namespace freshet::testing
