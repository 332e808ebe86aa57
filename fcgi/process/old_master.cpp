#include "fcgi/process/old_master.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace freshet {

OldMaster::OldMaster(Handover handover)
    : channel_(std::move(handover.channel)), lease_(std::move(handover.lease)), serves_(true) {
  // Its end is seen on the channel, in its place among the messages; a signal could overtake the
  // last one.
  prctl(PR_SET_PDEATHSIG, 0);
}

void OldMaster::say_ready() {
  if (!std::exchange(said_ready_, true)) channel_.say('R');
}

void OldMaster::pass_on(int signal) const {
  if (!over()) channel_.say(signal == SIGUSR1 ? 'U' : signal == SIGQUIT ? 'Q' : 'T');
}

void OldMaster::hear() {
  const auto message = channel_.hear();
  if (message && message->front() == 'G') serves_ = false;
}

void OldMaster::look_at_lease() {
  char byte = 0;
  if (read(lease_.get(), &byte, 1) == 0) lease_.reset();
}

}  // namespace freshet
