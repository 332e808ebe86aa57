#include "scripts/ctl/doctor/fastcgi_client.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "core/base/descriptor.h"

namespace freshet::ctl {
namespace {

enum RecordType : std::uint8_t { kBeginRequest = 1, kEndRequest = 3, kParams = 4, kStdin = 5, kStdout = 6 };
constexpr std::size_t kHeaderBytes = 8;
constexpr std::size_t kMaxReply = 64UL << 20U;

tl::unexpected<Error> no_answer(std::string_view reason, const std::string& address, const std::string& why) {
  return fail(ErrorCode::kUnavailable, reason, {}, "the service at " + address + " does not answer: " + why);
}

// After connect() has failed.
tl::unexpected<Error> not_connected(const std::string& address) {
  const int error = errno;
  if (error == EACCES || error == EPERM)
    return no_answer("forbidden", address,
                     std::strerror(error) + std::string("; run this as root or as the service's user"));
  if (error == EAGAIN || error == EINPROGRESS || error == ETIMEDOUT)
    return no_answer("no_reply", address, "timeout");
  return no_answer("no_listener", address, std::strerror(error));
}

tl::unexpected<Error> no_reply(const std::string& address) {
  return no_answer("no_reply", address, errno == EAGAIN ? "timeout" : std::strerror(errno));
}

std::string record(RecordType type, std::string_view content) {
  std::string out(kHeaderBytes, '\0');
  out[0] = 1;  // version
  out[1] = static_cast<char>(type);
  out[3] = 1;  // request id
  out[4] = static_cast<char>(content.size() >> 8U);
  out[5] = static_cast<char>(content.size() & 0xffU);
  return out.append(content);
}

// REQUIRES: both are shorter than 128 bytes.
std::string parameter(std::string_view name, std::string_view value) {
  std::string out{static_cast<char>(name.size()), static_cast<char>(value.size())};
  return out.append(name).append(value);
}

std::string get_request(const std::string& uri) {
  using namespace std::string_view_literals;
  return record(kBeginRequest, "\0\1\0\0\0\0\0\0"sv) +  // a responder, without keep-alive
         record(kParams, parameter("REQUEST_METHOD", "GET") + parameter("REQUEST_URI", uri) +
                             parameter("REMOTE_ADDR", "unix:") + parameter("FRESHET_ZONE", "internal")) +
         record(kParams, "") + record(kStdin, "");
}

void set_timeout(int fd, milliseconds timeout) {
  timeval value{};
  value.tv_sec = timeout.count() / 1000;
  value.tv_usec = timeout.count() % 1000 * 1000;
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &value, sizeof value);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &value, sizeof value);  // also of connect()
}

Result<Descriptor> connect_unix(const std::string& path, milliseconds timeout) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  Descriptor sock(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  set_timeout(sock.get(), timeout);
  if (connect(sock.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return sock;
  return not_connected(path);
}

Result<Descriptor> connect_tcp(const std::string& address, milliseconds timeout) {
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code =
      getaddrinfo(host == "*" ? nullptr : host.c_str(), address.substr(colon + 1).c_str(), &hints, &found);
  if (code != 0) return no_answer("no_listener", address, gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, freeaddrinfo);
  for (const addrinfo* each = list.get(); each != nullptr; each = each->ai_next) {
    Descriptor sock(socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    set_timeout(sock.get(), timeout);
    if (connect(sock.get(), each->ai_addr, each->ai_addrlen) == 0) return sock;
  }
  return not_connected(address);
}

// The content of the reply's stdout records; nullopt while the reply is incomplete.
std::optional<std::string> decode(std::string_view bytes) {
  std::string out;
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(bytes[at]); };
  while (bytes.size() >= kHeaderBytes) {
    const std::size_t size = static_cast<std::size_t>(byte(4)) << 8U | byte(5);
    const std::size_t whole = kHeaderBytes + size + byte(6);
    if (byte(1) == kEndRequest) return out;
    if (bytes.size() < whole) return std::nullopt;
    if (byte(1) == kStdout) out.append(bytes.substr(kHeaderBytes, size));
    bytes.remove_prefix(whole);
  }
  return std::nullopt;
}

FastcgiReply parse_cgi(const std::string& text) {
  FastcgiReply reply;
  const std::size_t end = text.find("\r\n\r\n");
  constexpr std::string_view kStatus = "Status: ";
  if (text.starts_with(kStatus))
    std::from_chars(text.data() + kStatus.size(), text.data() + text.size(), reply.status);
  if (end != std::string::npos) reply.body = text.substr(end + 4);
  return reply;
}

}  // namespace

Result<FastcgiReply> fastcgi_get(const std::string& address, const std::string& uri, milliseconds timeout) {
  FRESHET_TRY(sock,
              address.starts_with('/') ? connect_unix(address, timeout) : connect_tcp(address, timeout));
  const std::string request = get_request(uri);
  if (send(sock->get(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
    return no_reply(address);
  std::string received;
  std::array<char, 65536> buffer{};
  while (true) {
    const ssize_t got = recv(sock->get(), buffer.data(), buffer.size(), 0);
    if (got < 0) return no_reply(address);
    if (got == 0)
      return no_answer("no_reply", address,
                       address.starts_with('/')
                           ? "it closed the connection"
                           : "it closed the connection; listen.allowed_clients must contain this client");
    received.append(buffer.data(), static_cast<std::size_t>(got));
    if (auto text = decode(received)) return parse_cgi(*text);
    if (received.size() > kMaxReply) return no_answer("no_reply", address, "the reply is not FastCGI");
  }
}

}  // namespace freshet::ctl
