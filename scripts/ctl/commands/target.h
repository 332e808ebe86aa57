// Where the running service is: from --state, --base, --redis and --config.
#pragma once

#include <string>

#include "core/config/settings.h"
#include "core/redis/redis_url.h"
#include "scripts/ctl/replay/http_client.h"

namespace freshet::ctl {

struct Target {
  std::string state;       // --state DIR: an instance that scripts/run started there
  std::string base;        // --base URL: http://host:port or unix:///path/to.sock
  std::string redis;       // --redis URL
  std::string config;      // --config FILE: freshet.toml
  std::string key;         // --key KID:FILE: of identity.internal_keys
  std::string redis_user;  // --redis-user NAME:FILE: whom to be there, instead of the service
};

// The internal server: --base, else the instance in --state (run/internal.url, as scripts/run
// writes it), else http://127.0.0.1:8081; with the key, if any. Errors: kInvalid, kNotFound
// "no_instance".
Result<HttpAddress> http_address(const Target& target);
// The configuration's file: --config, else DIR/etc/freshet.toml where there is one, else empty.
std::string config_path(const Target& target);
// The configuration: --config, else DIR/etc/freshet.toml where there is one, else the shipped
// defaults.
Result<Settings> load_settings(const Target& target);
// Redis: --redis, else what a configuration that was found says, else DIR/run/redis.sock, else the
// shipped default. With the service's own account. Errors: kInvalid.
Result<redis::Endpoint> service_endpoint(const Target& target, const Settings& settings);
// The same with the account of --redis-user, if any; one that answers has our schema, and articles
// in as many groups as redis.partitions says unless any number will do (kConflict "schema_mismatch",
// "partitions_mismatch").
enum class PartitionCheck : std::uint8_t { kAsConfigured, kAny };
Result<redis::Endpoint> redis_endpoint(const Target& target, const Settings& settings,
                                       PartitionCheck partition_check = PartitionCheck::kAsConfigured);

// An error of Redis with the address it is about, for people.
Error with_redis_address(Error error, const redis::Endpoint& endpoint);

inline constexpr const char* kDefaultBaseUrl = "http://127.0.0.1:8081";
// How long freshetctl waits for a reply of Redis: it may read much at once, and nobody waits for
// it.
inline constexpr milliseconds kRedisTimeout{10000};

}  // namespace freshet::ctl
