// The old master, seen from the master of a new binary that was started to take its place
// (handover.h). A master that nobody went before has one that is over from the beginning.
#pragma once

#include "fcgi/process/handover.h"

namespace freshet {

class OldMaster {
 public:
  OldMaster() = default;
  explicit OldMaster(Handover handover);

  // The old one is the service's main process still.
  bool is_serving() const { return serving_; }
  // It has ended: what may come after it would not meet it any more.
  bool has_ended() const { return channel_.is_closed() && process_.get() < 0; }
  // No recorder of the old one lives or can come to live.
  bool has_recorder_ended() const { return lease_.get() < 0; }

  void report_ready();                // once
  void forward_signal(int signal) const;  // TERM, QUIT or USR1, to what is left of it
  void read_channel();                     // afterwards serves() or over() may have changed
  void check_lease();            // when it is readable

  // What hear() is called for when it is readable; −1 once over().
  int fd() const { return channel_.is_closed() ? process_.get() : channel_.fd(); }
  int process_fd() const { return process_.get(); }
  int channel_fd() const { return channel_.fd(); }
  int lease_fd() const { return lease_.get(); }

 private:
  Channel channel_{Descriptor()};
  Descriptor process_;  // closing its end of the channel is not yet the end of a process
  Descriptor lease_;
  bool serving_ = false;
  bool reported_ready_ = false;
};

}  // namespace freshet
