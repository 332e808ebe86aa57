// A backup folder: its files and a manifest with their checksums. Created atomically.
//
// It is written as NAME.partial, every file with mode 0600 and synced, the manifest last, and
// renamed once everything is on disk. A folder with a manifest is therefore a complete backup, even
// after a crash; the next backup of that name removes the leftovers. Manifest describes
// manifest.json; manifest.sha256 is its checksum in the format of `sha256sum -c`.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "scripts/ctl/backup/manifest.h"

namespace freshet::ctl {

// Errors of all methods: kUnavailable "backup_io"; kConflict "backup_exists", "backup_running".
class BackupWriter {
 public:
  // Removes leftovers of a crashed backup, then creates PATH.partial and locks it. REQUIRES: the
  // parent folder exists. Error "backup_exists" if `path` does.
  static Result<BackupWriter> create(const std::filesystem::path& path);
  BackupWriter(BackupWriter&& other) noexcept;
  BackupWriter& operator=(BackupWriter&&) = delete;
  ~BackupWriter();  // removes the folder unless finish() succeeded

  std::string file_path(std::string_view name) const { return (partial_ / name).string(); }
  // Copies a file into the backup with mode 0600 and syncs it.
  Result<void> copy(const std::string& from, const std::string& name);
  // Writes the manifest of all files in the folder and moves the folder into place. O(bytes).
  Result<Manifest> finish(Manifest manifest);

 private:
  BackupWriter(std::filesystem::path path, std::filesystem::path partial, int fd)
      : path_(std::move(path)), partial_(std::move(partial)), fd_(fd) {}

  std::filesystem::path path_, partial_;
  int fd_;  // of the folder, locked; -1: moved from or finished
};

// Reads the manifest and the complete contents of every file it lists. Errors: kInvalid
// "bad_backup", with the file's name and the problem in the detail.
Result<Manifest> verify_files(const std::filesystem::path& path);

// Atomically replaces `to` with a copy of `from`: mode 0600, synced; under root it gets the owner
// of its folder. Errors: kUnavailable "backup_io".
Result<void> copy_file(const std::string& from, const std::string& to);

}  // namespace freshet::ctl
