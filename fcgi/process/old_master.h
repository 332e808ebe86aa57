// The old master, as seen by the master of a new binary that is to replace it (handover.h).
// Default-constructed for a master without a predecessor: it has ended from the start.
#pragma once

#include "fcgi/process/handover.h"

namespace freshet {

class OldMaster {
 public:
  OldMaster() = default;
  explicit OldMaster(Handover handover);

  // The old master is still the service's main process.
  bool is_serving() const { return serving_; }
  // Its process has ended, and not only closed the channel.
  bool has_ended() const { return channel_.is_closed() && process_.get() < 0; }
  // No recorder of the old master runs or can still start.
  bool has_recorder_ended() const { return lease_.get() < 0; }

  void report_ready();                    // has an effect once
  void forward_signal(int signal) const;  // TERM, QUIT or USR1
  void read_channel();                    // is_serving() and has_ended() may change
  void check_lease();                     // call when lease_fd() is readable

  // Descriptor to poll for read_channel(); −1 once has_ended().
  int fd() const { return channel_.is_closed() ? process_.get() : channel_.fd(); }
  int process_fd() const { return process_.get(); }
  int channel_fd() const { return channel_.fd(); }
  int lease_fd() const { return lease_.get(); }

 private:
  Channel channel_{Descriptor()};
  Descriptor process_;  // pidfd: the channel may close before the process ends
  Descriptor lease_;
  bool serving_ = false;
  bool reported_ready_ = false;
};

}  // namespace freshet
