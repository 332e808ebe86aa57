// A private copy of the model file: whoever maps a file that somebody else may overwrite or cut
// short dies of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "core/base/descriptor.h"
#include "core/base/result.h"
#include "core/model/model.h"

namespace freshet::model {

// What tells one content of a file from the next; all zero: there is no file.
struct FileVersion {
  std::uint64_t device = 0, inode = 0, bytes = 0;
  std::int64_t changed_ns = 0;  // ctime, which nobody can set
  bool operator==(const FileVersion&) const = default;
};
FileVersion read_file_version(const std::filesystem::path& path);

struct ModelCopy {
  Descriptor file;                     // without a name: gone with whoever holds or maps it last
  std::string in_memory_reason;               // why it lies in memory, not beside the original; empty: it does not
  std::shared_ptr<const Model> model;  // the copy, mapped
};

// Copies the file by reading it, then verifies the copy. It lies in the same folder, so that the
// kernel can write its pages there and drop them; in memory only where the folder takes no unnamed
// file (read-only, or a filesystem without O_TMPFILE). O(bytes). Errors: those of Model::open(),
// and kUnavailable "model_no_space", above all when the disk is full.
Result<ModelCopy> copy_model(const std::filesystem::path& path);

}  // namespace freshet::model
