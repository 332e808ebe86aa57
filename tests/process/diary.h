// What a fake companion notes of its life: a line "<what> <pid>" for each thing, in a file that all
// of them share.
#pragma once

#include <string>

namespace freshet::testing {

class Diary {
 public:
  explicit Diary(const std::string& path);
  void note(const std::string& what) const;
  bool alone() const;  // no other process has called it and lives

  // Notes what a companion should not have of its master: "signalfd", and "listens" for each listen
  // socket other than its own.
  void note_what_is_the_masters(int own_listen_fd = -1) const;

 private:
  int fd_;
};

}  // namespace freshet::testing
