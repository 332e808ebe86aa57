// The listen socket: taken from systemd (LISTEN_FDS) or made here. Shared by all workers, non-blocking,
// close-on-exec.
#pragma once

#include <sys/stat.h>

#include <string>

#include "core/base/result.h"
#include "core/base/settings.h"

namespace freshet {

class Listener {
 public:
  // A socket passed by systemd wins over listen.address; when several were passed, the one bound to that
  // address. Else binds listen.address. A unix socket's file gets owner, group and mode before anybody can
  // connect; one that is left over is removed only after connect() was refused. Errors: kConflict
  // "address_in_use" (somebody listens there), kInvalid "bad_listen". Consumes LISTEN_FDS from the
  // environment. Call once, before forking.
  static Result<Listener> open(const PoolSettings& pool);

  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;
  // Closes the socket. The file is removed if this process made it and it is still the same file, so that a
  // successor's stays.
  ~Listener();

  // Takes no more connections: new ones are refused at once. (A socket of systemd's stays open there and its
  // queue waits for the next master.)
  void close();
  int fd() const { return fd_; }  // −1 once closed
  bool from_systemd() const { return from_systemd_; }
  // The new length of the queue, at reload. That of a socket from systemd is its unit's business and stays.
  void set_backlog(int backlog) const;

 private:
  Listener(int fd, bool from_systemd) : fd_(fd), from_systemd_(from_systemd) {}
  void remember_file(const std::string& path);
  static Result<Listener> bind_unix(const PoolSettings& pool);
  static Result<Listener> bind_tcp(const PoolSettings& pool);

  int fd_;
  bool from_systemd_;
  pid_t owner_ = 0;
  std::string path_;  // of the file to remove, empty when none
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace freshet
