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

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "core/base/descriptor.h"
#include "core/base/log.h"

namespace freshet {
namespace {

tl::unexpected<Error> wrong(const ListenAddress& at, std::string detail) {
  return fail(ErrorCode::kInvalid, "bad_listen", at.directive, std::move(detail));
}

tl::unexpected<Error> cannot(const std::string& what, const ListenAddress& at) {
  const std::string detail = what + " " + at.address + ": " + std::strerror(errno);
  if (errno == EADDRINUSE) return fail(ErrorCode::kConflict, "address_in_use", at.directive, detail);
  return wrong(at, detail);
}

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

// Ok when the file may be taken over: it is absent, or nobody answers behind it (then it was
// removed).
Result<void> clear_stale(const ListenAddress& at) {
  const std::string& path = at.address;
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) return wrong(at, path + " exists and is no socket");
  const Descriptor probe(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const sockaddr_un address = unix_address(path);
  const int answer = connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  // EAGAIN is a full queue: somebody lives there.
  if (answer == 0 || errno != ECONNREFUSED)
    return fail(ErrorCode::kConflict, "address_in_use", at.directive,
                path + (answer == 0 || errno == EAGAIN ? ": another process listens there"
                                                       : std::string(": ") + std::strerror(errno)));
  log::notice("stale_socket_removed", {{"path", path}});
  unlink(path.c_str());
  return {};
}

Result<void> set_file_rights(const ListenAddress& at) {
  uid_t owner = static_cast<uid_t>(-1);
  gid_t group = static_cast<gid_t>(-1);
  if (!at.owner.empty()) {
    const passwd* entry = getpwnam(at.owner.c_str());
    if (!entry) return fail(ErrorCode::kInvalid, "bad_listen", "listen.owner", "unknown user " + at.owner);
    owner = entry->pw_uid;
    group = entry->pw_gid;
  }
  if (!at.group.empty()) {
    const auto* entry = getgrnam(at.group.c_str());
    if (!entry) return fail(ErrorCode::kInvalid, "bad_listen", "listen.group", "unknown group " + at.group);
    group = entry->gr_gid;
  }
  // Not called for nothing: the unit's system call filter has no chown.
  const bool given = !at.owner.empty() || !at.group.empty();
  if (given && chown(at.address.c_str(), owner, group) != 0) return cannot("cannot give away", at);
  if (chmod(at.address.c_str(), static_cast<mode_t>(at.mode)) != 0)
    return cannot("cannot set listen.mode of", at);
  return {};
}

// "[::1]:9000", "127.0.0.1:9000", "*:9000".
std::pair<std::string, std::string> split_host_port(const std::string& address) {
  const auto colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return {host == "*" ? "" : host, colon == std::string::npos ? "" : address.substr(colon + 1)};
}

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// Of host:port; on failure a null list, and `code` is getaddrinfo's.
AddressList resolve(const std::string& address, int& code) {
  const auto [host, port] = split_host_port(address);
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  code = getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &list);
  return {code == 0 ? list : nullptr, freeaddrinfo};
}

std::string bound_address(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return "nothing";
  if (bound.ss_family == AF_UNIX) return reinterpret_cast<const sockaddr_un*>(&bound)->sun_path;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&bound), size, host.data(), host.size(), port.data(),
                  port.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "an unknown address";
  return std::string(host.data()) + ":" + port.data();
}

}  // namespace

bool is_bound_to(int fd, const std::string& address) {
  if (address.starts_with('/')) return sd_is_socket_unix(fd, SOCK_STREAM, 1, address.c_str(), 0) > 0;
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return false;
  int code = 0;
  const AddressList list = resolve(address, code);
  for (const addrinfo* entry = list.get(); entry; entry = entry->ai_next)
    if (entry->ai_addrlen == size && std::memcmp(entry->ai_addr, &bound, size) == 0) return true;
  return false;
}

ListenAddress request_address(const PoolSettings& pool) {
  return {"listen.address",  pool.listen,       pool.listen_backlog,
          pool.listen_owner, pool.listen_group, pool.listen_mode};
}

ListenAddress status_address(const PoolSettings& pool) {
  return {"pm.status_listen", pool.status_listen, pool.listen_backlog,
          pool.listen_owner,  pool.listen_group,  pool.listen_mode};
}

PassedSockets PassedSockets::receive() {
  PassedSockets passed;
  const int count = sd_listen_fds(1);
  for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + count; ++fd)
    if (sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) > 0) passed.fds_.push_back(fd);
  return passed;
}

PassedSockets::~PassedSockets() {
  for (const int fd : fds_) {
    log::warning("socket_unused", {{"address", bound_address(fd)}});
    close(fd);
  }
}

int PassedSockets::take(const std::string& address) {
  const auto at = std::ranges::find_if(fds_, [&](int fd) { return is_bound_to(fd, address); });
  if (at == fds_.end()) return -1;
  const int fd = *at;
  fds_.erase(at);
  return fd;
}

int PassedSockets::take_any() {
  if (fds_.empty()) return -1;
  const int fd = fds_.front();
  fds_.erase(fds_.begin());
  return fd;
}

Result<Listeners> open_listeners(const PoolSettings& pool, PassedSockets passed, bool with_status) {
  const auto open = [](int fd, const ListenAddress& at) -> Result<Listener> {
    if (fd < 0) return Listener::bind(at);
    return Listener::adopt(fd, true);
  };
  std::optional<Listener> status;
  if (with_status && !pool.status_listen.empty()) {
    FRESHET_TRY(opened, open(passed.take(pool.status_listen), status_address(pool)));
    status.emplace(std::move(*opened));
  }
  int fd = passed.take(pool.listen);
  if (fd < 0 && (fd = passed.take_any()) >= 0)
    log::notice("socket_from_systemd",
                {{"note", "not bound to listen.address"}, {"address", bound_address(fd)}});
  FRESHET_TRY(requests, open(fd, request_address(pool)));
  return Listeners{std::move(*requests), std::move(status)};
}

Listener Listener::adopt(int fd, bool from_systemd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  return {fd, from_systemd};
}

Result<Listener> Listener::bind(const ListenAddress& at) {
  return at.address.starts_with('/') ? bind_unix(at) : bind_tcp(at);
}

Result<Listener> Listener::bind_unix(const ListenAddress& at) {
  const std::string& path = at.address;
  if (path.size() >= sizeof(sockaddr_un::sun_path)) return wrong(at, "longer than 107 bytes");
  if (auto ok = clear_stale(at); !ok) return tl::unexpected(ok.error());
  Descriptor made(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const sockaddr_un address = unix_address(path);
  // Nobody but us may connect between bind() and chmod().
  const mode_t before = umask(0177);
  const int bound = ::bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  umask(before);
  if (bound != 0) return cannot("cannot bind", at);
  Listener listener(made.release(), false);
  listener.own_file(path);
  if (auto ok = set_file_rights(at); !ok) return tl::unexpected(ok.error());
  if (::listen(listener.fd(), at.backlog) != 0) return cannot("cannot listen on", at);
  return listener;
}

Result<Listener> Listener::bind_tcp(const ListenAddress& at) {
  int code = 0;
  const AddressList list = resolve(at.address, code);
  if (!list) return wrong(at, at.address + ": " + gai_strerror(code));
  Descriptor made(socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(made.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // inherited by accepted connections
  if (::bind(made.get(), list->ai_addr, list->ai_addrlen) != 0) return cannot("cannot bind", at);
  if (listen(made.get(), at.backlog) != 0) return cannot("cannot listen on", at);
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

void Listener::own_file(const std::string& path) {
  struct stat status {};
  if (from_systemd_ || !path.starts_with('/') || lstat(path.c_str(), &status) != 0) return;
  owner_ = getpid();
  path_ = path;
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

void Listener::set_backlog(int backlog) const {
  if (!from_systemd_) listen(fd_, backlog);
}

}  // namespace freshet
