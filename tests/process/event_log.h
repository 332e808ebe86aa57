// What a fake companion notes of its life: a line "<what> <pid>" for each thing, in a file that all
// of them share.
#pragma once

#include <string>

namespace freshet::testing {

class EventLog {
 public:
  explicit EventLog(const std::string& path);
  void record(const std::string& event) const;
  bool is_only_process() const;  // no other process has called it and lives

  // Notes what a companion should not have of its master: "signalfd", and "listens" for each listen
  // socket other than its own.
  void record_inherited_fds(int own_listen_fd = -1) const;

 private:
  int fd_;
};

}  // namespace freshet::testing
