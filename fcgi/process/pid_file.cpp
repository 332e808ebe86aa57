#include "fcgi/process/pid_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

#include "fcgi/process/runtime_files.h"

namespace freshet {
namespace {

tl::unexpected<Error> cannot_write(const std::string& path, int error) {
  const ErrorCode code = may_succeed_later(error, path) ? ErrorCode::kForbidden : ErrorCode::kInvalid;
  return fail(code, "bad_pid_file", "pid", "pid: cannot write " + path + ": " + std::strerror(error));
}

}  // namespace

Result<PidFile> PidFile::write(const std::string& path) {
  if (path.empty()) return PidFile("");
  const std::string temporary = path + ".new";
  std::ofstream out(temporary, std::ios::trunc);
  out << getpid() << '\n';
  if (!out.flush() || rename(temporary.c_str(), path.c_str()) != 0) return cannot_write(path, errno);
  return PidFile(path);
}

Result<void> PidFile::check(const std::string& path) {
  if (path.empty()) return {};
  struct stat status {};
  const bool is_folder = stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  const int error = is_folder ? EISDIR : file_creation_error(path);
  return error == 0 ? Result<void>() : cannot_write(path, error);
}

PidFile::PidFile(PidFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}

PidFile::~PidFile() {
  if (path_.empty()) return;
  pid_t recorded_pid = 0;
  std::ifstream(path_) >> recorded_pid;
  if (recorded_pid == getpid()) unlink(path_.c_str());
}

}  // namespace freshet
