// The listen sockets: taken from systemd (LISTEN_FDS) or made here. Non-blocking, close-on-exec.
// That of requests is shared by all workers, that of status is the status companion's.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/config/settings.h"

namespace freshet {

// Where to listen, and who may connect.
struct ListenOptions {
  std::string directive;  // that names it, for errors
  std::string address;    // a unix socket's path, or host:port
  int backlog = 1024;
  std::string owner, group;
  int mode = 0660;
};
ListenOptions request_listen_options(const PoolSettings& pool);
// Rights and queue as for requests. REQUIRES: pm.status_listen is not empty.
ListenOptions status_listen_options(const PoolSettings& pool);
bool is_bound_to(int fd, const std::string& address);

// The sockets systemd passed, until somebody takes them. Those that nobody took are closed at the
// end, with a warning each: connections to them wait in systemd's queue.
class SystemdSockets {
 public:
  // Consumes LISTEN_FDS from the environment. Call once, before forking.
  static SystemdSockets from_environment();
  SystemdSockets(SystemdSockets&& other) noexcept : fds_(std::exchange(other.fds_, {})) {}
  SystemdSockets& operator=(SystemdSockets&&) = delete;
  ~SystemdSockets();

  // The one bound to this address (getsockname), a unix path or host:port; −1: none.
  int claim(const std::string& address);
  int claim_any();  // −1: none is left

 private:
  SystemdSockets() = default;
  std::vector<int> fds_;
};

class Listener {
 public:
  // A unix socket's file gets owner, group and mode before anybody can connect; one that is left
  // over is removed only after connect() was refused. Errors: kConflict "address_in_use" (somebody
  // listens there), kInvalid "bad_listen".
  static Result<Listener> bind(const ListenOptions& options);
  // A socket that was passed, whatever it is bound to.
  static Listener adopt(int fd, bool from_systemd);

  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;
  // Closes the socket. The file is removed if this process made it and it is still the same file,
  // so that a successor's stays.
  ~Listener();

  // Takes no more connections: new ones are refused at once. (A socket of systemd's stays open
  // there and its queue waits for the next master.)
  void close();
  int fd() const { return fd_; }  // −1 once closed
  bool from_systemd() const { return from_systemd_; }
  // From now on the file is this process' to remove, if a master made it; and no longer.
  void take_file_ownership(const std::string& path);
  void release_file_ownership() { file_path_.clear(); }
  // The new length of the queue, at reload. That of a socket from systemd is its unit's business
  // and stays.
  void set_backlog(int backlog) const;

 private:
  Listener(int fd, bool from_systemd) : fd_(fd), from_systemd_(from_systemd) {}
  static Result<Listener> bind_unix(const ListenOptions& options);
  static Result<Listener> bind_tcp(const ListenOptions& options);

  int fd_;
  bool from_systemd_;
  pid_t owner_pid_ = 0;
  std::string file_path_;  // of the file to remove, empty when none
  dev_t file_device_ = 0;
  ino_t file_inode_ = 0;
};

// What a master listens on.
struct Listeners {
  Listener requests;
  std::optional<Listener> status;  // none: pm.status_listen is empty, or `with_status` was false
};
// Sockets that were passed win over the file: each serves the address it is bound to, and one that
// is bound to neither serves requests when no other does. What was not passed is bound here.
Result<Listeners> open_listeners(const PoolSettings& pool, SystemdSockets systemd_sockets, bool with_status);

}  // namespace freshet
