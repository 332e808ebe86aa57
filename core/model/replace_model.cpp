#include "core/model/replace_model.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace freshet::model {
namespace {

tl::unexpected<Error> system_error(const std::filesystem::path& path) {
  const int error = errno;
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return fail(ErrorCode::kUnavailable, full ? "disk_full" : "model_io", {},
              path.string() + ": " + std::strerror(error));
}

// What a writer that was killed left: files of the name that nobody holds the lock of.
void remove_leftovers(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::string begin = path.filename().string() + ".";
  for (const auto& entry : std::filesystem::directory_iterator(path.parent_path(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(begin) || !name.ends_with(".new")) continue;
    const int fd = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlink(entry.path().c_str());
    close(fd);
  }
}

bool write_all(int fd, std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

bool sync_folder(const std::filesystem::path& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool good = fsync(fd) == 0;
  close(fd);
  return good;
}

}  // namespace

Result<void> replace_model(const std::filesystem::path& path, std::span<const char> bytes) {
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const auto whole = folder / path.filename();
  remove_leftovers(whole);
  const std::filesystem::path beside = whole.string() + "." + std::to_string(getpid()) + ".new";
  unlink(beside.c_str());
  const int fd = open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return system_error(beside);
  const bool written = flock(fd, LOCK_EX | LOCK_NB) == 0 && write_all(fd, bytes) && fsync(fd) == 0 &&
                       rename(beside.c_str(), whole.c_str()) == 0;
  if (!written) {
    auto error = system_error(beside);
    unlink(beside.c_str());
    close(fd);
    return error;
  }
  close(fd);
  if (!sync_folder(folder)) return system_error(folder);
  return {};
}

}  // namespace freshet::model
