// What a master gives to the master of a new binary that is to take its place, and what the two say
// to each other. The new one is started with the old one's arguments and environment and
//
//   descriptors 3 to 5            the listen socket of requests, the channel, the lease
//   6, 7                          if there are: the listen socket of status, the table of limits
//   FRESHET_HANDOVER              "<generation> <workers> <requests> <status> <limits>": what
//   serves in the
//                                 old master; of each socket where it comes from: systemd, made (by
//                                 a master), or none; and "limits" or "none"
//
// On the channel, a message each:
//   old → new   K<state>  first: what main() wants to keep over upgrades
//               G            go: it is the service's main process from now on
//   new → old   R            its workers are ready
//               T, Q, U      once it went: it got TERM, QUIT or USR1, which is meant for what is
//               left of the old
// Each sees the other's end as the end of the channel.
//
// The lease is the reading end of a pipe whose other end is held by the old master and its recorder
// alone. Its end is read when the recorder has ended, however it and its master came to that: only
// then may the next recorder start.
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
  int fd() const { return socket_.get(); }  // −1 once the other has ended
  void send_message(char type, const std::string& payload = "") const;
  // The next message, without waiting. None when there is none yet, or never more: then over().
  std::optional<std::string> receive_message();
  bool is_closed() const { return socket_.get() < 0; }
  // Leaves this end open for as long as the process lives.
  void leave_open() { socket_.release(); }

 private:
  Descriptor socket_;
};

// What the new master got.
struct Handover {
  // Of what the environment announces, which is cleaned of it; none when this process was not
  // started by another master. Waits for the state. Error: kInvalid "bad_handover". Call once,
  // before forking.
  static Result<std::optional<Handover>> from_environment();
  // Makes listeners of its sockets. Error: kInvalid "bad_listen" when the settings name other
  // addresses.
  Result<Listeners> adopt_listeners(const PoolSettings& pool, bool with_status);

  std::uint32_t generation = 0;  // that serves in the old master
  std::size_t workers = 0;       // of that
  Descriptor requests, status;
  Descriptor limits;  // none: the old binary had none
  bool requests_bound_by_master = false, status_bound_by_master = false;
  Channel channel{Descriptor()};
  Descriptor lease;
  std::string opaque_state;
};

// What the old master gives. Nothing is owned.
struct HandoverFds {
  std::uint32_t generation = 0;
  std::size_t workers = 0;
  const Listeners* listeners = nullptr;
  int lease = -1;
  int limits = -1;  // none
};
// In the freshly forked child, before it executes the new binary: puts the descriptors in their
// places and says so in the environment. Every other one closes at the execution.
void install_handover_fds(const HandoverFds& fds, int channel);

}  // namespace freshet
