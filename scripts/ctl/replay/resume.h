// Progress of an import in a small file, so that the next run with the same file and service
// resumes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/result.h"

namespace freshet::ctl {

// Distinguishes a file from its successor of the same name.
struct FileIdentity {
  std::uint64_t device = 0, inode = 0, size = 0;
  std::int64_t modified_ns = 0;  // Unix time
  bool operator==(const FileIdentity&) const = default;
};
// Errors: kNotFound "no_file".
Result<FileIdentity> file_identity(const std::string& path);

struct ImportPosition {
  FileIdentity file;
  std::string target;        // address of the service
  std::int64_t shift_s = 0;  // offset added to the items' times
  std::uint64_t offset = 0;  // acknowledged bytes of the file
  std::int64_t accepted = 0, rejected = 0;
  bool operator==(const ImportPosition&) const = default;
};

// One "name=value" per line.
std::string to_text(const ImportPosition& position);
// nullopt if the text is incomplete or in another format.
std::optional<ImportPosition> parse_position(const std::string& text);

class ResumeFile {
 public:
  explicit ResumeFile(std::string path) : path_(std::move(path)) {}
  std::optional<ImportPosition> read() const;  // nullopt: no such file
  // Atomic: an interrupted write leaves the previous file. Errors: kUnavailable "resume_file".
  Result<void> write(const ImportPosition& position) const;
  void remove() const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace freshet::ctl
