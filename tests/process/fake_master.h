// A real master with fake workers, recorder and status process. Uses one folder with these files:
//   freshet.toml
//   secret            a word that is read with the configuration; optional
//   log               stderr of the service
//   recorder-events   event log of the recorder
//   status-events     event log of the status process
//   notify            the socket where systemd would listen
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

// Redirects stderr to the folder's log and points NOTIFY_SOCKET to its notify.
void set_up_fake_master(const std::string& folder);
// Returns the exit status; 99 if the first configuration is invalid.
int run_fake_master(const FakeMaster& fake, Scoreboard& board, std::optional<Handover> handover = {});

}  // namespace freshet::testing
