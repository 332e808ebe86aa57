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

Result<ModelReplacement> ModelReplacement::create(const std::filesystem::path& path, FileAccess access) {
  const auto target = (path.has_parent_path() ? path.parent_path() : ".") / path.filename();
  remove_leftovers(target);
  ModelReplacement out(target, target.string() + "." + std::to_string(getpid()) + ".new");
  const char* const name = out.temporary_.c_str();
  unlink(name);
  out.file_ = Descriptor(open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  const int fd = out.file_.get();
  const bool has_access = fd >= 0 && (access == FileAccess::kUmask || fchmod(fd, 0644) == 0);
  if (!has_access || flock(fd, LOCK_EX | LOCK_NB) != 0) return system_error(out.temporary_);
  return out;
}

ModelReplacement::~ModelReplacement() {
  if (file_) unlink(temporary_.c_str());
}

Result<void> ModelReplacement::append(std::span<const char> bytes) {
  if (!write_all(file_.get(), bytes)) return system_error(temporary_);
  return {};
}

Result<void> ModelReplacement::commit() {
  if (lseek(file_.get(), 0, SEEK_END) == 0)
    return fail(ErrorCode::kInvalid, "model_corrupt", {}, "the file is empty");
  if (const auto model = Model::open(file_.get()); !model) return tl::unexpected(model.error());
  if (fsync(file_.get()) != 0 || rename(temporary_.c_str(), target_.c_str()) != 0)
    return system_error(temporary_);
  file_.reset();
  if (!sync_folder(target_.parent_path())) return system_error(target_.parent_path());
  return {};
}

Result<void> replace_model(const std::filesystem::path& path, std::span<const char> bytes,
                           FileAccess access) {
  FRESHET_TRY(replacement, ModelReplacement::create(path, access));
  if (auto ok = replacement->append(bytes); !ok) return ok;
  return replacement->commit();
}

Result<void> publish_model(const std::filesystem::path& path, const std::filesystem::path& folder) {
  FRESHET_TRY(file, open_model_file(path));
  FRESHET_TRY(replacement, ModelReplacement::create(folder / kPublishedName, FileAccess::kWorldReadable));
  std::vector<char> chunk(1 << 20);
  while (true) {
    const ssize_t got = read(file->get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(path);
    if (got == 0) return replacement->commit();  // rejects a file that was truncated concurrently
    if (auto ok = replacement->append({chunk.data(), static_cast<std::size_t>(got)}); !ok) return ok;
  }
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
