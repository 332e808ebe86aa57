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
#include "fcgi/http/hmac.h"
#include "fcgi/http/identity.h"
#include "fcgi/http/page_token.h"
#include "fcgi/http/signature.h"
#include "fcgi/process/child.h"
#include "fcgi/process/listener.h"
#include "fcgi/process/pid_file.h"
#include "fcgi/process/runtime_files.h"

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

// read_named_secret() for the key of an HMAC.
Result<void> read_key(std::string_view directive, const std::string& path, OnForbidden on_forbidden,
                      std::string& key) {
  FRESHET_TRY(read, read_named_secret(directive, path, on_forbidden, key));
  const auto hmac = path.empty() ? Result<void>() : http::Hmac::create(key).map([](const auto&) {});
  if (hmac) return {};
  Error error = hmac.error();
  error.detail = path + ": " + error.detail;
  return error_of(directive, std::move(error));
}

// The path, or its nearest ancestor that exists.
std::filesystem::path nearest_existing(const std::string& path) {
  std::filesystem::path found = std::filesystem::absolute(path);
  std::error_code ignored;
  while (found.has_relative_path() && !std::filesystem::exists(found, ignored)) found = found.parent_path();
  return found;
}

std::string folder_of(const std::string& file) {
  return std::filesystem::absolute(file).parent_path().string();
}

// errno of writing to the folder, or of creating it; 0 if that is possible.
int folder_error(const std::string& folder) {
  const std::filesystem::path existing = nearest_existing(folder);
  std::error_code ignored;
  if (!std::filesystem::is_directory(existing, ignored)) return ENOTDIR;
  return access(existing.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
}

// errno of creating or replacing the file and its folder.
int file_error(const std::string& file) {
  std::error_code ignored;
  return std::filesystem::is_directory(file, ignored) ? EISDIR : folder_error(folder_of(file));
}

// errno of opening a file for appending, 0 if that is possible. Leaves the file as it is; for a
// missing one, which the log creates with its folders, a temporary file tells.
int append_error(const std::string& path) {
  // O_NONBLOCK: does not wait for the reader of a FIFO.
  if (Descriptor(open(path.c_str(), O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK | O_CLOEXEC))) return 0;
  if (errno != ENOENT) return errno == ENXIO ? 0 : errno;
  std::string temporary = nearest_existing(path) / ".freshet-XXXXXX";
  const Descriptor created(mkostemp(temporary.data(), O_CLOEXEC));
  if (!created) return errno;
  unlink(temporary.c_str());
  return 0;
}

// errno of opening a log whose folder must exist.
int request_log_error(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? append_error(path) : file_creation_error(path);
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
  FRESHET_TRY(salt, read_key("identity.salt_file", identity.salt_file, on_forbidden, files.salt));
  FRESHET_TRY(password, read_named_secret("redis.password_file", settings.redis.password_file, on_forbidden,
                                          files.redis_password));
  FRESHET_TRY(sentinel_password,
              read_named_secret("redis.sentinel_password_file", settings.redis.sentinel_password_file,
                                on_forbidden, files.sentinel_password));
  for (const auto& [kid, path] : identity.token_key_files) {
    FRESHET_TRY(key, read_key("identity.token_keys", path, on_forbidden, files.token_keys[kid]));
  }
  for (const auto& [kid, path] : identity.internal_key_files) {
    FRESHET_TRY(key, read_key("identity.internal_keys", path, on_forbidden, files.internal_keys[kid]));
  }
  // Report a bad key id here, before the first fork.
  const auto mode = http::parse_identity_mode(identity.mode);
  if (const auto readers = http::Identity::create(mode, files.salt, files.token_keys); !readers)
    return error_of("identity.token_keys", readers.error());
  if (const auto signatures = http::SignatureKeys::create(files.internal_keys); !signatures)
    return error_of("identity.internal_keys", signatures.error());
  FRESHET_TRY(pages, http::PageTokenSigner::create(files.salt));
  if (const auto endpoint = redis_endpoint(settings.redis, files); !endpoint)
    return error_of(endpoint.error().reason == "bad_address" ? "redis.sentinels" : "redis.url",
                    endpoint.error());
  http::ClientLists lists;
  const ClientSettings& clients = settings.clients;
  FRESHET_TRY(denied, read_client_list("clients.deny_file", clients.deny_file, on_forbidden, lists.denied));
  FRESHET_TRY(allowed,
              read_client_list("clients.allow_file", clients.allow_file, on_forbidden, lists.allowed));
  files.client_lists = std::make_shared<const http::ClientLists>(std::move(lists));
  auto bots = http::BotMatcher::create(settings.bots.allow);
  if (!bots) return error_of("bots.allow", bots.error());
  files.bot_matcher = std::make_shared<http::BotMatcher>(std::move(*bots));
  return files;
}

}  // namespace

void check_writable_folder(std::string_view directive, const std::string& folder) {
  const int error = folder_error(folder);
  if (error == 0) return;
  log::error("folder_not_writable", {{"directive", std::string(directive)},
                                     {"folder", nearest_existing(folder).string()},
                                     {"user", std::to_string(geteuid())},
                                     {"error", std::strerror(error)},
                                     {"fix", "make the folder or volume writable for this user"}});
}

void check_writable_file(std::string_view directive, const std::string& file) {
  check_writable_folder(directive, folder_of(file));
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

Result<std::vector<std::string>> check_startup_files(const Settings& settings) {
  FRESHET_TRY(files, load(settings, make_random_salt(), OnForbidden::kSubstitute));
  std::vector<std::string> warnings;
  const PoolSettings& pool = settings.pool;
  auto listen = Listener::check(request_listen_options(pool));
  if (listen && !pool.status_listen.empty()) listen = Listener::check(status_listen_options(pool));
  for (const Result<void>& each : {listen, PidFile::check(settings.pid), check_chdir(pool)}) {
    if (each) continue;
    if (each.error().code != ErrorCode::kForbidden) return tl::unexpected(each.error());
    warnings.push_back(each.error().detail);
  }
  for (const Result<void>& each : {set_priority(pool), check_limits(pool)})
    if (!each) warnings.push_back(each.error().detail);
  // The service starts without these, and logs the same. It may have permissions that this process
  // lacks.
  const auto warn = [&](std::string_view directive, const std::string& path, int error) {
    if (error == 0 || error == EACCES) return;
    warnings.push_back(std::string(directive) + ": " + path + ": cannot be written: " + std::strerror(error));
  };
  const RequestLogSettings& logs = settings.request_log;
  if (!logs.slowlog.empty()) warn("slowlog", logs.slowlog, request_log_error(logs.slowlog));
  if (!logs.access_log.empty()) warn("access.log", logs.access_log, request_log_error(logs.access_log));
  warn("spool.path", settings.spool.path, folder_error(settings.spool.path));
  if (!settings.recorder.enabled) return warnings;
  warn("recorder.database", settings.recorder.database, file_error(settings.recorder.database));
  warn("search.index", settings.search.index, folder_error(settings.search.index));
  return warnings;
}

}  // namespace freshet
