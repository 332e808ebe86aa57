#include "core/base/secret.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace freshet {

Result<std::string> read_secret(const std::string& name) {
  std::filesystem::path path = name;
  const char* directory = std::getenv("CREDENTIALS_DIRECTORY");
  if (path.is_relative() && directory != nullptr) path = std::filesystem::path(directory) / path;
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::kInvalid, "bad_secret", {}, path.string() + ": cannot be read");
  std::string secret{std::istreambuf_iterator<char>(file), {}};
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (secret.empty()) return fail(ErrorCode::kInvalid, "bad_secret", {}, path.string() + ": is empty");
  return secret;
}

}  // namespace freshet
