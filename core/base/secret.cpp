#include "core/base/secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "core/base/descriptor.h"

namespace freshet {
namespace {

constexpr std::size_t kMaxSecretBytes = 1 << 20;

tl::unexpected<Error> unreadable(const std::string& path, int error) {
  return fail(error == EACCES ? ErrorCode::kForbidden : ErrorCode::kInvalid, "unreadable_file", {},
              path + ": cannot be read: " + std::strerror(error));
}

}  // namespace

Result<std::string> read_whole_file(const std::string& path, std::size_t max_bytes) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!file) return unreadable(path, errno);
  std::string text;
  std::array<char, 65536> buffer{};
  while (true) {
    const ssize_t bytes = read(file.get(), buffer.data(), buffer.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return unreadable(path, errno);
    if (bytes == 0) return text;
    if (static_cast<std::size_t>(bytes) > max_bytes - text.size()) return unreadable(path, EFBIG);
    text.append(buffer.data(), static_cast<std::size_t>(bytes));
  }
}

int read_access_error(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return errno;
  if (S_ISDIR(status.st_mode)) return EISDIR;
  return access(path.c_str(), R_OK) == 0 ? 0 : errno;
}

Result<std::string> read_secret(const std::string& name) {
  std::filesystem::path path = name;
  const char* directory = std::getenv("CREDENTIALS_DIRECTORY");
  if (path.is_relative() && directory != nullptr) path = std::filesystem::path(directory) / path;
  auto secret = read_whole_file(path, kMaxSecretBytes);
  if (!secret) return fail(secret.error().code, "bad_secret", {}, secret.error().detail);
  while (!secret->empty() && (secret->back() == '\n' || secret->back() == '\r')) secret->pop_back();
  if (secret->empty()) return fail(ErrorCode::kInvalid, "bad_secret", {}, path.string() + ": is empty");
  return secret;
}

bool is_hidden_credential(const std::string& path) {
  const char* const credentials = std::getenv("CREDENTIALS_DIRECTORY");
  return credentials && path.starts_with(credentials) && access(credentials, X_OK) != 0;
}

std::string redact_credentials(std::string_view url) {
  const std::size_t at = url.rfind('@');
  if (at == std::string_view::npos || url.starts_with("unix:///")) return std::string(url);
  constexpr std::string_view kSeparators = ":/";
  const std::size_t scheme_end = std::min(url.find_first_of(kSeparators), at);
  const std::size_t begin =
      scheme_end == at ? 0 : std::min(url.find_first_not_of(kSeparators, scheme_end), at);
  return std::string(url.substr(0, begin)).append("***").append(url.substr(at));
}

}  // namespace freshet
