#include "fcgi/startup_files.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/base/descriptor.h"
#include "core/base/log.h"
#include "core/base/secret.h"
#include "fcgi/http/identity.h"
#include "fcgi/http/page_token.h"
#include "fcgi/http/signature.h"

namespace freshet {
namespace {

// Treatment of a file that this process has no permission to read.
enum class OnForbidden : std::uint8_t { kFail, kSubstitute };

tl::unexpected<Error> error_of(std::string_view directive, Error error) {
  error.detail = std::string(directive) + ": " + error.detail;
  return tl::unexpected(std::move(error));
}

// Leaves `list` empty in place of a substitute.
Result<void> read_client_list(std::string_view directive, const std::string& path, OnForbidden on_forbidden,
                              http::ClientList& list) {
  auto read = http::ClientList::read(path);
  if (!read && read.error().code == ErrorCode::kForbidden && on_forbidden == OnForbidden::kSubstitute)
    return {};
  if (!read) return error_of(directive, read.error());
  list = std::move(*read);
  return {};
}

// Leaves `secret` unchanged if `path` is empty. A random substitute passes all checks of secrets.
Result<void> read_named_secret(std::string_view directive, const std::string& path, OnForbidden on_forbidden,
                               std::string& secret) {
  if (path.empty()) return {};
  auto read = read_secret(path);
  const bool is_forbidden =
      !read && (read.error().code == ErrorCode::kForbidden || is_hidden_credential(path));
  if (is_forbidden && on_forbidden == OnForbidden::kSubstitute) read = make_random_salt();
  if (!read) return error_of(directive, read.error());
  secret = std::move(*read);
  return {};
}

std::filesystem::path nearest_existing_folder(const std::string& path) {
  std::filesystem::path folder = std::filesystem::absolute(path);
  std::error_code ignored;
  do folder = folder.parent_path();
  while (folder.has_relative_path() && !std::filesystem::exists(folder, ignored));
  return folder;
}

// errno of opening a file for appending, 0 if that is possible. Leaves the file as it is; for a
// missing one, which the log creates with its folders, a temporary file tells.
int append_error(const std::string& path) {
  // O_NONBLOCK: does not wait for the reader of a FIFO.
  if (Descriptor(open(path.c_str(), O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK | O_CLOEXEC))) return 0;
  if (errno != ENOENT) return errno == ENXIO ? 0 : errno;
  std::string temporary = nearest_existing_folder(path) / ".freshet-XXXXXX";
  const Descriptor created(mkostemp(temporary.data(), O_CLOEXEC));
  if (!created) return errno;
  unlink(temporary.c_str());
  return 0;
}

Result<void> check_error_log(const std::string& path, OnForbidden on_forbidden) {
  const int error = path == "stderr" ? 0 : append_error(path);
  if (error == 0 || (error == EACCES && on_forbidden == OnForbidden::kSubstitute)) return {};
  return fail(ErrorCode::kInvalid, "bad_error_log", {},
              "error_log: " + path + ": cannot be opened for writing: " + std::strerror(error));
}

Result<StartupFiles> load(const Settings& settings, const std::string& random_salt,
                          OnForbidden on_forbidden) {
  FRESHET_TRY(log, check_error_log(settings.error_log, on_forbidden));
  StartupFiles files;
  files.salt = random_salt;
  const IdentitySettings& identity = settings.identity;
  FRESHET_TRY(salt, read_named_secret("identity.salt_file", identity.salt_file, on_forbidden, files.salt));
  FRESHET_TRY(password, read_named_secret("redis.password_file", settings.redis.password_file, on_forbidden,
                                          files.redis_password));
  FRESHET_TRY(sentinel_password,
              read_named_secret("redis.sentinel_password_file", settings.redis.sentinel_password_file,
                                on_forbidden, files.sentinel_password));
  for (const auto& [kid, path] : identity.token_key_files) {
    FRESHET_TRY(key, read_named_secret("identity.token_keys", path, on_forbidden, files.token_keys[kid]));
  }
  for (const auto& [kid, path] : identity.internal_key_files) {
    FRESHET_TRY(key,
                read_named_secret("identity.internal_keys", path, on_forbidden, files.internal_keys[kid]));
  }
  // Report a weak key or a bad key id here, before the first fork.
  const auto mode = http::parse_identity_mode(identity.mode);
  FRESHET_TRY(readers, http::Identity::create(mode, files.salt, files.token_keys));
  FRESHET_TRY(signatures, http::SignatureKeys::create(files.internal_keys));
  FRESHET_TRY(pages, http::PageTokenSigner::create(files.salt));
  FRESHET_TRY(endpoint, redis_endpoint(settings.redis, files));
  http::ClientLists lists;
  const ClientSettings& clients = settings.clients;
  FRESHET_TRY(denied, read_client_list("clients.deny_file", clients.deny_file, on_forbidden, lists.denied));
  FRESHET_TRY(allowed,
              read_client_list("clients.allow_file", clients.allow_file, on_forbidden, lists.allowed));
  files.client_lists = std::make_shared<const http::ClientLists>(std::move(lists));
  FRESHET_TRY(bots, http::BotMatcher::create(settings.bots.allow));
  files.bot_matcher = std::make_shared<http::BotMatcher>(std::move(*bots));
  return files;
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
  return load(settings, random_salt, OnForbidden::kFail);
}

Result<void> check_startup_files(const Settings& settings) {
  return load(settings, make_random_salt(), OnForbidden::kSubstitute).map([](const StartupFiles&) {});
}

}  // namespace freshet
