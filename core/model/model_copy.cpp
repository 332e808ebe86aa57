#include "core/model/model_copy.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace freshet::model {
namespace {

constexpr std::size_t kChunk = 1 << 20;

tl::unexpected<Error> no_space_error(const std::filesystem::path& path, const char* what) {
  return fail(ErrorCode::kUnavailable, "model_no_space", {},
              "cannot copy " + path.string() + ": " + what + ": " + std::strerror(errno));
}

// The directory works but has no space (or no descriptor is free). Falling back to memory would not
// help.
bool is_out_of_space(int error) {
  return error == ENOSPC || error == EDQUOT || error == EMFILE || error == ENFILE;
}

Result<ModelCopy> create_unnamed_file(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  Descriptor file(open(folder.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, S_IRUSR));
  if (file.get() >= 0) return ModelCopy{std::move(file), {}, nullptr};
  if (is_out_of_space(errno)) return no_space_error(path, folder.c_str());
  std::string why = folder.string() + ": " + std::strerror(errno);
  Descriptor memory(memfd_create("freshet-model", MFD_CLOEXEC));
  if (memory.get() < 0) return no_space_error(path, "memory");
  return ModelCopy{std::move(memory), std::move(why), nullptr};
}

bool write_all(int fd, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t written = write(fd, bytes, size);
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

// Copies as many bytes as the file has now. Concurrent changes are detected when the copy is
// verified.
Result<void> copy_bytes(int source_fd, int target_fd, const std::filesystem::path& path) {
  struct stat status {};
  if (fstat(source_fd, &status) != 0)
    return fail(ErrorCode::kUnavailable, "model_io", {}, path.string() + ": " + std::strerror(errno));
  std::vector<char> chunk(kChunk);
  for (auto remaining = static_cast<std::size_t>(status.st_size); remaining > 0;) {
    const ssize_t got = read(source_fd, chunk.data(), std::min(remaining, chunk.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return fail(ErrorCode::kUnavailable, "model_io", {}, path.string() + ": " + std::strerror(errno));
    if (got == 0) break;
    if (!write_all(target_fd, chunk.data(), static_cast<std::size_t>(got)))
      return no_space_error(path, "write");
    remaining -= static_cast<std::size_t>(got);
  }
  return {};
}

}  // namespace

FileVersion read_file_version(const std::filesystem::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
          std::int64_t{status.st_ctim.tv_sec} * 1'000'000'000 + status.st_ctim.tv_nsec};
}

Result<ModelCopy> copy_model(const std::filesystem::path& path) {
  FRESHET_TRY(original, open_model_file(path));
  auto copy = create_unnamed_file(path);
  if (!copy) return copy;
  if (auto ok = copy_bytes(original->get(), copy->file.get(), path); !ok) return tl::unexpected(ok.error());
  FRESHET_TRY(model, Model::open(copy->file.get()));
  copy->model = std::move(*model);
  return copy;
}

}  // namespace freshet::model
