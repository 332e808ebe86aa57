#include "scripts/ctl/backup/backup_folder.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "core/base/descriptor.h"
#include "core/base/hex.h"
#include "scripts/ctl/replay/event_log.h"

namespace freshet::ctl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kChecksumName = "manifest.sha256";
constexpr std::size_t kBlockSize = 1 << 16;

tl::unexpected<Error> io_error(const fs::path& path) {
  return fail(ErrorCode::kUnavailable, "backup_io", {}, path.string() + ": " + std::strerror(errno));
}
tl::unexpected<Error> bad_backup(std::string_view name, std::string_view what) {
  return fail(ErrorCode::kInvalid, "bad_backup", {}, std::string(name) + ": " + std::string(what));
}

class Sha256 {
 public:
  Sha256() { EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr); }
  void update(std::string_view bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }
  std::string hex() {
    std::array<unsigned char, 32> digest{};
    EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr);
    return freshet::hex(digest);
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const noexcept { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_{EVP_MD_CTX_new()};
};

// Calls `each` with the file's bytes, block by block.
template <class Each>
Result<void> read_blocks(const fs::path& path, Each each) {
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return io_error(path);
  std::string block(kBlockSize, '\0');
  for (;;) {
    const ssize_t got = read(fd.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error(path);
    if (got == 0) return {};
    if (Result<void> ok = each(std::string_view(block).substr(0, static_cast<std::size_t>(got))); !ok)
      return ok;
  }
}

Result<BackupFile> hash_file(const fs::path& folder, const std::string& name) {
  BackupFile out{name, 0, {}};
  Sha256 sum;
  auto ok = read_blocks(folder / name, [&](std::string_view bytes) -> Result<void> {
    sum.update(bytes);
    out.bytes += static_cast<std::int64_t>(bytes.size());
    return {};
  });
  if (!ok) return tl::unexpected(ok.error());
  out.sha256 = sum.hex();
  return out;
}

Result<void> write_all(int fd, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return io_error(path);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Result<void> write_file(const fs::path& path, std::string_view text) {
  const Descriptor fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return io_error(path);
  if (auto ok = write_all(fd.get(), text, path); !ok) return ok;
  return fsync(fd.get()) == 0 ? Result<void>() : io_error(path);
}

Result<void> sync_folder(const fs::path& path) {
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return fd && fsync(fd.get()) == 0 ? Result<void>() : io_error(path);
}

// Paths of all regular files below `folder`, relative to it and sorted.
std::vector<std::string> list_files(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code ignored;  // files that cannot be listed are missing from the manifest
  for (const auto& each : fs::recursive_directory_iterator(folder, ignored)) {
    if (each.is_regular_file()) out.push_back(fs::relative(each.path(), folder).string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

fs::path parent_folder(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : "."; }

std::string checksum_line(std::string_view manifest) {
  Sha256 sum;
  sum.update(manifest);
  return sum.hex() + "  " + std::string(kManifestName) + "\n";
}

// Rejects names that lead out of the folder.
bool is_inside(const std::string& name) {
  const fs::path path(name);
  return !name.empty() && path.is_relative() && std::find(path.begin(), path.end(), "..") == path.end();
}

Result<void> verify_file(const fs::path& folder, const BackupFile& listed) {
  if (!is_inside(listed.name)) return bad_backup(kManifestName, "lists a file outside the backup");
  std::error_code absent;
  const auto bytes = fs::file_size(folder / listed.name, absent);
  if (absent) return bad_backup(listed.name, "is missing");
  if (static_cast<std::int64_t>(bytes) != listed.bytes)
    return bad_backup(listed.name,
                      std::to_string(bytes) + " bytes instead of " + std::to_string(listed.bytes));
  const auto found = hash_file(folder, listed.name);
  if (!found) return bad_backup(listed.name, found.error().detail);
  if (found->sha256 != listed.sha256) return bad_backup(listed.name, "its contents have changed (SHA-256)");
  return {};
}

}  // namespace

Result<BackupWriter> BackupWriter::create(const fs::path& path) {
  const fs::path target = path.has_filename() ? path : path.parent_path();
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(target, ignored)))
    return fail(ErrorCode::kConflict, "backup_exists", {}, target.string() + " exists");
  const fs::path partial = target.string() + ".partial";
  if (mkdir(partial.c_str(), 0700) != 0 && errno != EEXIST) return io_error(partial);
  const int fd = open(partial.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return io_error(partial);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    close(fd);
    return fail(ErrorCode::kConflict, "backup_running", {},
                partial.string() + " is being written by another backup");
  }
  BackupWriter writer(target, partial, fd);
  std::error_code error;
  // The manifest goes first, so that an interrupted cleanup does not leave a folder that looks
  // complete.
  fs::remove(partial / kManifestName, error);
  for (const auto& each : fs::directory_iterator(partial, error)) fs::remove_all(each.path(), error);
  if (error) return fail(ErrorCode::kUnavailable, "backup_io", {}, partial.string() + ": " + error.message());
  return writer;
}

BackupWriter::BackupWriter(BackupWriter&& other) noexcept
    : path_(std::move(other.path_)), partial_(std::move(other.partial_)), fd_(std::exchange(other.fd_, -1)) {}

BackupWriter::~BackupWriter() {
  if (fd_ < 0) return;
  std::error_code ignored;
  fs::remove_all(partial_, ignored);
  close(fd_);
}

Result<void> BackupWriter::copy(const std::string& from, const std::string& name) {
  const fs::path folder = (partial_ / name).parent_path();
  if (folder != partial_ && mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return io_error(folder);
  return copy_file(from, file_path(name));
}

Result<Manifest> BackupWriter::finish(Manifest manifest) {
  for (const std::string& name : list_files(partial_)) {
    FRESHET_TRY(measured, hash_file(partial_, name));
    manifest.files.push_back(std::move(*measured));
    if (chmod(file_path(name).c_str(), 0600) != 0) return io_error(partial_ / name);
    if (auto ok = sync_folder((partial_ / name).parent_path()); !ok) return tl::unexpected(ok.error());
  }
  const std::string text = manifest_json(manifest);
  auto written = write_file(partial_ / kChecksumName, checksum_line(text));
  if (written) written = write_file(partial_ / kManifestName, text);
  if (written) written = sync_folder(partial_);
  if (!written) return tl::unexpected(written.error());
  if (rename(partial_.c_str(), path_.c_str()) != 0) return io_error(path_);
  close(std::exchange(fd_, -1));
  if (auto ok = sync_folder(parent_folder(path_)); !ok) return tl::unexpected(ok.error());
  return manifest;
}

Result<Manifest> verify_files(const fs::path& path) {
  const auto text = read_file((path / kManifestName).string());
  if (!text) return bad_backup(kManifestName, "is missing: the backup is incomplete");
  const auto checksum = read_file((path / kChecksumName).string());
  if (!checksum) return bad_backup(kChecksumName, "is missing");
  if (*checksum != checksum_line(*text))
    return bad_backup(kManifestName, "its contents have changed (SHA-256)");
  auto manifest = parse_manifest(*text);
  if (!manifest) return manifest;
  for (const std::string_view needed : {kDatabaseName, kRedisName}) {
    if (!manifest->has(needed)) return bad_backup(kManifestName, std::string(needed) + " is not listed");
  }
  for (const BackupFile& each : manifest->files) {
    if (auto ok = verify_file(path, each); !ok) return tl::unexpected(ok.error());
  }
  return manifest;
}

Result<void> copy_file(const std::string& from, const std::string& to) {
  const std::string temporary = to + ".new";
  unlink(temporary.c_str());
  const Descriptor out(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!out) return io_error(temporary);
  auto copied =
      read_blocks(from, [&](std::string_view bytes) { return write_all(out.get(), bytes, temporary); });
  if (!copied) return copied;
  struct stat folder {};
  if (stat(parent_folder(to).c_str(), &folder) != 0) return io_error(to);
  if (geteuid() == 0 && fchown(out.get(), folder.st_uid, folder.st_gid) != 0) return io_error(temporary);
  if (fsync(out.get()) != 0) return io_error(temporary);
  if (rename(temporary.c_str(), to.c_str()) != 0) return io_error(to);
  return sync_folder(parent_folder(to));
}

}  // namespace freshet::ctl
