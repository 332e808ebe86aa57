#include "fcgi/process/pid_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

namespace freshet {

Result<PidFile> PidFile::write(const std::string& path) {
  if (path.empty()) return PidFile("");
  const std::string temporary = path + ".new";
  std::ofstream out(temporary, std::ios::trunc);
  out << getpid() << '\n';
  if (!out.flush() || rename(temporary.c_str(), path.c_str()) != 0)
    return fail(ErrorCode::kInvalid, "bad_pid_file", "pid",
                "cannot write " + path + ": " + std::strerror(errno));
  return PidFile(path);
}

PidFile::PidFile(PidFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}

PidFile::~PidFile() {
  if (path_.empty()) return;
  pid_t recorded_pid = 0;
  std::ifstream(path_) >> recorded_pid;
  if (recorded_pid == getpid()) unlink(path_.c_str());
}

}  // namespace freshet
