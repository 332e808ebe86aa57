// The doctor's question to the socket of the status pages: one FastCGI request, as nginx sends it.
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

#include "core/base/need.h"
#include "core/redis/fields.h"
#include "scripts/ctl/doctor/doctor.h"

namespace freshet::ctl {
namespace {

constexpr timeval kPatience{3, 0};  // for connecting, and for each wait for bytes

enum class Answer : std::uint8_t { kYes, kNobody, kSilent, kForbidden };

class Socket {
 public:
  explicit Socket(int family) : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { close(fd_); }
  int get() const { return fd_; }

 private:
  int fd_;
};

// One record of request 1. REQUIRES: fewer than 256 bytes.
std::string record(char type, std::string_view content) {
  std::string out{'\1', type, '\0', '\1', '\0', static_cast<char>(content.size()), '\0', '\0'};
  return out.append(content);
}

std::string pair(std::string_view name, std::string_view value) {
  std::string out{static_cast<char>(name.size()), static_cast<char>(value.size())};
  return out.append(name).append(value);
}

// GET of the internal zone. REQUIRES: a path of less than 128 bytes.
std::string question(const std::string& path) {
  constexpr char kBegin = 1, kParams = 4, kStdin = 5;
  const std::string params =
      pair("REQUEST_METHOD", "GET") + pair("REQUEST_URI", path) + pair("FRESHET_ZONE", "internal");
  return record(kBegin, std::string_view("\0\1\0\0\0\0\0\0", 8)) + record(kParams, params) +
         record(kParams, {}) + record(kStdin, {});
}

struct Question {
  std::string path, reply;
};

Answer ask_health(const Socket& socket, const sockaddr* address, socklen_t size, Question& asked) {
  if (connect(socket.get(), address, size) != 0)
    return errno == EACCES || errno == EPERM                               ? Answer::kForbidden
           : errno == EAGAIN || errno == EINPROGRESS || errno == ETIMEDOUT ? Answer::kSilent
                                                                           : Answer::kNobody;
  const std::string bytes = question(asked.path);
  if (send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
    return Answer::kSilent;
  std::string& reply = asked.reply;
  std::array<char, 4096> piece{};
  for (ssize_t got = 0; (got = recv(socket.get(), piece.data(), piece.size(), 0)) > 0;)
    reply.append(piece.data(), static_cast<std::size_t>(got));
  return reply.find("Content-Type:") != std::string::npos ? Answer::kYes : Answer::kSilent;
}

Answer ask_unix(const std::string& path, Question& asked) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return ask_health(Socket(AF_UNIX), reinterpret_cast<const sockaddr*>(&address), sizeof address, asked);
}

// REQUIRES: host:port, as the configuration's check wants it.
Answer ask_tcp(const std::string& listen, Question& asked) {
  const std::size_t colon = listen.rfind(':');
  std::string host = listen.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), listen.substr(colon + 1).c_str(), &wanted, &found) != 0)
    return Answer::kNobody;
  const Answer answer = ask_health(Socket(found->ai_family), found->ai_addr, found->ai_addrlen, asked);
  freeaddrinfo(found);
  return answer;
}

// What /status says of Redis' memory: when it will be full at the pace of the last hour or two.
void judge_forecast(std::string_view status, Diagnoses& out) {
  constexpr std::string_view kCheck = "redis.forecast", kRow = "\"redis full in hours\":";
  constexpr double kSoon = 24;  // as the alert FreshetRedisFills
  const std::size_t row = status.find(kRow);
  if (row == status.npos) return;
  const std::string_view number =
      status.substr(row + kRow.size(), status.find_first_of(",}", row) - row - kRow.size());
  const double hours = redis::parse_or_zero<double>(number);
  const std::string how = fmt::format("Redis will be full in {:.1f} hours, if it goes on", hours);
  if (hours >= kSoon) return out.ok(kCheck, how);
  out.warn(kCheck, how, "raise maxmemory; freshetctl visitors shows who writes most");
}

// What it says that no worker has.
void judge_missing(std::string_view status, const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "ready", kRow = "\"missing\":\"";
  const std::size_t row = status.find(kRow);
  if (row == status.npos) return;
  const std::size_t from = row + kRow.size();
  const std::string_view names = status.substr(from, status.find('"', from) - from);
  if (names.empty()) return out.ok(kCheck, "the workers have all that they need");
  const auto lack = [&](std::string_view need) { return names.find(need) != names.npos; };
  const std::string what = fmt::format("no worker has: {}", names);
  if (std::ranges::any_of(settings.ready.require, lack))
    return out.error(kCheck, what + "; /health/ready answers 503",
                     "what is said of it here, or take it out of ready.require");
  if (lack(dependency_name(Dependency::kIndex)))
    return out.warn(
        kCheck, what + "; feeds have what is hot and new only",
        settings.recorder.enabled ? "freshetctl reindex" : "search.shards names the servers of the index");
  out.ok(kCheck, what);
}

}  // namespace

void look_at_status_socket(const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "status.socket";
  const std::string& listen = settings.pool.status_listen;
  if (listen.empty())
    return out.warn(
        kCheck,
        "pm.status_listen is not set: when all workers are busy or stopped, nobody answers "
        "/status, /metrics and /health",
        "pm.status_listen = \"/run/freshet/status.sock\" and a restart; freshet-http.conf has its "
        "upstream freshet_status");
  const std::string& path = settings.pool.status_path;
  Question asked{path.empty() || path.size() > 100 ? "/health/live" : path + "?json", {}};
  switch (listen.starts_with('/') ? ask_unix(listen, asked) : ask_tcp(listen, asked)) {
    case Answer::kYes:
      judge_forecast(asked.reply, out);
      judge_missing(asked.reply, settings, out);
      return out.ok(kCheck, "status and metrics are answered on " + listen);
    case Answer::kForbidden:
      return out.not_looked(kCheck, listen + " is not writable for this user");
    case Answer::kNobody:
      return out.error(kCheck, "nobody listens on pm.status_listen, " + listen,
                       "systemctl restart freshet; journalctl -u freshet tells why it was not opened");
    case Answer::kSilent:
      return out.error(kCheck, listen + " takes connections and does not answer",
                       "journalctl -u freshet; the master makes the status process anew when it is killed");
  }
}

}  // namespace freshet::ctl
