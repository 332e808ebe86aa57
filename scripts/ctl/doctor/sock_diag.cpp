#include "scripts/ctl/doctor/sock_diag.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

namespace freshet::ctl {
namespace {

constexpr std::uint32_t kListening = 10;  // TCP_LISTEN, which unix sockets use too

class Netlink {
 public:
  Netlink() : fd_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)) {}
  ~Netlink() {
    if (fd_ >= 0) close(fd_);
  }
  Netlink(const Netlink&) = delete;
  Netlink& operator=(const Netlink&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

bool request_sockets(int fd) {
  struct {
    nlmsghdr header;
    unix_diag_req request;
  } message{};
  message.header.nlmsg_len = sizeof message;
  message.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  message.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  message.request.sdiag_family = AF_UNIX;
  message.request.udiag_states = 1U << kListening;
  message.request.udiag_show = UDIAG_SHOW_VFS | UDIAG_SHOW_RQLEN;
  return send(fd, &message, sizeof message, 0) == static_cast<ssize_t>(sizeof message);
}

// Parses one socket's reply. Returns its queue if it has this inode.
std::optional<ListenQueue> queue_of(const nlmsghdr* message, ino_t inode) {
  std::optional<unix_diag_rqlen> lengths;
  bool same = false;
  auto remaining =
      static_cast<int>(message->nlmsg_len) - static_cast<int>(NLMSG_LENGTH(sizeof(unix_diag_msg)));
  const char* begin = reinterpret_cast<const char*>(message) + NLMSG_LENGTH(sizeof(unix_diag_msg));
  while (remaining >= static_cast<int>(sizeof(rtattr))) {
    rtattr attribute{};
    std::memcpy(&attribute, begin, sizeof attribute);
    if (attribute.rta_len < sizeof attribute || attribute.rta_len > remaining) break;
    const char* content = begin + RTA_LENGTH(0);
    if (attribute.rta_type == UNIX_DIAG_VFS) {
      unix_diag_vfs vfs{};
      std::memcpy(&vfs, content, sizeof vfs);
      same = vfs.udiag_vfs_ino == static_cast<std::uint32_t>(inode);
    } else if (attribute.rta_type == UNIX_DIAG_RQLEN) {
      lengths.emplace();
      std::memcpy(&*lengths, content, sizeof *lengths);
    }
    const int step = static_cast<int>(RTA_ALIGN(attribute.rta_len));
    begin += step;
    remaining -= step;
  }
  if (!same || !lengths) return std::nullopt;
  return ListenQueue{lengths->udiag_rqueue, lengths->udiag_wqueue};
}

}  // namespace

Result<ListenQueue> listen_queue(const std::string& path) {
  struct stat file {};
  if (stat(path.c_str(), &file) != 0)
    return fail(ErrorCode::kNotFound, "no_socket", {}, path + ": " + std::strerror(errno));
  const Netlink netlink;
  if (netlink.fd() < 0 || !request_sockets(netlink.fd())) {
    return fail(ErrorCode::kUnavailable, "no_sock_diag", {},
                std::string("sock_diag: ") + std::strerror(errno));
  }
  alignas(nlmsghdr) std::array<char, 65536> buffer;
  while (true) {
    const ssize_t got = recv(netlink.fd(), buffer.data(), buffer.size(), 0);
    if (got <= 0)
      return fail(ErrorCode::kUnavailable, "no_sock_diag", {},
                  std::string("sock_diag: ") + std::strerror(errno));
    auto remaining = static_cast<std::size_t>(got);
    const char* at = buffer.data();
    while (remaining >= sizeof(nlmsghdr)) {
      const auto* message = reinterpret_cast<const nlmsghdr*>(at);
      if (message->nlmsg_len < sizeof(nlmsghdr) || message->nlmsg_len > remaining) break;
      if (message->nlmsg_type == NLMSG_ERROR)
        return fail(ErrorCode::kUnavailable, "no_sock_diag", {}, "sock_diag refused the request");
      if (message->nlmsg_type == NLMSG_DONE)
        return fail(ErrorCode::kNotFound, "no_socket", {}, "no listener on " + path);
      if (const auto queue = queue_of(message, file.st_ino)) return *queue;
      const std::size_t step = std::min<std::size_t>(NLMSG_ALIGN(message->nlmsg_len), remaining);
      at += step;
      remaining -= step;
    }
  }
}

}  // namespace freshet::ctl
