// Locates the service by --state, --base, --redis and --config.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/config/settings.h"
#include "core/redis/redis_url.h"
#include "scripts/ctl/http/http_client.h"

namespace freshet::ctl {

struct Target {
  std::string state;       // --state DIR: an instance started by scripts/run
  std::string base;        // --base URL: http://host:port or unix:///path/to.sock
  std::string redis;       // --redis URL
  std::string config;      // --config FILE: freshet.toml
  std::string key;         // --key KID:FILE: one of identity.internal_keys
  std::string redis_user;  // --redis-user NAME:FILE: Redis account to use instead of the service's
  // The installed service's freshet.toml.
  std::string default_config;
};

// Address of the internal server: --base, else the instance in --state (run/internal.url, written
// by scripts/run), else http://127.0.0.1:8081; with the key, if any. Errors: kInvalid, kNotFound
// "no_instance".
Result<HttpAddress> http_address(const Target& target);
// The same; without --key, requests are signed with the first of identity.internal_keys, if any.
Result<HttpAddress> signed_http_address(Target target, const Settings& settings);
// Configuration file: --config, else DIR/etc/freshet.toml, else, without --base and --redis,
// default_config. The last two only if they exist; else empty.
std::string config_path(const Target& target);
// Settings: from the environment and config_path(), else the shipped defaults.
Result<Settings> load_settings(const Target& target);
// Redis: --redis, else DIR/run/redis.sock if --state names a folder without a configuration, else
// redis.url. Uses the service's own account. Errors: kInvalid.
Result<redis::Endpoint> service_endpoint(const Target& target, const Settings& settings);
// Like service_endpoint(), with the account of --redis-user, if any. If Redis answers, verifies its
// data. Errors: kConflict, as redis::check_schema(), except `ignored_reasons`, which the caller
// handles.
Result<redis::Endpoint> redis_endpoint(const Target& target, const Settings& settings,
                                       const std::vector<std::string_view>& ignored_reasons = {});

// Prefixes the error's detail with the address, for people.
Error with_redis_address(Error error, const redis::Endpoint& endpoint);

inline constexpr const char* kDefaultBaseUrl = "http://127.0.0.1:8081";
// Timeout of freshetctl's Redis commands. Long, since it reads much at once and no request waits
// for it.
inline constexpr milliseconds kRedisTimeout{10000};

}  // namespace freshet::ctl
