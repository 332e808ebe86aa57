#include "fcgi/process/old_master.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

extern "C" {
#include <sys/pidfd.h>  // the header of glibc 2.36 lacks extern "C"
}

namespace freshet {
namespace {

// Pidfd of the process that created the channel. Empty if it has been reaped already.
Descriptor peer_process(const Channel& channel) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(channel.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return Descriptor();
  return Descriptor(pidfd_open(peer.pid, 0));
}

bool process_has_ended(const Descriptor& process) {
  pollfd process_poll{process.get(), POLLIN, 0};
  return poll(&process_poll, 1, 0) > 0;
}

}  // namespace

OldMaster::OldMaster(Handover handover)
    : channel_(std::move(handover.channel)),
      process_(peer_process(channel_)),
      lease_(std::move(handover.lease)),
      serving_(true) {
  // The new master notices the old one's end on the channel, in order with the messages. A signal
  // could overtake the last message.
  prctl(PR_SET_PDEATHSIG, 0);
}

void OldMaster::report_ready() {
  if (!std::exchange(reported_ready_, true)) channel_.send_message('R');
}

void OldMaster::forward_signal(int signal) const {
  if (!channel_.is_closed()) channel_.send_message(signal == SIGUSR1 ? 'U' : signal == SIGQUIT ? 'Q' : 'T');
}

void OldMaster::read_channel() {
  if (channel_.is_closed() && process_has_ended(process_)) process_.reset();
  const auto message = channel_.receive_message();
  if (message && message->front() == 'G') serving_ = false;
}

void OldMaster::check_lease() {
  char byte = 0;
  if (read(lease_.get(), &byte, 1) == 0) lease_.reset();
}

}  // namespace freshet
