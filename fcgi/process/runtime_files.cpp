#include "fcgi/process/runtime_files.h"

#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace freshet {
namespace {

bool is_in_run(const std::string& path) { return path.starts_with("/run/"); }

}  // namespace

int file_creation_error(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0)
    return errno == ENOENT && is_in_run(path) && sd_booted() > 0 ? 0 : errno;
  if (!S_ISDIR(status.st_mode)) return ENOTDIR;
  return access(folder.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
}

bool may_succeed_later(int error, const std::string& path) {
  return error == EACCES || error == EPERM || (error == ENOENT && is_in_run(path));
}

}  // namespace freshet
