// A temporary folder.
#pragma once

#include <filesystem>

namespace freshet::tuning {

// A new folder in `below`, removed with its contents by the destructor. The constructor throws
// std::runtime_error.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::filesystem::path& below);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace freshet::tuning
