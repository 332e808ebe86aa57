// Files that the master loads once and every fork inherits: secrets, compiled crawler patterns,
// client lists. Holds no descriptor and no thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/config/settings.h"
#include "core/redis/redis_url.h"
#include "fcgi/http/bots.h"
#include "fcgi/http/client_list.h"

namespace freshet {

struct StartupFiles {
  std::string salt;                                  // from identity.salt_file, else random
  std::map<std::string, std::string> token_keys;     // from identity.token_keys: key id → secret
  std::map<std::string, std::string> internal_keys;  // from identity.internal_keys: key id → key
  std::string redis_password;                        // redis.password_file
  std::string sentinel_password;                     // redis.sentinel_password_file
  std::shared_ptr<http::BotMatcher> bot_matcher;
  std::shared_ptr<const http::ClientLists> client_lists;
};

// Reads the files that `settings` names. Relative names are in $CREDENTIALS_DIRECTORY (systemd's
// LoadCredential), except for client lists. Without a salt file `random_salt` is used, and visitors
// are new after a restart of the master. Checks everything that a worker makes of the settings and
// files. Errors, with directive, path and cause in the detail for a file that cannot be read:
// kForbidden or kInvalid "bad_secret", "weak_key", "bad_key_id", "bad_pattern", "bad_clients",
// "bad_redis_url", "bad_address" or "bad_error_log".
Result<StartupFiles> load_startup_files(const Settings& settings, const std::string& random_salt);
// Makes the checks of a start for `freshetd -t`, which may run without the service's permissions:
// those of load_startup_files(), sockets, pid file, `chdir` and limits. Accepts the files that only
// this process may not read, of which load_config() warns. Returns warnings of what this process
// may not do but the service might, and of what the service can do without. Errors: those of
// load_startup_files(), "bad_listen", "bad_pid_file" or "bad_chdir".
Result<std::vector<std::string>> check_startup_files(const Settings& settings);

// Address of Redis (redis::endpoint_of). Errors: kInvalid "bad_redis_url" or "bad_address".
Result<redis::Endpoint> redis_endpoint(const RedisSettings& settings, const StartupFiles& files);

// Logs an error if this process can neither write to the folder nor create it, because a data
// volume is read-only or belongs to another user. `directive` names it.
void check_writable_folder(std::string_view directive, const std::string& folder);
// Likewise for the folder of the file.
void check_writable_file(std::string_view directive, const std::string& file);

std::string make_random_salt();

}  // namespace freshet
