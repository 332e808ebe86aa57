#include "core/redis/redis_url.h"

#include <arpa/inet.h>

#include <array>
#include <charconv>

namespace freshet::redis {

namespace {

tl::unexpected<Error> bad(std::string_view url, const char* why) {
  return fail(ErrorCode::kInvalid, "bad_redis_url", {}, std::string(url) + ": " + why);
}

bool to_int(std::string_view text, int low, int high, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= low && value <= high;
}

Result<Endpoint> parse_unix(std::string_view url, std::string_view rest) {
  Endpoint endpoint;
  const std::size_t query = rest.find('?');
  endpoint.unix_path = rest.substr(0, query);
  if (endpoint.unix_path.empty() || endpoint.unix_path[0] != '/') return bad(url, "needs an absolute path");
  if (query == std::string_view::npos) return endpoint;
  const std::string_view parameter = rest.substr(query + 1);
  if (!parameter.starts_with("db=") || !to_int(parameter.substr(3), 0, 1023, endpoint.db))
    return bad(url, "the only parameter is db=0..1023");
  return endpoint;
}

Result<Endpoint> parse_tcp(std::string_view url, std::string_view rest) {
  Endpoint endpoint;
  if (const std::size_t at = rest.rfind('@'); at != std::string_view::npos) {
    const std::string_view credentials = rest.substr(0, at);
    rest.remove_prefix(at + 1);
    const std::size_t colon = credentials.find(':');
    if (colon == std::string_view::npos) return bad(url, "credentials are user:password");
    endpoint.username = credentials.substr(0, colon);
    endpoint.password = credentials.substr(colon + 1);
  }
  if (const std::size_t slash = rest.find('/'); slash != std::string_view::npos) {
    const std::string_view db = rest.substr(slash + 1);
    if (!db.empty() && !to_int(db, 0, 1023, endpoint.db)) return bad(url, "the database is 0..1023");
    rest = rest.substr(0, slash);
  }
  std::string_view host = rest;
  if (rest.starts_with('[')) {  // IPv6
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) return bad(url, "unclosed [");
    host = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
  } else {
    host = rest.substr(0, rest.find(':'));
    rest.remove_prefix(host.size());
  }
  if (host.empty()) return bad(url, "needs a host");
  endpoint.host = host;
  if (!rest.empty() && (rest[0] != ':' || !to_int(rest.substr(1), 1, 65535, endpoint.port)))
    return bad(url, "the port is 1..65535");
  return endpoint;
}

}  // namespace

Result<Endpoint> parse_url(std::string_view url) {
  constexpr std::string_view kUnix = "unix://";
  constexpr std::string_view kTcp = "redis://";
  if (url.starts_with(kUnix)) return parse_unix(url, url.substr(kUnix.size()));
  if (url.starts_with(kTcp)) return parse_tcp(url, url.substr(kTcp.size()));
  return bad(url, "starts with unix:// or redis://");
}

Result<Address> parse_address(std::string_view text) {
  const auto wrong = [&] {
    return fail(ErrorCode::kInvalid, "bad_address", {},
                std::string(text) + ": needs a numeric address and a port, as 192.0.2.1:26379");
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong();
  Address out;
  if (!to_int(text.substr(colon + 1), 1, 65535, out.port)) return wrong();
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  out.host = host;
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  if (inet_pton(bracketed ? AF_INET6 : AF_INET, out.host.c_str(), bytes.data()) != 1) return wrong();
  return out;
}

Result<Endpoint> endpoint_of(const RedisSettings& settings, const std::string& password,
                             const std::string& sentinel_password) {
  auto endpoint = parse_url(settings.url);
  if (!endpoint) return endpoint;
  if (endpoint->db == 0) endpoint->db = settings.db;
  if (endpoint->username.empty()) endpoint->username = settings.username;
  if (endpoint->password.empty()) endpoint->password = password;
  for (const std::string& each : settings.sentinels) {
    FRESHET_TRY(address, parse_address(each));
    endpoint->sentinels.addresses.push_back(*address);
  }
  endpoint->sentinels.master = settings.sentinel_master;
  endpoint->sentinels.username = settings.sentinel_username;
  endpoint->sentinels.password = sentinel_password;
  return endpoint;
}

std::string shown(const Endpoint& endpoint) {
  const auto at = [](const std::string& host, int port) { return host + ":" + std::to_string(port); };
  if (endpoint.sentinels.addresses.empty())
    return endpoint.unix_path.empty() ? at(endpoint.host, endpoint.port) : endpoint.unix_path;
  std::string out = endpoint.sentinels.master + " of";
  for (const Address& each : endpoint.sentinels.addresses)
    out.append(out.ends_with(" of") ? " " : ", ").append(at(each.host, each.port));
  return out;
}

}  // namespace freshet::redis
