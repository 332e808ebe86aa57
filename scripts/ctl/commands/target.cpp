#include "scripts/ctl/commands/target.h"

#include <algorithm>
#include <filesystem>

#include "core/base/secret.h"
#include "core/config/config.h"
#include "core/redis/blocking_redis.h"
#include "core/redis/schema.h"
#include "fcgi/http/signature.h"
#include "scripts/ctl/replay/event_log.h"

namespace freshet::ctl {
namespace {

std::string state_path(const Target& target, const char* name) {
  return (std::filesystem::path(target.state) / name).string();
}

constexpr milliseconds kSchemaTimeout{2000};

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// True for a file in a folder that this account may not search: reading it reports the error.
bool may_exist(const std::string& path) {
  std::error_code ignored;
  return !path.empty() &&
         std::filesystem::status(path, ignored).type() != std::filesystem::file_type::not_found;
}

// An unreachable Redis is not an error here; the caller's first command reports it.
Result<redis::Endpoint> verify_schema(Result<redis::Endpoint> endpoint, const Settings& settings,
                                      const std::vector<std::string_view>& ignored_reasons) {
  if (!endpoint) return endpoint;
  redis::BlockingRedis redis(*endpoint, kSchemaTimeout, {});
  const auto verified = redis::run_sync(redis::check_schema(redis, redis::Keys(settings.redis)));
  if (!verified && verified.error().code == ErrorCode::kConflict &&
      std::ranges::find(ignored_reasons, verified.error().reason) == ignored_reasons.end())
    return tl::unexpected(with_redis_address(verified.error(), *endpoint));
  return endpoint;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find_first_of("\r\n")); }

Result<HttpAddress> base_address(const Target& target) {
  if (!target.base.empty()) return parse_http_url(target.base);
  if (target.state.empty()) return parse_http_url(kDefaultBaseUrl);
  if (const auto url = read_file(state_path(target, "run/internal.url")))
    return parse_http_url(first_line(*url));
  return fail(ErrorCode::kNotFound, "no_instance", {}, "no instance is running in " + target.state);
}

}  // namespace

std::string config_path(const Target& target) {
  if (!target.config.empty()) return target.config;
  if (target.state.empty()) {
    const bool is_remote = !target.redis.empty() || !target.base.empty();
    return !is_remote && may_exist(target.default_config) ? target.default_config : std::string();
  }
  const std::string path = state_path(target, "etc/freshet.toml");
  return exists(path) ? path : std::string();
}

Result<HttpAddress> http_address(const Target& target) {
  auto address = base_address(target);
  if (!address || target.key.empty()) return address;
  const std::size_t colon = target.key.find(':');
  if (colon == std::string::npos) return fail(ErrorCode::kInvalid, "bad_key", {}, "--key takes KID:FILE");
  FRESHET_TRY(key, read_secret(target.key.substr(colon + 1)));
  address->key_id = target.key.substr(0, colon);
  address->key = std::move(*key);
  const auto usable = http::SignatureKeys::create({{address->key_id, address->key}});
  if (!usable) return fail(ErrorCode::kInvalid, usable.error().reason, {}, "--key: " + usable.error().detail);
  return address;
}

Result<HttpAddress> signed_http_address(Target target, const Settings& settings) {
  const auto& keys = settings.identity.internal_key_files;
  if (target.key.empty() && !keys.empty()) target.key = keys.begin()->first + ":" + keys.begin()->second;
  return http_address(target);
}

Result<Settings> load_settings(const Target& target) {
  FRESHET_TRY(loaded, load_config(config_path(target)));
  return std::move(loaded->settings);
}

Result<redis::Endpoint> service_endpoint(const Target& target, const Settings& settings) {
  if (!target.redis.empty()) return redis::parse_url(target.redis);
  if (config_path(target).empty() && !target.state.empty()) {
    return redis::parse_url("unix://" + state_path(target, "run/redis.sock"));
  }
  const auto secret = [](const std::string& file) {
    return file.empty() ? Result<std::string>("") : read_secret(file);
  };
  FRESHET_TRY(password, secret(settings.redis.password_file));
  FRESHET_TRY(sentinel_password, secret(settings.redis.sentinel_password_file));
  return redis::endpoint_of(settings.redis, *password, *sentinel_password);
}

Result<redis::Endpoint> redis_endpoint(const Target& target, const Settings& settings,
                                       const std::vector<std::string_view>& ignored_reasons) {
  auto endpoint = service_endpoint(target, settings);
  std::string account = target.redis_user;
  // scripts/run creates the shipped accounts in its own Redis.
  if (const std::string file = state_path(target, "etc/redis-operator");
      account.empty() && target.redis.empty() && !target.state.empty() && exists(file))
    account = "freshet-operator:" + file;
  if (!endpoint || account.empty()) return verify_schema(std::move(endpoint), settings, ignored_reasons);
  const std::size_t colon = account.find(':');
  if (colon == std::string::npos || colon == 0)
    return fail(ErrorCode::kInvalid, "bad_redis_user", {}, "--redis-user takes NAME:FILE");
  FRESHET_TRY(password, read_secret(account.substr(colon + 1)));
  endpoint->username = account.substr(0, colon);
  endpoint->password = std::move(*password);
  return verify_schema(std::move(endpoint), settings, ignored_reasons);
}

Error with_redis_address(Error error, const redis::Endpoint& endpoint) {
  const std::string why = error.detail.empty() ? std::string(error.reason) : error.detail;
  error.detail = "Redis at " + redis::to_string(endpoint) + ": " + why;
  return error;
}

}  // namespace freshet::ctl
