#include "core/model/model_shelf.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

namespace freshet::model {

ModelShelf::ModelShelf() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    throw std::system_error(errno, std::generic_category(), "model shelf");
  in_.reset(ends[0]);
  out_.reset(ends[1]);
}

std::optional<ModelShelf::Found> ModelShelf::receive(int flags, bool with_file) const {
  Found found;
  iovec part{&found.left, sizeof found.left};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (with_file) {
    message.msg_control = room.data();
    message.msg_controllen = room.size();
  }
  const ssize_t got = recvmsg(out_.get(), &message, flags | MSG_CMSG_CLOEXEC);
  if (got != static_cast<ssize_t>(sizeof found.left)) return std::nullopt;
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); each; each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
    int file = -1;
    std::memcpy(&file, CMSG_DATA(each), sizeof file);
    found.file.reset(file);
  }
  return found;
}

std::optional<Left> ModelShelf::look() const {
  const auto found = receive(MSG_PEEK, false);
  if (!found) return std::nullopt;
  return found->left;
}

std::optional<ModelShelf::Found> ModelShelf::open() const { return receive(MSG_PEEK, true); }

Result<void> ModelShelf::leave(Left left, int file) {
  left.number = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  left.model = file >= 0;
  iovec part{&left, sizeof left};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (left.model) {
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    cmsghdr* const with = CMSG_FIRSTHDR(&message);
    with->cmsg_level = SOL_SOCKET;
    with->cmsg_type = SCM_RIGHTS;
    with->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(with), &file, sizeof file);
  }
  if (sendmsg(in_.get(), &message, 0) != static_cast<ssize_t>(sizeof left))
    return fail(ErrorCode::kInternal, "model_shelf", {}, std::string("sendmsg: ") + std::strerror(errno));
  // Only now what lay there before; two when a process died in between.
  for (auto first = look(); first && first->number != left.number; first = look()) receive(0, false);
  return {};
}

void ModelShelf::wait(std::chrono::milliseconds most) const {
  pollfd readable{out_.get(), POLLIN, 0};
  poll(&readable, 1, static_cast<int>(most.count()));
}

}  // namespace freshet::model
