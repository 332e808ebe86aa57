// A temporary log file for one test. Logging returns to stderr when it is destroyed.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "core/base/log.h"

namespace freshet::test {

class LogFile {
 public:
  explicit LogFile(std::string_view level)
      : path_(std::filesystem::temp_directory_path() / ("freshet-log-" + std::to_string(getpid()))) {
    log::open(path_.string(), level);
  }
  ~LogFile() {
    log::open("stderr", "notice");
    std::filesystem::remove(path_);
    std::filesystem::remove(rotated_path());
  }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  std::filesystem::path path() const { return path_; }
  std::filesystem::path rotated_path() const { return path_.string() + ".1"; }

  // The lines of a file, without their timestamps.
  static std::string lines(const std::filesystem::path& path) {
    std::ifstream in(path);
    std::string result, line;
    while (std::getline(in, line)) result += line.substr(line.find(' ') + 1) + "\n";
    return result;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace freshet::test
