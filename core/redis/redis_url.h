// Redis endpoints. redis.url is unix:///path/to.sock[?db=N],
// redis://[[user]:password@]host[:port][/db], or
// redis+cluster://[[user]:password@]host:port[,host:port…] with some nodes of a cluster. With
// redis.sentinels the address of the master comes from the sentinels instead.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/config/settings.h"

namespace freshet::redis {

struct Address {
  std::string host;  // numeric, or a name
  int port = 0;
  bool operator==(const Address&) const = default;
};

// The sentinels that know the master's address. No `addresses`: not used.
struct Sentinels {
  std::vector<Address> addresses;
  std::string master_name;         // as configured in the sentinels
  std::string username, password;  // for the sentinels themselves; empty: no AUTH
};

struct Endpoint {
  std::string unix_path;  // empty unless it is a unix socket
  std::string host;
  int port = 6379;
  std::string username, password;  // empty: no AUTH
  int db = 0;
  Sentinels sentinels;         // if any, host, port and unix_path are ignored
  std::vector<Address> nodes;  // of a cluster; if any, host, port and unix_path are ignored
  bool is_cluster() const { return !nodes.empty(); }
};

// Errors: kInvalid, "bad_redis_url".
Result<Endpoint> parse_url(std::string_view url);

// Parses "192.0.2.1:26379", "[2001:db8::1]:26379" or "redis.example.org:6379". Errors: kInvalid,
// "bad_address".
Result<Address> parse_address(std::string_view text);

// The endpoint in the settings: redis.url, completed with redis.db, redis.username and the contents
// of the password files where the URL does not have them. Errors: kInvalid, "bad_redis_url" or
// "bad_address".
Result<Endpoint> endpoint_of(const RedisSettings& settings, const std::string& password,
                             const std::string& sentinel_password);

// Returns whether `host` is an IPv4 or IPv6 address, without brackets.
bool is_numeric_host(const std::string& host);

// "192.0.2.1:6379", "[2001:db8::1]:6379".
std::string to_string(const Address& address);

// For messages: "/run/redis.sock", "192.0.2.1:6379", "NAME of 192.0.2.1:26379, …" or "the cluster
// of 192.0.2.1:6379, …".
std::string to_string(const Endpoint& endpoint);

}  // namespace freshet::redis
