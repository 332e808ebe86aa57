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
  bool serves() const { return serves_; }
  // It has ended: what may come after it would not meet it any more.
  bool over() const { return channel_.over() && process_.get() < 0; }
  // No recorder of the old one lives or can come to live.
  bool recorder_ended() const { return lease_.get() < 0; }

  void say_ready();                // once
  void pass_on(int signal) const;  // TERM, QUIT or USR1, to what is left of it
  void hear();                     // afterwards serves() or over() may have changed
  void look_at_lease();            // when it is readable

  // What hear() is called for when it is readable; −1 once over().
  int fd() const { return channel_.over() ? process_.get() : channel_.fd(); }
  int process_fd() const { return process_.get(); }
  int channel_fd() const { return channel_.fd(); }
  int lease_fd() const { return lease_.get(); }

 private:
  Channel channel_{Descriptor()};
  Descriptor process_;  // closing its end of the channel is not yet the end of a process
  Descriptor lease_;
  bool serves_ = false;
  bool said_ready_ = false;
};

}  // namespace freshet
