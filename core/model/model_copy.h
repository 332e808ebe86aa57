// A private copy of the model file. Mapping the original would be unsafe: if it is overwritten or
// truncated, the process crashes or reads garbage.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "core/base/descriptor.h"
#include "core/base/result.h"
#include "core/model/model.h"

namespace freshet::model {

// Identifies the content of a file: it differs after every change. All zero if there is no file.
struct FileVersion {
  std::uint64_t device = 0, inode = 0, bytes = 0;
  std::int64_t changed_ns = 0;  // ctime, which cannot be set by users
  bool operator==(const FileVersion&) const = default;
};
FileVersion read_file_version(const std::filesystem::path& path);

struct ModelCopy {
  Descriptor file;  // unnamed; freed when the last descriptor and mapping are closed
  // Why the copy is in memory rather than in the original's directory; empty if it is not.
  std::string in_memory_reason;
  std::shared_ptr<const Model> model;  // the mapped copy
};

// Copies the file by reading it, then verifies the copy. The copy is in the original's directory,
// so that the kernel can write back and drop its pages. It is in memory only if the directory does
// not support unnamed files (read-only, or a file system without O_TMPFILE). O(bytes). Errors:
// those of Model::open(); kUnavailable "model_no_space", usually a full disk.
Result<ModelCopy> copy_model(const std::filesystem::path& path);

}  // namespace freshet::model
