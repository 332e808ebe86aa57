#include "core/model/model_handoff.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

namespace freshet::model {

ModelHandoff::ModelHandoff() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    throw std::system_error(errno, std::generic_category(), "model handoff");
  sender_.reset(ends[0]);
  receiver_.reset(ends[1]);
}

std::optional<ModelHandoff::HandoffFile> ModelHandoff::receive(int flags, bool with_file) const {
  HandoffFile found;
  iovec payload{&found.entry, sizeof found.entry};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &payload;
  message.msg_iovlen = 1;
  if (with_file) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  const ssize_t got = recvmsg(receiver_.get(), &message, flags | MSG_CMSG_CLOEXEC);
  if (got != static_cast<ssize_t>(sizeof found.entry)) return std::nullopt;
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); each; each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
    int file = -1;
    std::memcpy(&file, CMSG_DATA(each), sizeof file);
    found.file.reset(file);
  }
  return found;
}

std::optional<HandoffEntry> ModelHandoff::peek() const {
  const auto found = receive(MSG_PEEK, false);
  if (!found) return std::nullopt;
  return found->entry;
}

std::optional<ModelHandoff::HandoffFile> ModelHandoff::peek_with_file() const {
  return receive(MSG_PEEK, true);
}

Result<void> ModelHandoff::put(HandoffEntry entry, int file) {
  entry.id = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  entry.has_model = file >= 0;
  iovec payload{&entry, sizeof entry};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &payload;
  message.msg_iovlen = 1;
  if (entry.has_model) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
  }
  if (sendmsg(sender_.get(), &message, 0) != static_cast<ssize_t>(sizeof entry))
    return fail(ErrorCode::kInternal, "model_handoff", {}, std::string("sendmsg: ") + std::strerror(errno));
  // Remove older entries only now, so that the queue is never empty. There are two if a process
  // died in between.
  for (auto entry_in_queue = peek(); entry_in_queue && entry_in_queue->id != entry.id;
       entry_in_queue = peek())
    receive(0, false);
  return {};
}

void ModelHandoff::wait_for_first(std::chrono::milliseconds timeout) const {
  pollfd readable{receiver_.get(), POLLIN, 0};
  poll(&readable, 1, static_cast<int>(timeout.count()));
}

}  // namespace freshet::model
