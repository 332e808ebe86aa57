#include "fcgi/startup_files.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/base/log.h"
#include "core/base/secret.h"
#include "fcgi/http/identity.h"
#include "fcgi/http/page_token.h"
#include "fcgi/http/signature.h"

namespace freshet {
namespace {

Result<http::ClientLists> read_client_lists(const ClientSettings& settings) {
  http::ClientLists lists;
  for (const auto& [file, into] :
       {std::pair(&settings.deny_file, &lists.denied), std::pair(&settings.allow_file, &lists.allowed)}) {
    FRESHET_TRY(read, http::ClientList::read(*file));
    *into = std::move(*read);
  }
  return lists;
}

// Returns true if a secret cannot be read by this process, which load_config() warns of.
bool has_unreadable_secret(const Settings& settings) {
  const auto is_unreadable = [](const std::string& name) {
    const auto secret = name.empty() ? Result<std::string>() : read_secret(name);
    return !secret && secret.error().detail.ends_with("cannot be read");
  };
  const auto names_unreadable = [&](const auto& key) { return is_unreadable(key.second); };
  const IdentitySettings& identity = settings.identity;
  return is_unreadable(identity.salt_file) || is_unreadable(settings.redis.password_file) ||
         is_unreadable(settings.redis.sentinel_password_file) ||
         std::ranges::any_of(identity.token_key_files, names_unreadable) ||
         std::ranges::any_of(identity.internal_key_files, names_unreadable);
}

}  // namespace

void check_writable_folder(std::string_view directive, const std::string& path) {
  std::filesystem::path folder = std::filesystem::absolute(path);
  std::error_code ignored;
  while (folder.has_relative_path() && !std::filesystem::is_directory(folder, ignored))
    folder = folder.parent_path();
  if (access(folder.c_str(), W_OK | X_OK) == 0) return;
  const std::string error = std::strerror(errno);
  log::error("folder_not_writable", {{"directive", std::string(directive)},
                                     {"folder", folder.string()},
                                     {"user", std::to_string(geteuid())},
                                     {"error", error},
                                     {"fix", "make the folder or volume writable for this user"}});
}

std::string make_random_salt() {
  std::string salt(32, '\0');
  if (getrandom(salt.data(), salt.size(), 0) != static_cast<ssize_t>(salt.size())) std::abort();
  return salt;
}

Result<redis::Endpoint> redis_endpoint(const RedisSettings& settings, const StartupFiles& files) {
  return redis::endpoint_of(settings, files.redis_password, files.sentinel_password);
}

Result<StartupFiles> load_startup_files(const Settings& settings, const std::string& random_salt) {
  StartupFiles files;
  files.salt = random_salt;
  const auto read_into = [](const std::string& name, std::string& into) -> Result<void> {
    if (name.empty()) return {};
    FRESHET_TRY(secret, read_secret(name));
    into = std::move(*secret);
    return {};
  };
  if (auto read = read_into(settings.identity.salt_file, files.salt); !read)
    return tl::unexpected(read.error());
  if (auto read = read_into(settings.redis.password_file, files.redis_password); !read) {
    return tl::unexpected(read.error());
  }
  if (auto read = read_into(settings.redis.sentinel_password_file, files.sentinel_password); !read) {
    return tl::unexpected(read.error());
  }
  for (const auto& [kid, file] : settings.identity.token_key_files) {
    if (auto read = read_into(file, files.token_keys[kid]); !read) return tl::unexpected(read.error());
  }
  for (const auto& [kid, file] : settings.identity.internal_key_files) {
    if (auto read = read_into(file, files.internal_keys[kid]); !read) return tl::unexpected(read.error());
  }
  // Report a weak key or a bad key id here, before the first fork.
  const auto mode = http::parse_identity_mode(settings.identity.mode);
  if (auto identity = http::Identity::create(mode, files.salt, files.token_keys); !identity) {
    return tl::unexpected(identity.error());
  }
  if (auto signatures = http::SignatureKeys::create(files.internal_keys); !signatures) {
    return tl::unexpected(signatures.error());
  }
  if (auto pages = http::PageTokenSigner::create(files.salt); !pages) return tl::unexpected(pages.error());
  if (auto endpoint = redis_endpoint(settings.redis, files); !endpoint)
    return tl::unexpected(endpoint.error());
  FRESHET_TRY(lists, read_client_lists(settings.clients));
  files.client_lists = std::make_shared<const http::ClientLists>(std::move(*lists));
  FRESHET_TRY(bots, http::BotMatcher::create(settings.bots.allow));
  files.bot_matcher = std::make_shared<http::BotMatcher>(std::move(*bots));
  return files;
}

Result<void> check_startup_files(const Settings& settings) {
  Settings readable = settings;
  if (has_unreadable_secret(settings)) {
    readable.identity = {};
    readable.redis.password_file.clear();
    readable.redis.sentinel_password_file.clear();
  }
  return load_startup_files(readable, make_random_salt()).map([](const StartupFiles&) {});
}

}  // namespace freshet
