// Replaces a model file atomically.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "core/base/descriptor.h"
#include "core/base/result.h"

namespace freshet::model {

// Permissions of a new file: according to the umask, or readable by everyone.
enum class FileAccess : std::uint8_t { kUmask, kWorldReadable };

// A new model file next to the old one. Destroying it before commit() removes it, so that the old
// file is unchanged after an error. Errors: kUnavailable "disk_full", "model_io".
class ModelReplacement {
 public:
  static Result<ModelReplacement> create(const std::filesystem::path& path,
                                         FileAccess access = FileAccess::kUmask);
  ModelReplacement(ModelReplacement&&) noexcept = default;
  ~ModelReplacement();

  Result<void> append(std::span<const char> bytes);
  // Makes the file durable and replaces the old one by rename: readers see either the old or
  // the new file. O(bytes). Errors also: those of Model::open() if the bytes are not a valid model.
  Result<void> commit();

 private:
  ModelReplacement(std::filesystem::path target, std::filesystem::path temporary)
      : target_(std::move(target)), temporary_(std::move(temporary)) {}

  std::filesystem::path target_, temporary_;
  Descriptor file_;
};

// Creates the new file, appends `bytes` and commits.
Result<void> replace_model(const std::filesystem::path& path, std::span<const char> bytes,
                           FileAccess access = FileAccess::kUmask);

// Copies the model to `folder`/kPublishedName, readable by everyone, for nginx to serve. O(bytes).
// Errors: those of ModelReplacement and open_model_file().
inline constexpr const char* kPublishedName = "freshet.model";
Result<void> publish_model(const std::filesystem::path& path, const std::filesystem::path& folder);

// Returns the checksum in the file's header, without comparing it with the content. Tells model
// files apart. nullopt if the file is absent or not a model.
std::optional<std::uint64_t> read_checksum(const std::filesystem::path& path);

}  // namespace freshet::model
