// How far an import has come, in a small file that survives its death: the next run of the same
// file into the same service goes on there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/result.h"

namespace freshet::ctl {

// Tells a file from its successor of the same name.
struct FileIdentity {
  std::uint64_t device = 0, inode = 0, size = 0;
  std::int64_t modified_ns = 0;  // unix time
  bool operator==(const FileIdentity&) const = default;
};
// Errors: kNotFound "no_file".
Result<FileIdentity> identity_of(const std::string& path);

struct ImportPosition {
  FileIdentity file;
  std::string target;        // the service's address
  std::int64_t shift_s = 0;  // times were moved by so much
  std::uint64_t offset = 0;  // bytes of the file that were acknowledged
  std::int64_t accepted = 0, rejected = 0;
  bool operator==(const ImportPosition&) const = default;
};

// One "name=value" a line.
std::string to_text(const ImportPosition& position);
// Nothing when the text is not whole or not one of ours.
std::optional<ImportPosition> parse_position(const std::string& text);

class ResumeFile {
 public:
  explicit ResumeFile(std::string path) : path_(std::move(path)) {}
  std::optional<ImportPosition> read() const;  // nothing when there is none
  // Atomic: a process killed meanwhile leaves the one before. Errors: kUnavailable "resume_file".
  Result<void> write(const ImportPosition& position) const;
  void remove() const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace freshet::ctl
