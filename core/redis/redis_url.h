// Where Redis is: unix:///path/to.sock[?db=N] or redis://[[user]:password@]host[:port][/db], or
// whatever sentinels say is the master of a name; or a cluster of which some nodes are known,
// redis+cluster://[[user]:password@]address:port[,address:port…].
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/config/settings.h"

namespace freshet::redis {

struct Address {
  std::string host;  // numeric
  int port = 0;
  bool operator==(const Address&) const = default;
};

// Who knows where the master is. `addresses` empty: nobody need be asked.
struct Sentinels {
  std::vector<Address> addresses;
  std::string master_name;              // the name they know it by
  std::string username, password;  // of the sentinels themselves; empty: no AUTH
};

struct Endpoint {
  std::string unix_path;  // set for a unix socket, else empty
  std::string host;
  int port = 6379;
  std::string username, password;  // empty: no AUTH
  int db = 0;
  Sentinels sentinels;         // when there are any, host, port and unix_path mean nothing
  std::vector<Address> nodes;  // of a cluster: likewise
  bool is_cluster() const { return !nodes.empty(); }
};

// Errors: kInvalid, "bad_redis_url".
Result<Endpoint> parse_url(std::string_view url);

// "192.0.2.1:26379" or "[2001:db8::1]:26379". Names are refused: looking one up would stop a
// worker's loop. Errors: kInvalid, "bad_address".
Result<Address> parse_address(std::string_view text);

// What the settings say: redis.url, completed by redis.db and redis.username where it says nothing,
// and by what the password files held. Errors: kInvalid, "bad_redis_url" or "bad_address".
Result<Endpoint> endpoint_of(const RedisSettings& settings, const std::string& password,
                             const std::string& sentinel_password);

// "192.0.2.1:6379", "[2001:db8::1]:6379".
std::string to_string(const Address& address);

// "/run/redis.sock", "192.0.2.1:6379", "NAME of 192.0.2.1:26379, …" or "the cluster of
// 192.0.2.1:6379, …", for people.
std::string to_string(const Endpoint& endpoint);

}  // namespace freshet::redis
