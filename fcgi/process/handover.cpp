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

constexpr const char* kVariable = "FRESHET_HANDOVER";
constexpr int kStateTimeoutMs = 10000;

enum Place : int { kRequests = 3, kChannel, kLease, kStatus, kLimits };
constexpr int kAbovePlaces = 16;

tl::unexpected<Error> bad(const char* why) {
  return fail(ErrorCode::kInvalid, "bad_handover", {}, std::string(kVariable) + ": " + why);
}

const char* origin(const Listener& listener) { return listener.from_systemd() ? "systemd" : "made"; }

tl::unexpected<Error> changed(const ListenAddress& at) {
  return fail(ErrorCode::kInvalid, "bad_listen", at.directive,
              at.directive + " cannot change without a restart");
}

}  // namespace

void Channel::say(char word, const std::string& more) const {
  const std::string message = word + more;
  static_cast<void>(!send(end_.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

std::optional<std::string> Channel::hear() {
  std::array<char, 4096> buffer{};
  const ssize_t got = recv(end_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got > 0) return std::string(buffer.data(), static_cast<std::size_t>(got));
  if (got == 0 || (errno != EAGAIN && errno != EINTR)) end_.reset();
  return std::nullopt;
}

Result<std::optional<Handover>> Handover::receive() {
  const char* announced = std::getenv(kVariable);
  if (!announced) return std::nullopt;
  std::istringstream in(announced);
  unsetenv(kVariable);
  Handover taken;
  std::string requests, status, limits;
  in >> taken.generation >> taken.workers >> requests >> status;
  if (in.fail()) return bad("not understood");
  in >> limits;
  const bool with_limits = limits == "limits";
  for (const int fd :
       {kRequests, kChannel, kLease, status == "none" ? kLease : kStatus, with_limits ? kLimits : kLease})
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return bad("a descriptor is missing");
  taken.requests.reset(kRequests);
  taken.channel = Channel(Descriptor(kChannel));
  taken.lease.reset(kLease);
  if (status != "none") taken.status.reset(kStatus);
  if (with_limits) taken.limits.reset(kLimits);
  taken.made_requests = requests == "made";
  taken.made_status = status == "made";
  pollfd waited{kChannel, POLLIN, 0};
  poll(&waited, 1, kStateTimeoutMs);
  const auto state = taken.channel.hear();
  if (!state || state->front() != 'K') return bad("the old master said nothing");
  taken.state = state->substr(1);
  return taken;
}

Result<Listeners> Handover::take_listeners(const PoolSettings& pool, bool with_status) {
  // A socket of systemd's serves whatever it is bound to, as it did before.
  if (made_requests && !is_bound_to(requests.get(), pool.listen)) return changed(request_address(pool));
  const bool wants_status = with_status && !pool.status_listen.empty();
  if (wants_status != (status.get() >= 0) || (wants_status && !is_bound_to(status.get(), pool.status_listen)))
    return changed(status_address(pool));
  Listeners listeners{Listener::adopt(requests.release(), !made_requests), std::nullopt};
  if (wants_status) listeners.status.emplace(Listener::adopt(status.release(), !made_status));
  return listeners;
}

void hand_over_in_child(const InheritedFds& inherited, int channel) {
  const Listeners& listeners = *inherited.listeners;
  std::array given{listeners.requests.fd(), channel, inherited.lease,
                   listeners.status ? listeners.status->fd() : -1, inherited.limits};
  // Out of the way first: the place of one may be taken by another that has yet to move.
  for (int& fd : given)
    if (fd >= 0) fd = fcntl(fd, F_DUPFD_CLOEXEC, kAbovePlaces);
  close_range(kRequests, ~0U, CLOSE_RANGE_CLOEXEC);
  int place = kRequests;
  for (const int fd : given) {
    if (fd >= 0) dup2(fd, place);
    ++place;
  }
  const std::string text = std::to_string(inherited.generation) + " " + std::to_string(inherited.workers) +
                           " " + origin(listeners.requests) + " " +
                           (listeners.status ? origin(*listeners.status) : "none") + " " +
                           (inherited.limits >= 0 ? "limits" : "none");
  setenv(kVariable, text.c_str(), 1);
}

}  // namespace freshet
