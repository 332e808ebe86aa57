// A backup as a folder: its files, the manifest that lists them with their checksums, and how it
// comes about as a whole or not at all.
//
// It is made beside its place as NAME.partial, every file of mode 0600 and synced, the manifest
// last, and renamed when all of it is on the disk. So a folder with a manifest is a whole backup,
// whenever whoever made it was killed; the next backup of that name takes the leftovers away.
// manifest.json is described by Manifest; manifest.sha256 is its own checksum, as sha256sum -c
// reads it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "scripts/ctl/backup/manifest.h"

namespace freshet::ctl {

// Errors of all: kUnavailable "backup_io"; kConflict "backup_exists", "backup_running".
class BackupWriter {
 public:
  // `path` must not exist; the folder it is in must. Makes PATH.partial, after removing what a dead
  // one left there.
  static Result<BackupWriter> create(const std::filesystem::path& path);
  BackupWriter(BackupWriter&& other) noexcept;
  BackupWriter& operator=(BackupWriter&&) = delete;
  ~BackupWriter();  // removes it unless it was finished

  std::string file_path(std::string_view name) const { return (partial_ / name).string(); }
  // A copy of another file, of mode 0600, synced.
  Result<void> copy(const std::string& from, const std::string& name);
  // Lists what is in the folder, writes the manifest and moves the folder to its place. O(bytes).
  Result<Manifest> finish(Manifest manifest);

 private:
  BackupWriter(std::filesystem::path path, std::filesystem::path partial, int fd)
      : path_(std::move(path)), partial_(std::move(partial)), fd_(fd) {}

  std::filesystem::path path_, partial_;
  int fd_;  // of the folder, locked; -1: moved from or finished
};

// Reads the manifest and the whole of every file it lists. Errors: kInvalid "bad_backup", the
// file's name and what is wrong with it in the detail.
Result<Manifest> verify_files(const std::filesystem::path& path);

// Writes `from` to `to`, mode 0600, owned by who owns the folder it is in, synced. `to` is replaced
// if it is there. Errors: kUnavailable "backup_io".
Result<void> copy_file(const std::string& from, const std::string& to);

}  // namespace freshet::ctl
