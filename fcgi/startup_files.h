// What is prepared once in the master and inherited by every fork: secrets read from files and the
// compiled crawler patterns, lists of clients. Holds no descriptor and no thread.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/base/result.h"
#include "core/config/settings.h"
#include "core/redis/redis_url.h"
#include "fcgi/http/bots.h"
#include "fcgi/http/client_list.h"

namespace freshet {

struct StartupFiles {
  std::string salt;                             // identity.salt_file, or random
  std::map<std::string, std::string> token_keys;    // identity.token_keys: kid → secret
  std::map<std::string, std::string> internal_keys;  // identity.internal_keys: kid → key
  std::string redis_password;                   // redis.password_file
  std::string sentinel_password;                // redis.sentinel_password_file
  std::shared_ptr<http::BotMatcher> bot_matcher;
  std::shared_ptr<const http::ClientLists> client_lists;
};

// Reads the files that `settings` names; a relative name lies in $CREDENTIALS_DIRECTORY (systemd's
// LoadCredential; not the lists of clients). Without a salt file `random_salt` is used: visitors
// are then new after a restart of the master. Errors: kInvalid "bad_secret", "weak_key", "bad_key_id",
// "bad_pattern" or "bad_clients".
Result<StartupFiles> load_startup_files(const Settings& settings, const std::string& random_salt);

// Where Redis is (redis::endpoint_of). Errors: kInvalid, "bad_redis_url" or "bad_address".
Result<redis::Endpoint> redis_endpoint(const RedisSettings& settings, const StartupFiles& files);

// The lists of clients that `settings` names: what of prepare() `freshetd -t` can look at without
// secrets. Error: kInvalid "bad_clients".
Result<http::ClientLists> read_client_lists(const ClientSettings& settings);

// 32 random bytes.
std::string make_random_salt();

}  // namespace freshet
