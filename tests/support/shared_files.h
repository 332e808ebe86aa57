// Test material that lies outside the repository: the folder $FRESHET_SHARED, by default ../shared
// beside the source tree. Tests that need it say so when it is missing, and pass.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace freshet::test {

// The path of `relative` inside the folder; nullopt, and a line "SKIPPED: …", when it is not there.
inline std::optional<std::filesystem::path> shared_path(const std::string& relative) {
  const char* const override_folder = std::getenv("FRESHET_SHARED");
  const std::filesystem::path path = std::filesystem::path(override_folder ? override_folder : FRESHET_SHARED_DEFAULT) / relative;
  if (std::filesystem::exists(path)) return path;
  std::fprintf(stderr, "SKIPPED: %s is not there (set FRESHET_SHARED)\n", path.c_str());
  return std::nullopt;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Files of a folder, in name order.
inline std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace freshet::test
