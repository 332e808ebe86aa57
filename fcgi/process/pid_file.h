// The file that holds the master's process id.
#pragma once

#include <string>

#include "core/base/result.h"

namespace freshet {

class PidFile {
 public:
  // Writes the file atomically. An empty path means no file. Error: kInvalid "bad_pid_file".
  static Result<PidFile> write(const std::string& path);
  // Checks, for `freshetd -t`, that write() could succeed. Error: "bad_pid_file", kForbidden if the
  // service may succeed nevertheless (runtime_files.h), else kInvalid.
  static Result<void> check(const std::string& path);
  PidFile(PidFile&& other) noexcept;
  PidFile& operator=(PidFile&&) = delete;
  ~PidFile();                       // removes the file if it still names this process
  void disown() { path_.clear(); }  // leaves the file to another process

 private:
  explicit PidFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace freshet
