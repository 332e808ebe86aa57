// The file that names the master's process id.
#pragma once

#include <string>

#include "core/base/result.h"

namespace freshet {

class PidFile {
 public:
  // Writes the file, in one step for whoever reads it; an empty path is no file. Error: kInvalid
  // "bad_pid_file".
  static Result<PidFile> write(const std::string& path);
  PidFile(PidFile&& other) noexcept;
  PidFile& operator=(PidFile&&) = delete;
  ~PidFile();                      // removes it, if it still names this process
  void disown() { path_.clear(); }  // to another process

 private:
  explicit PidFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace freshet
