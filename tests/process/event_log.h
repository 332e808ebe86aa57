// Event log of a fake helper process. Several processes append lines "<event> <pid>" to one file.
#pragma once

#include <string>

namespace freshet::testing {

class EventLog {
 public:
  explicit EventLog(const std::string& path);
  void record(const std::string& event) const;
  bool is_only_process() const;  // no other living process has called it

  // Records descriptors that should have been closed: "signalfd", and "listens" for each listen
  // socket other than its own.
  void record_inherited_fds(int own_listen_fd = -1) const;

 private:
  int fd_;
};

}  // namespace freshet::testing
