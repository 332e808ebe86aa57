// Reads a file with a single read: stream iterators take a second per megabyte under the
// sanitizers.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace freshet::test {

// Empty if the file does not exist.
inline std::string file_bytes(const std::filesystem::path& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  std::string all(error ? 0 : size, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(all.data(), static_cast<std::streamsize>(all.size()));
  all.resize(static_cast<std::size_t>(file.gcount()));
  return all;
}

}  // namespace freshet::test
