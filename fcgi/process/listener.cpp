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
#include "fcgi/process/runtime_files.h"

namespace freshet {
namespace {

tl::unexpected<Error> bad_listen(const ListenOptions& options, std::string detail) {
  return fail(ErrorCode::kInvalid, "bad_listen", options.directive, std::move(detail));
}

tl::unexpected<Error> errno_error(const std::string& action, const ListenOptions& options) {
  const std::string detail = action + " " + options.address + ": " + std::strerror(errno);
  if (errno == EADDRINUSE) return fail(ErrorCode::kConflict, "address_in_use", options.directive, detail);
  return bad_listen(options, detail);
}

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

// Names the fix for a folder that is absent or not writable, as in a container without a volume.
tl::unexpected<Error> cannot_bind_unix(const ListenOptions& options, int cause) {
  errno = cause;
  const bool is_absent = errno == ENOENT;
  const bool is_denied = errno == EACCES || errno == EROFS || errno == EPERM;
  auto error = errno_error(options.directive + ": cannot bind", options);
  if (is_absent || is_denied)
    error.value().detail +=
        std::string(is_absent ? "; create its folder, writable by" : "; make its folder writable by") +
        " user " + std::to_string(geteuid()) +
        " (systemd: RuntimeDirectory=; container: a volume or tmpfs), or listen on host:port";
  return error;
}

std::string not_a_socket(const ListenOptions& options) {
  return options.directive + ": " + options.address + " exists and is not a socket";
}

// Succeeds if the path can be used: nothing is there, or a stale socket file was removed.
Result<void> remove_stale_socket(const ListenOptions& options) {
  const std::string& path = options.address;
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) return bad_listen(options, not_a_socket(options));
  const Descriptor probe(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const sockaddr_un address = unix_address(path);
  const int answer = connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  // EAGAIN means a full queue, so a process listens there.
  if (answer == 0 || errno != ECONNREFUSED)
    return fail(ErrorCode::kConflict, "address_in_use", options.directive,
                path + (answer == 0 || errno == EAGAIN ? ": another process listens there"
                                                       : std::string(": ") + std::strerror(errno)));
  log::notice("stale_socket_removed", {{"path", path}});
  unlink(path.c_str());
  return {};
}

Result<void> set_socket_permissions(const ListenOptions& options) {
  uid_t owner = static_cast<uid_t>(-1);
  gid_t group = static_cast<gid_t>(-1);
  if (!options.owner.empty()) {
    const passwd* entry = getpwnam(options.owner.c_str());
    if (!entry)
      return fail(ErrorCode::kInvalid, "bad_listen", "listen.owner", "unknown user " + options.owner);
    owner = entry->pw_uid;
    group = entry->pw_gid;
  }
  if (!options.group.empty()) {
    const auto* entry = getgrnam(options.group.c_str());
    if (!entry)
      return fail(ErrorCode::kInvalid, "bad_listen", "listen.group", "unknown group " + options.group);
    group = entry->gr_gid;
  }
  // Called only if needed: the unit's system call filter has no chown.
  const bool change_owner = !options.owner.empty() || !options.group.empty();
  if (change_owner && chown(options.address.c_str(), owner, group) != 0)
    return errno_error("cannot change the owner of", options);
  if (chmod(options.address.c_str(), static_cast<mode_t>(options.mode)) != 0)
    return errno_error("cannot set listen.mode of", options);
  return {};
}

// Accepts "[::1]:9000", "127.0.0.1:9000" and "*:9000".
std::pair<std::string, std::string> split_host_port(const std::string& address) {
  const auto colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return {host == "*" ? "" : host, colon == std::string::npos ? "" : address.substr(colon + 1)};
}

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// Resolves host:port. On failure returns null and sets `code` to getaddrinfo()'s result.
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
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return "no address";
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

ListenOptions request_listen_options(const PoolSettings& pool) {
  return {"listen.address",  pool.listen,       pool.listen_backlog,
          pool.listen_owner, pool.listen_group, pool.listen_mode};
}

ListenOptions status_listen_options(const PoolSettings& pool) {
  return {"pm.status_listen", pool.status_listen, pool.listen_backlog,
          pool.listen_owner,  pool.listen_group,  pool.listen_mode};
}

SystemdSockets SystemdSockets::from_environment() {
  SystemdSockets sockets;
  const int count = sd_listen_fds(1);
  for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + count; ++fd)
    if (sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) > 0) sockets.fds_.push_back(fd);
  return sockets;
}

SystemdSockets::~SystemdSockets() {
  for (const int fd : fds_) {
    log::warning("inherited_socket_ignored", {{"address", bound_address(fd)}});
    close(fd);
  }
}

int SystemdSockets::claim(const std::string& address) {
  const auto found = std::ranges::find_if(fds_, [&](int fd) { return is_bound_to(fd, address); });
  if (found == fds_.end()) return -1;
  const int fd = *found;
  fds_.erase(found);
  return fd;
}

int SystemdSockets::claim_any() {
  if (fds_.empty()) return -1;
  const int fd = fds_.front();
  fds_.erase(fds_.begin());
  return fd;
}

Result<Listeners> open_listeners(const PoolSettings& pool, SystemdSockets systemd_sockets, bool with_status) {
  const auto open = [](int fd, const ListenOptions& options) -> Result<Listener> {
    if (fd < 0) return Listener::bind(options);
    return Listener::adopt(fd, true);
  };
  std::optional<Listener> status;
  if (with_status && !pool.status_listen.empty()) {
    FRESHET_TRY(opened, open(systemd_sockets.claim(pool.status_listen), status_listen_options(pool)));
    status.emplace(std::move(*opened));
  }
  int fd = systemd_sockets.claim(pool.listen);
  if (fd < 0 && (fd = systemd_sockets.claim_any()) >= 0)
    log::notice("systemd_socket_adopted",
                {{"note", "not bound to listen.address"}, {"address", bound_address(fd)}});
  FRESHET_TRY(requests, open(fd, request_listen_options(pool)));
  return Listeners{std::move(*requests), std::move(status)};
}

Result<void> Listener::check(const ListenOptions& options) {
  const std::string& path = options.address;
  if (!path.starts_with('/')) {
    int code = 0;
    const AddressList list = resolve(path, code);
    if (code != EAI_NONAME) return {};  // resolved, or not for now
    return bad_listen(options, options.directive + ": " + path + ": " + gai_strerror(code));
  }
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0)
    return S_ISSOCK(status.st_mode) ? Result<void>() : bad_listen(options, not_a_socket(options));
  const int error = file_creation_error(path);
  if (error == 0) return {};
  auto failure = cannot_bind_unix(options, error);
  // systemd can pass a socket in a folder that its sandbox makes read-only.
  const bool is_sandboxed = error == EROFS && sd_booted() > 0;
  if (is_sandboxed || may_succeed_later(error, path)) failure.value().code = ErrorCode::kForbidden;
  return failure;
}

Listener Listener::adopt(int fd, bool from_systemd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  return {fd, from_systemd};
}

Result<Listener> Listener::bind(const ListenOptions& options) {
  return options.address.starts_with('/') ? bind_unix(options) : bind_tcp(options);
}

Result<Listener> Listener::bind_unix(const ListenOptions& options) {
  const std::string& path = options.address;
  if (path.size() >= sizeof(sockaddr_un::sun_path))
    return bad_listen(options, "the path is longer than 107 bytes");
  if (auto ok = remove_stale_socket(options); !ok) return tl::unexpected(ok.error());
  Descriptor sock(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const sockaddr_un address = unix_address(path);
  // No other user may connect between bind() and chmod().
  const mode_t old_umask = umask(0177);
  const int bound = ::bind(sock.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  umask(old_umask);
  if (bound != 0) return cannot_bind_unix(options, errno);
  Listener listener(sock.release(), false);
  listener.take_file_ownership(path);
  if (auto ok = set_socket_permissions(options); !ok) return tl::unexpected(ok.error());
  if (::listen(listener.fd(), options.backlog) != 0) return errno_error("cannot listen on", options);
  return listener;
}

Result<Listener> Listener::bind_tcp(const ListenOptions& options) {
  int code = 0;
  const AddressList list = resolve(options.address, code);
  if (!list)
    return bad_listen(options, options.directive + ": " + options.address + ": " + gai_strerror(code));
  Descriptor sock(socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(sock.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(sock.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // inherited by accepted connections
  if (::bind(sock.get(), list->ai_addr, list->ai_addrlen) != 0) return errno_error("cannot bind", options);
  if (listen(sock.get(), options.backlog) != 0) return errno_error("cannot listen on", options);
  return Listener(sock.release(), false);
}

Listener::Listener(Listener&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      from_systemd_(other.from_systemd_),
      owner_pid_(other.owner_pid_),
      file_path_(std::exchange(other.file_path_, {})),
      file_device_(other.file_device_),
      file_inode_(other.file_inode_) {}

Listener::~Listener() { close(); }

void Listener::close() {
  struct stat status {};
  const bool owns_file = !file_path_.empty() && owner_pid_ == getpid() &&
                         lstat(file_path_.c_str(), &status) == 0 && status.st_dev == file_device_ &&
                         status.st_ino == file_inode_;
  if (owns_file) unlink(file_path_.c_str());
  file_path_.clear();
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void Listener::take_file_ownership(const std::string& path) {
  struct stat status {};
  if (from_systemd_ || !path.starts_with('/') || lstat(path.c_str(), &status) != 0) return;
  owner_pid_ = getpid();
  file_path_ = path;
  file_device_ = status.st_dev;
  file_inode_ = status.st_ino;
}

void Listener::set_backlog(int backlog) const {
  if (!from_systemd_) listen(fd_, backlog);
}

}  // namespace freshet
