// Checks the status pages' socket with one FastCGI request, as nginx sends it.
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <netdb.h>

#include "core/base/dependency.h"
#include "core/redis/fields.h"
#include "scripts/ctl/doctor/doctor.h"

namespace freshet::ctl {
namespace {

constexpr timeval kTimeout{3, 0};  // for connecting, and for each read

enum class ProbeResult : std::uint8_t { kAnswered, kNoListener, kNoReply, kForbidden };

class Socket {
 public:
  explicit Socket(int family) : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof kTimeout);
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof kTimeout);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { close(fd_); }
  int get() const { return fd_; }

 private:
  int fd_;
};

// One FastCGI record of request 1. REQUIRES: content shorter than 256 bytes.
std::string encode_record(char type, std::string_view content) {
  std::string out{'\1', type, '\0', '\1', '\0', static_cast<char>(content.size()), '\0', '\0'};
  return out.append(content);
}

std::string encode_pair(std::string_view name, std::string_view value) {
  std::string out{static_cast<char>(name.size()), static_cast<char>(value.size())};
  return out.append(name).append(value);
}

// GET from the internal zone. REQUIRES: a path shorter than 128 bytes.
std::string encode_request(const std::string& path) {
  constexpr char kBegin = 1, kParams = 4, kStdin = 5;
  const std::string params = encode_pair("REQUEST_METHOD", "GET") + encode_pair("REQUEST_URI", path) +
                             encode_pair("FRESHET_ZONE", "internal");
  return encode_record(kBegin, std::string_view("\0\1\0\0\0\0\0\0", 8)) + encode_record(kParams, params) +
         encode_record(kParams, {}) + encode_record(kStdin, {});
}

struct StatusRequest {
  std::string path, reply;
};

ProbeResult send_request(const Socket& socket, const sockaddr* address, socklen_t size,
                         StatusRequest& request) {
  if (connect(socket.get(), address, size) != 0)
    return errno == EACCES || errno == EPERM                               ? ProbeResult::kForbidden
           : errno == EAGAIN || errno == EINPROGRESS || errno == ETIMEDOUT ? ProbeResult::kNoReply
                                                                           : ProbeResult::kNoListener;
  const std::string bytes = encode_request(request.path);
  if (send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
    return ProbeResult::kNoReply;
  std::string& reply = request.reply;
  std::array<char, 4096> piece{};
  for (ssize_t got = 0; (got = recv(socket.get(), piece.data(), piece.size(), 0)) > 0;)
    reply.append(piece.data(), static_cast<std::size_t>(got));
  return reply.find("Content-Type:") != std::string::npos ? ProbeResult::kAnswered : ProbeResult::kNoReply;
}

ProbeResult probe_unix(const std::string& path, StatusRequest& request) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return send_request(Socket(AF_UNIX), reinterpret_cast<const sockaddr*>(&address), sizeof address, request);
}

// REQUIRES: host:port, as the configuration check enforces.
ProbeResult probe_tcp(const std::string& listen, StatusRequest& request) {
  const std::size_t colon = listen.rfind(':');
  std::string host = listen.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), listen.substr(colon + 1).c_str(), &hints, &found) != 0)
    return ProbeResult::kNoListener;
  const ProbeResult answer =
      send_request(Socket(found->ai_family), found->ai_addr, found->ai_addrlen, request);
  freeaddrinfo(found);
  return answer;
}

// Warns if /status predicts that Redis' memory fills up soon, at the rate of the last hour or two.
void evaluate_forecast(std::string_view status, Diagnoses& out) {
  constexpr std::string_view kCheck = "redis.forecast", kRow = "\"redis full in hours\":";
  constexpr double kSoon = 24;  // same as the alert FreshetRedisFilling
  const std::size_t row = status.find(kRow);
  if (row == status.npos) return;
  const std::string_view number =
      status.substr(row + kRow.size(), status.find_first_of(",}", row) - row - kRow.size());
  const double hours = redis::parse_or_zero<double>(number);
  const std::string forecast = fmt::format("Redis will be full in {:.1f} hours at the current rate", hours);
  if (hours >= kSoon) return out.ok(kCheck, forecast);
  out.warn(kCheck, forecast, "raise maxmemory; `freshetctl top-contributors` lists who writes most");
}

// Reports the dependencies that no worker has, according to /status.
void evaluate_dependencies(std::string_view status, const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "ready", kRow = "\"missing\":\"";
  const std::size_t row = status.find(kRow);
  if (row == status.npos) return;
  const std::size_t from = row + kRow.size();
  const std::string_view names = status.substr(from, status.find('"', from) - from);
  if (names.empty()) return out.ok(kCheck, "all dependencies of the workers are available");
  const auto is_missing = [&](std::string_view need) { return names.find(need) != names.npos; };
  const std::string message = fmt::format("unavailable to all workers: {}", names);
  if (std::ranges::any_of(settings.ready.require, is_missing))
    return out.error(kCheck, message + "; /health/ready answers 503",
                     "see its finding here, or remove it from ready.require");
  if (is_missing(dependency_name(Dependency::kIndex)))
    return out.warn(
        kCheck, message + "; feeds only have hot and new items",
        settings.recorder.enabled ? "run `freshetctl reindex`" : "set search.shards to the index servers");
  out.ok(kCheck, message);
}

}  // namespace

void check_status_socket(const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "status.socket";
  const std::string& listen = settings.pool.status_listen;
  if (listen.empty())
    return out.warn(kCheck,
                    "pm.status_listen is not set: /status, /metrics and /health do not answer while all "
                    "workers are busy or stopped",
                    "set pm.status_listen = \"/run/freshet/status.sock\" and restart; freshet-http.conf has "
                    "the matching upstream freshet_status");
  const std::string& path = settings.pool.status_path;
  StatusRequest request{path.empty() || path.size() > 100 ? "/health/live" : path + "?json", {}};
  switch (listen.starts_with('/') ? probe_unix(listen, request) : probe_tcp(listen, request)) {
    case ProbeResult::kAnswered:
      evaluate_forecast(request.reply, out);
      evaluate_dependencies(request.reply, settings, out);
      return out.ok(kCheck, "status and metrics are served on " + listen);
    case ProbeResult::kForbidden:
      return out.skipped(kCheck, listen + " is not writable for this user");
    case ProbeResult::kNoListener:
      return out.error(kCheck, "no listener on pm.status_listen, " + listen,
                       "run `systemctl restart freshet`; `journalctl -u freshet` says why it was not opened");
    case ProbeResult::kNoReply:
      return out.error(kCheck, listen + " accepts connections but does not answer",
                       "see `journalctl -u freshet`; the master restarts the status process if you kill it");
  }
}

}  // namespace freshet::ctl
