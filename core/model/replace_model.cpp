#include "core/model/replace_model.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "core/model/model.h"
#include "core/model/model_layout.h"

namespace freshet::model {
namespace {

tl::unexpected<Error> system_error(const std::filesystem::path& path) {
  const int error = errno;
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return fail(ErrorCode::kUnavailable, full ? "disk_full" : "model_io", {},
              path.string() + ": " + std::strerror(error));
}

// Removes temporary files of killed writers: those whose lock is free.
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

Result<void> replace_model(const std::filesystem::path& path, std::span<const char> bytes,
                           FileAccess access) {
  if (bytes.empty()) return fail(ErrorCode::kInvalid, "model_corrupt", {}, "the file is empty");
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const auto target = folder / path.filename();
  remove_leftovers(target);
  const std::filesystem::path temporary = target.string() + "." + std::to_string(getpid()) + ".new";
  unlink(temporary.c_str());
  const int fd = open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return system_error(temporary);
  const auto abandon = [&](tl::unexpected<Error> error) -> Result<void> {
    unlink(temporary.c_str());
    close(fd);
    return error;
  };
  const bool has_access = access == FileAccess::kUmask || fchmod(fd, 0644) == 0;
  if (!has_access || flock(fd, LOCK_EX | LOCK_NB) != 0 || !write_all(fd, bytes))
    return abandon(system_error(temporary));
  if (const auto model = Model::open(fd); !model) return abandon(tl::unexpected(model.error()));
  if (fsync(fd) != 0 || rename(temporary.c_str(), target.c_str()) != 0)
    return abandon(system_error(temporary));
  close(fd);
  if (!sync_folder(folder)) return system_error(folder);
  return {};
}

Result<void> publish_model(const std::filesystem::path& path, const std::filesystem::path& folder) {
  FRESHET_TRY(file, open_model_file(path));
  struct stat status {};
  if (fstat(file->get(), &status) != 0) return system_error(path);
  std::vector<char> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t more = read(file->get(), bytes.data() + got, bytes.size() - got);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return system_error(path);
    if (more == 0) break;  // truncated concurrently: replace_model() rejects it
    got += static_cast<std::size_t>(more);
  }
  return replace_model(folder / kPublishedName, {bytes.data(), got}, FileAccess::kWorldReadable);
}

std::optional<std::uint64_t> read_checksum(const std::filesystem::path& path) {
  const auto file = open_model_file(path);
  std::array<char, sizeof(layout::Header)> bytes{};
  if (!file || read(file->get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    return std::nullopt;
  layout::Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != layout::kMagic) return std::nullopt;
  return header.checksum;
}

}  // namespace freshet::model
