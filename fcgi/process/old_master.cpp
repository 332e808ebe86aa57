#include "fcgi/process/old_master.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

extern "C" {
#include <sys/pidfd.h>  // of glibc 2.36: it does not say so itself
}

namespace freshet {
namespace {

// Who made the channel. None when it is reaped already.
Descriptor process_behind(const Channel& channel) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(channel.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return Descriptor();
  return Descriptor(pidfd_open(peer.pid, 0));
}

bool has_ended(const Descriptor& process) {
  pollfd watched{process.get(), POLLIN, 0};
  return poll(&watched, 1, 0) > 0;
}

}  // namespace

OldMaster::OldMaster(Handover handover)
    : channel_(std::move(handover.channel)),
      process_(process_behind(channel_)),
      lease_(std::move(handover.lease)),
      serves_(true) {
  // Its end is seen on the channel, in its place among the messages; a signal could overtake the
  // last one.
  prctl(PR_SET_PDEATHSIG, 0);
}

void OldMaster::say_ready() {
  if (!std::exchange(said_ready_, true)) channel_.say('R');
}

void OldMaster::pass_on(int signal) const {
  if (!channel_.over()) channel_.say(signal == SIGUSR1 ? 'U' : signal == SIGQUIT ? 'Q' : 'T');
}

void OldMaster::hear() {
  if (channel_.over() && has_ended(process_)) process_.reset();
  const auto message = channel_.hear();
  if (message && message->front() == 'G') serves_ = false;
}

void OldMaster::look_at_lease() {
  char byte = 0;
  if (read(lease_.get(), &byte, 1) == 0) lease_.reset();
}

}  // namespace freshet
