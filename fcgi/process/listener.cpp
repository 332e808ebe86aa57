#include "fcgi/process/listener.h"

#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/log.h"

namespace freshet {
namespace {

tl::unexpected<Error> cannot(const std::string& what, const std::string& address) {
  const bool taken = errno == EADDRINUSE;
  return fail(taken ? ErrorCode::kConflict : ErrorCode::kInvalid, taken ? "address_in_use" : "bad_listen",
              "listen.address", what + " " + address + ": " + std::strerror(errno));
}

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

// Closes unless released.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// True when the file may be taken over: it is absent, or nobody answers behind it (then it was removed).
Result<void> clear_stale(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode))
    return fail(ErrorCode::kInvalid, "bad_listen", "listen.address", path + " exists and is no socket");
  const Socket probe(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const sockaddr_un address = unix_address(path);
  const int answer = connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  // EAGAIN is a full queue: somebody lives there.
  if (answer == 0 || errno != ECONNREFUSED)
    return fail(ErrorCode::kConflict, "address_in_use", "listen.address",
                path + (answer == 0 || errno == EAGAIN ? ": another process listens there"
                                                       : std::string(": ") + std::strerror(errno)));
  log::notice("stale_socket_removed", {{"path", path}});
  unlink(path.c_str());
  return {};
}

Result<void> set_file_rights(const PoolSettings& pool) {
  uid_t owner = static_cast<uid_t>(-1);
  gid_t group = static_cast<gid_t>(-1);
  if (!pool.listen_owner.empty()) {
    const passwd* entry = getpwnam(pool.listen_owner.c_str());
    if (!entry)
      return fail(ErrorCode::kInvalid, "bad_listen", "listen.owner", "unknown user " + pool.listen_owner);
    owner = entry->pw_uid;
    group = entry->pw_gid;
  }
  if (!pool.listen_group.empty()) {
    const auto* entry = getgrnam(pool.listen_group.c_str());
    if (!entry)
      return fail(ErrorCode::kInvalid, "bad_listen", "listen.group", "unknown group " + pool.listen_group);
    group = entry->gr_gid;
  }
  // Not called for nothing: the unit's system call filter has no chown.
  const bool given = !pool.listen_owner.empty() || !pool.listen_group.empty();
  if (given && chown(pool.listen.c_str(), owner, group) != 0) return cannot("cannot give away", pool.listen);
  if (chmod(pool.listen.c_str(), static_cast<mode_t>(pool.listen_mode)) != 0)
    return cannot("cannot set listen.mode of", pool.listen);
  return {};
}

bool matches(int fd, const std::string& address) {
  return address.starts_with('/') && sd_is_socket_unix(fd, SOCK_STREAM, 1, address.c_str(), 0) > 0;
}

std::optional<int> passed_by_systemd(const std::string& address) {
  const int count = sd_listen_fds(1);
  std::optional<int> chosen;
  for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + count; ++fd) {
    if (sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) <= 0) continue;
    if (matches(fd, address)) return fd;
    if (!chosen) chosen = fd;
  }
  if (chosen)
    log::notice("socket_from_systemd", {{"note", "not bound to listen.address"}, {"address", address}});
  return chosen;
}

// "[::1]:9000", "127.0.0.1:9000", "*:9000".
std::pair<std::string, std::string> split_host_port(const std::string& address) {
  const auto colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return {host == "*" ? "" : host, colon == std::string::npos ? "" : address.substr(colon + 1)};
}

}  // namespace

Result<Listener> Listener::open(const PoolSettings& pool) {
  if (const auto passed = passed_by_systemd(pool.listen)) {
    fcntl(*passed, F_SETFL, fcntl(*passed, F_GETFL) | O_NONBLOCK);
    return Listener(*passed, true);
  }
  return pool.listen.starts_with('/') ? bind_unix(pool) : bind_tcp(pool);
}

Result<Listener> Listener::bind_unix(const PoolSettings& pool) {
  if (pool.listen.size() >= sizeof(sockaddr_un::sun_path))
    return fail(ErrorCode::kInvalid, "bad_listen", "listen.address", "longer than 107 bytes");
  if (auto ok = clear_stale(pool.listen); !ok) return tl::unexpected(ok.error());
  Socket made(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const sockaddr_un address = unix_address(pool.listen);
  // Nobody but us may connect between bind() and chmod().
  const mode_t before = umask(0177);
  const int bound = bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  umask(before);
  if (bound != 0) return cannot("cannot bind", pool.listen);
  Listener listener(made.release(), false);
  listener.remember_file(pool.listen);
  if (auto ok = set_file_rights(pool); !ok) return tl::unexpected(ok.error());
  if (listen(listener.fd(), pool.listen_backlog) != 0) return cannot("cannot listen on", pool.listen);
  return listener;
}

Result<Listener> Listener::bind_tcp(const PoolSettings& pool) {
  const auto [host, port] = split_host_port(pool.listen);
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int code = getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &list);
      code != 0)
    return fail(ErrorCode::kInvalid, "bad_listen", "listen.address", pool.listen + ": " + gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(list, freeaddrinfo);
  Socket made(socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(made.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // inherited by accepted connections
  if (bind(made.get(), list->ai_addr, list->ai_addrlen) != 0) return cannot("cannot bind", pool.listen);
  if (listen(made.get(), pool.listen_backlog) != 0) return cannot("cannot listen on", pool.listen);
  return Listener(made.release(), false);
}

Listener::Listener(Listener&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      from_systemd_(other.from_systemd_),
      owner_(other.owner_),
      path_(std::exchange(other.path_, {})),
      device_(other.device_),
      inode_(other.inode_) {}

Listener::~Listener() { close(); }

void Listener::close() {
  struct stat status {};
  const bool ours = !path_.empty() && owner_ == getpid() && lstat(path_.c_str(), &status) == 0 &&
                    status.st_dev == device_ && status.st_ino == inode_;
  if (ours) unlink(path_.c_str());
  path_.clear();
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void Listener::remember_file(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return;
  owner_ = getpid();
  path_ = path;
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

void Listener::set_backlog(int backlog) const {
  if (!from_systemd_) listen(fd_, backlog);
}

}  // namespace freshet
