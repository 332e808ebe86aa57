// Handover of the service from a running master to the master of a new binary, and the messages
// between them. The new master starts with the old one's arguments and environment and with
//
//   descriptor 3      listen socket for requests
//   descriptor 4      channel
//   descriptor 5      lease
//   descriptor 6      listen socket of the status process, if there is one
//   descriptor 7      rate limit table, if there is one
//   FRESHET_HANDOVER  "<generation> <workers> <requests> <status> <limits>"
//     <generation>, <workers>  what the old master serves, and with how many workers
//     <requests>, <status>     origin of each socket: "systemd", "made" (by a master) or "none"
//     <limits>                 "limits" or "none"
//
// Messages on the channel:
//   old → new  K<state>  first message: the state that main() preserves across upgrades
//              G         go: the receiver is now the service's main process
//   new → old  R         its workers are ready
//              T, Q, U   after G: it received TERM, QUIT or USR1; the old master must handle it too
// When one master ends, the other sees the channel close.
//
// The lease is the read end of a pipe. Only the old master and its recorder hold the write end. It
// reports end of file once the recorder has ended, even if it and its master were killed. Only then
// may the next recorder start.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/descriptor.h"
#include "core/base/result.h"
#include "fcgi/process/listener.h"

namespace freshet {

class Channel {
 public:
  explicit Channel(Descriptor descriptor) : socket_(std::move(descriptor)) {}
  int fd() const { return socket_.get(); }  // −1 once the peer has closed it
  void send_message(char type, const std::string& payload = "") const;
  // Returns the next message without blocking. Empty if there is none; is_closed() tells whether
  // more can come.
  std::optional<std::string> receive_message();
  bool is_closed() const { return socket_.get() < 0; }
  // Leaves this end open until the process ends.
  void leave_open() { socket_.release(); }

 private:
  Descriptor socket_;
};

// The handover as the new master receives it.
struct Handover {
  // Reads FRESHET_HANDOVER and removes it from the environment. Empty if no other master started
  // this process. Waits up to 10 s for the state. Error: kInvalid "bad_handover". Call once, before
  // forking.
  static Result<std::optional<Handover>> from_environment();
  // Turns the received sockets into listeners. Error: kInvalid "bad_listen" if the settings name
  // other addresses.
  Result<Listeners> adopt_listeners(const PoolSettings& pool, bool with_status);

  std::uint32_t generation = 0;  // served by the old master
  std::size_t workers = 0;       // that generation's
  Descriptor requests, status;
  Descriptor limits;  // empty: the old binary had none
  bool requests_bound_by_master = false, status_bound_by_master = false;
  Channel channel{Descriptor()};
  Descriptor lease;
  std::string opaque_state;
};

// Descriptors and numbers that the old master hands over. Owns nothing.
struct HandoverFds {
  std::uint32_t generation = 0;
  std::size_t workers = 0;
  const Listeners* listeners = nullptr;
  int lease = -1;
  int limits = -1;  // −1: none
};
// Call in the forked child before it executes the new binary. Moves the descriptors to their
// numbers, sets FRESHET_HANDOVER, and marks all other descriptors close-on-exec.
void install_handover_fds(const HandoverFds& fds, int channel);

}  // namespace freshet
