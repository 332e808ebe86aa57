// Test data outside the repository, in the folder $FRESHET_SHARED (by default ../shared next to the
// source tree). Tests whose data is missing report that and pass.
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

// The path of `relative` in that folder; nullopt, with a line "SKIPPED: …", if it does not exist.
inline std::optional<std::filesystem::path> shared_path(const std::string& relative) {
  const char* const override_folder = std::getenv("FRESHET_SHARED");
  const std::filesystem::path path =
      std::filesystem::path(override_folder ? override_folder : FRESHET_SHARED_DEFAULT) / relative;
  if (std::filesystem::exists(path)) return path;
  std::fprintf(stderr, "SKIPPED: %s does not exist (set FRESHET_SHARED)\n", path.c_str());
  return std::nullopt;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Regular files of a folder, sorted by name.
inline std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace freshet::test
