// A file's content in one read: a stream's iterators take a second for a megabyte where memory is
// watched.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace freshet::test {

// Empty when it is not there.
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
