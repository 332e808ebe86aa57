#include "core/redis/redis_url.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "core/base/secret.h"

namespace freshet::redis {

namespace {

tl::unexpected<Error> invalid_url(std::string_view url, const char* reason) {
  return fail(ErrorCode::kInvalid, "bad_redis_url", {}, redact_credentials(url) + ": " + reason);
}

bool parse_int_in_range(std::string_view text, int low, int high, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= low && value <= high;
}

bool is_ip(int family, const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return inet_pton(family, host.c_str(), bytes.data()) == 1;
}
bool is_ipv4(const std::string& host) { return is_ip(AF_INET, host); }
bool is_ipv6(const std::string& host) { return is_ip(AF_INET6, host); }

// Rejects incomplete addresses ("192.0.2", "1"), which getaddrinfo() would accept.
bool is_ipv4_or_name(const std::string& host) {
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  };
  const bool has_letter = std::ranges::any_of(host, [](unsigned char c) { return std::isalpha(c) != 0; });
  return is_ipv4(host) || (has_letter && std::ranges::all_of(host, allowed));
}

Result<Endpoint> parse_unix(std::string_view url, std::string_view rest) {
  Endpoint endpoint;
  const std::size_t query = rest.find('?');
  endpoint.unix_path = rest.substr(0, query);
  if (endpoint.unix_path.empty() || endpoint.unix_path[0] != '/')
    return invalid_url(url, "needs an absolute path");
  if (query == std::string_view::npos) return endpoint;
  const std::string_view parameter = rest.substr(query + 1);
  if (!parameter.starts_with("db=") || !parse_int_in_range(parameter.substr(3), 0, 1023, endpoint.db))
    return invalid_url(url, "the only parameter is db=0..1023");
  return endpoint;
}

// Consumes user:password@ from the front of `rest`, if present. Returns false if it is malformed.
bool consume_credentials(std::string_view& rest, Endpoint& endpoint) {
  const std::size_t at = rest.rfind('@');
  if (at == std::string_view::npos) return true;
  const std::string_view credentials = rest.substr(0, at);
  rest.remove_prefix(at + 1);
  const std::size_t colon = credentials.find(':');
  if (colon == std::string_view::npos) return false;
  endpoint.username = credentials.substr(0, colon);
  endpoint.password = credentials.substr(colon + 1);
  return true;
}
constexpr const char* kBadCredentials = "credentials must be user:password";

Result<Endpoint> parse_cluster(std::string_view url, std::string_view rest) {
  Endpoint endpoint;
  if (!consume_credentials(rest, endpoint)) return invalid_url(url, kBadCredentials);
  if (rest.find('/') != std::string_view::npos)
    return invalid_url(url, "a cluster has only one database: remove /db");
  while (true) {
    const std::size_t comma = rest.find(',');
    const auto node = parse_address(rest.substr(0, comma));
    if (!node) return invalid_url(url, "needs nodes with their ports, such as 192.0.2.1:6379,192.0.2.2:6379");
    endpoint.nodes.push_back(*node);
    if (comma == std::string_view::npos) return endpoint;
    rest.remove_prefix(comma + 1);
  }
}

Result<Endpoint> parse_tcp(std::string_view url, std::string_view rest) {
  Endpoint endpoint;
  if (!consume_credentials(rest, endpoint)) return invalid_url(url, kBadCredentials);
  if (const std::size_t slash = rest.find('/'); slash != std::string_view::npos) {
    const std::string_view db = rest.substr(slash + 1);
    if (!db.empty() && !parse_int_in_range(db, 0, 1023, endpoint.db))
      return invalid_url(url, "the database must be 0..1023");
    rest = rest.substr(0, slash);
  }
  std::string_view host = rest;
  if (rest.starts_with('[')) {
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) return invalid_url(url, "unclosed [");
    host = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
  } else {
    host = rest.substr(0, rest.find(':'));
    rest.remove_prefix(host.size());
  }
  if (host.empty()) return invalid_url(url, "needs a host");
  endpoint.host = host;
  if (!rest.empty() && (rest[0] != ':' || !parse_int_in_range(rest.substr(1), 1, 65535, endpoint.port)))
    return invalid_url(url, "the port must be 1..65535");
  return endpoint;
}

}  // namespace

Result<Endpoint> parse_url(std::string_view url) {
  constexpr std::string_view kUnix = "unix://";
  constexpr std::string_view kTcp = "redis://";
  constexpr std::string_view kCluster = "redis+cluster://";
  if (url.starts_with(kUnix)) return parse_unix(url, url.substr(kUnix.size()));
  if (url.starts_with(kTcp)) return parse_tcp(url, url.substr(kTcp.size()));
  if (url.starts_with(kCluster)) return parse_cluster(url, url.substr(kCluster.size()));
  return invalid_url(url, "must start with unix://, redis:// or redis+cluster://");
}

Result<Address> parse_address(std::string_view text) {
  const auto invalid = [&] {
    return fail(ErrorCode::kInvalid, "bad_address", {},
                redact_credentials(text) + ": needs a host and a port, such as 192.0.2.1:26379");
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return invalid();
  Address out;
  if (!parse_int_in_range(text.substr(colon + 1), 1, 65535, out.port)) return invalid();
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  out.host = host;
  const bool valid = bracketed ? is_ipv6(out.host) : is_ipv4_or_name(out.host);
  if (!valid) return invalid();
  return out;
}

bool is_numeric_host(const std::string& host) { return is_ipv4(host) || is_ipv6(host); }

Result<Endpoint> endpoint_of(const RedisSettings& settings, const std::string& password,
                             const std::string& sentinel_password) {
  auto endpoint = parse_url(settings.url);
  if (!endpoint) return endpoint;
  if (endpoint->db == 0) endpoint->db = settings.db;
  if (endpoint->username.empty()) endpoint->username = settings.username;
  if (endpoint->password.empty()) endpoint->password = password;
  if (endpoint->is_cluster() && endpoint->db != 0)
    return invalid_url(
        "redis.db", "a cluster has only database 0: leave it 0; to share the cluster, set redis.key_prefix");
  if (endpoint->is_cluster() && !settings.sentinels.empty())
    return invalid_url("redis.sentinels", "not used with a cluster: leave it empty");
  for (const std::string& each : settings.sentinels) {
    FRESHET_TRY(address, parse_address(each));
    endpoint->sentinels.addresses.push_back(*address);
  }
  endpoint->sentinels.master_name = settings.sentinel_master;
  endpoint->sentinels.username = settings.sentinel_username;
  endpoint->sentinels.password = sentinel_password;
  return endpoint;
}

std::string to_string(const Address& address) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

std::string to_string(const Endpoint& endpoint) {
  const auto list = [](std::string out, const std::vector<Address>& addresses) {
    for (const Address& each : addresses)
      out.append(out.ends_with(" of") ? " " : ", ").append(to_string(each));
    return out;
  };
  if (endpoint.is_cluster()) return list("the cluster of", endpoint.nodes);
  if (!endpoint.sentinels.addresses.empty())
    return list(endpoint.sentinels.master_name + " of", endpoint.sentinels.addresses);
  return endpoint.unix_path.empty() ? to_string(Address{endpoint.host, endpoint.port}) : endpoint.unix_path;
}

}  // namespace freshet::redis
