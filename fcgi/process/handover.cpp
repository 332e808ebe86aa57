#include "fcgi/process/handover.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <sstream>

namespace freshet {
namespace {

constexpr const char* kHandoverVariable = "FRESHET_HANDOVER";
constexpr int kStateTimeoutMs = 10000;

enum HandoverFd : int { kRequestsFd = 3, kChannelFd, kLeaseFd, kStatusFd, kLimitsFd };
constexpr int kFirstScratchFd = 16;

tl::unexpected<Error> bad_handover(const char* reason) {
  return fail(ErrorCode::kInvalid, "bad_handover", {}, std::string(kHandoverVariable) + ": " + reason);
}

const char* socket_origin(const Listener& listener) { return listener.from_systemd() ? "systemd" : "made"; }

tl::unexpected<Error> address_changed(const ListenOptions& options) {
  return fail(ErrorCode::kInvalid, "bad_listen", options.directive,
              options.directive + " cannot change without a restart");
}

}  // namespace

void Channel::send_message(char type, const std::string& payload) const {
  const std::string message = type + payload;
  static_cast<void>(!send(socket_.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

std::optional<std::string> Channel::receive_message() {
  std::array<char, 4096> buffer{};
  const ssize_t bytes_read = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (bytes_read > 0) return std::string(buffer.data(), static_cast<std::size_t>(bytes_read));
  if (bytes_read == 0 || (errno != EAGAIN && errno != EINTR)) socket_.reset();
  return std::nullopt;
}

Result<std::optional<Handover>> Handover::from_environment() {
  const char* variable = std::getenv(kHandoverVariable);
  if (!variable) return std::nullopt;
  std::istringstream in(variable);
  unsetenv(kHandoverVariable);
  Handover handover;
  std::string requests, status, limits;
  in >> handover.generation >> handover.workers >> requests >> status;
  if (in.fail()) return bad_handover("malformed");
  in >> limits;
  const bool with_limits = limits == "limits";
  for (const int fd : {kRequestsFd, kChannelFd, kLeaseFd, status == "none" ? kLeaseFd : kStatusFd,
                       with_limits ? kLimitsFd : kLeaseFd})
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return bad_handover("a descriptor is missing");
  handover.requests.reset(kRequestsFd);
  handover.channel = Channel(Descriptor(kChannelFd));
  handover.lease.reset(kLeaseFd);
  if (status != "none") handover.status.reset(kStatusFd);
  if (with_limits) handover.limits.reset(kLimitsFd);
  handover.requests_bound_by_master = requests == "made";
  handover.status_bound_by_master = status == "made";
  pollfd channel_poll{kChannelFd, POLLIN, 0};
  poll(&channel_poll, 1, kStateTimeoutMs);
  const auto state = handover.channel.receive_message();
  if (!state || state->front() != 'K') return bad_handover("the old master sent no state");
  handover.opaque_state = state->substr(1);
  return handover;
}

Result<Listeners> Handover::adopt_listeners(const PoolSettings& pool, bool with_status) {
  // A socket from systemd is accepted whatever it is bound to, as at the first start.
  if (requests_bound_by_master && !is_bound_to(requests.get(), pool.listen))
    return address_changed(request_listen_options(pool));
  const bool wants_status = with_status && !pool.status_listen.empty();
  if (wants_status != (status.get() >= 0) || (wants_status && !is_bound_to(status.get(), pool.status_listen)))
    return address_changed(status_listen_options(pool));
  Listeners listeners{Listener::adopt(requests.release(), !requests_bound_by_master), std::nullopt};
  if (wants_status) listeners.status.emplace(Listener::adopt(status.release(), !status_bound_by_master));
  return listeners;
}

void install_handover_fds(const HandoverFds& fds, int channel) {
  const Listeners& listeners = *fds.listeners;
  std::array ordered_fds{listeners.requests.fd(), channel, fds.lease,
                         listeners.status ? listeners.status->fd() : -1, fds.limits};
  // Move them out of the way first: a target number may be in use by a descriptor that has yet to
  // move.
  for (int& fd : ordered_fds)
    if (fd >= 0) fd = fcntl(fd, F_DUPFD_CLOEXEC, kFirstScratchFd);
  close_range(kRequestsFd, ~0U, CLOSE_RANGE_CLOEXEC);
  int target_fd = kRequestsFd;
  for (const int fd : ordered_fds) {
    if (fd >= 0) dup2(fd, target_fd);
    ++target_fd;
  }
  const std::string text = std::to_string(fds.generation) + " " + std::to_string(fds.workers) + " " +
                           socket_origin(listeners.requests) + " " +
                           (listeners.status ? socket_origin(*listeners.status) : "none") + " " +
                           (fds.limits >= 0 ? "limits" : "none");
  setenv(kHandoverVariable, text.c_str(), 1);
}

}  // namespace freshet
