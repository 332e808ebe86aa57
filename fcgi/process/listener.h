// Listen sockets, passed by systemd (LISTEN_FDS) or bound here. Non-blocking and close-on-exec. All
// workers share the one for requests; the status process has its own.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/config/settings.h"

namespace freshet {

// Address of a listen socket, with the permissions of its file.
struct ListenOptions {
  std::string directive;  // setting that names it, for errors
  std::string address;    // path of a unix socket, or host:port
  int backlog = 1024;
  std::string owner, group;
  int mode = 0660;
};
ListenOptions request_listen_options(const PoolSettings& pool);
// Uses the permissions and backlog of the request socket. REQUIRES: pm.status_listen is not empty.
ListenOptions status_listen_options(const PoolSettings& pool);
bool is_bound_to(int fd, const std::string& address);

// Sockets passed by systemd that have not been claimed yet. The destructor closes the rest and logs
// a warning for each, because connections to them would wait in systemd's queue.
class SystemdSockets {
 public:
  // Reads LISTEN_FDS and removes it from the environment. Call once, before forking.
  static SystemdSockets from_environment();
  SystemdSockets(SystemdSockets&& other) noexcept : fds_(std::exchange(other.fds_, {})) {}
  SystemdSockets& operator=(SystemdSockets&&) = delete;
  ~SystemdSockets();

  // Returns the socket that is bound to this address, a unix path or host:port, or −1.
  int claim(const std::string& address);
  int claim_any();  // −1: none is left

 private:
  SystemdSockets() = default;
  std::vector<int> fds_;
};

class Listener {
 public:
  // Sets owner, group and mode of a unix socket's file before anyone can connect. Replaces a stale
  // file only if connect() was refused. Errors: kConflict "address_in_use" if another process
  // listens there, kInvalid "bad_listen".
  static Result<Listener> bind(const ListenOptions& options);
  // Checks, for `freshetd -t`, that bind() could succeed, but not whether the address is in use.
  // Error: "bad_listen", kForbidden if the service may succeed nevertheless (runtime_files.h), else
  // kInvalid.
  static Result<void> check(const ListenOptions& options);
  // Accepts a passed socket, whatever it is bound to.
  static Listener adopt(int fd, bool from_systemd);

  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;
  // Closes the socket. Removes its file only if this process owns it and it is still the same file,
  // so that a successor's file stays.
  ~Listener();

  // Closes this process's descriptor. Without other holders new connections are refused at once. A
  // socket from systemd stays open there, and connections queue for the next master.
  void close();
  int fd() const { return fd_; }  // −1 once closed
  bool from_systemd() const { return from_systemd_; }
  // Makes this process responsible for removing the file, or no longer. Has no effect on a socket
  // from systemd.
  void take_file_ownership(const std::string& path);
  void release_file_ownership() { file_path_.clear(); }
  // Sets the backlog at a reload. Has no effect on a socket from systemd, whose unit sets it.
  void set_backlog(int backlog) const;

 private:
  Listener(int fd, bool from_systemd) : fd_(fd), from_systemd_(from_systemd) {}
  static Result<Listener> bind_unix(const ListenOptions& options);
  static Result<Listener> bind_tcp(const ListenOptions& options);

  int fd_;
  bool from_systemd_;
  pid_t owner_pid_ = 0;
  std::string file_path_;  // to be removed; empty: none
  dev_t file_device_ = 0;
  ino_t file_inode_ = 0;
};

// The listen sockets of a master.
struct Listeners {
  Listener requests;
  std::optional<Listener> status;  // empty: pm.status_listen is empty, or `with_status` was false
};
// Uses the sockets passed by systemd for the addresses they are bound to. If none is bound to the
// request address, uses a remaining one for requests. Binds those that were not passed.
Result<Listeners> open_listeners(const PoolSettings& pool, SystemdSockets systemd_sockets, bool with_status);

}  // namespace freshet
