// Replaces a model file atomically.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "core/base/result.h"

namespace freshet::model {

// Permissions of a new file: according to the umask, or readable by everyone.
enum class FileAccess : std::uint8_t { kUmask, kWorldReadable };

// Writes the file durably and replaces the old one by rename, so that readers see either the old or
// the new file. O(bytes). Errors: those of Model::open() if `bytes` is not a valid model;
// kUnavailable "disk_full", "model_io". After an error, the old file is unchanged.
Result<void> replace_model(const std::filesystem::path& path, std::span<const char> bytes,
                           FileAccess access = FileAccess::kUmask);

// Copies the model to `folder`/kPublishedName, readable by everyone, for nginx to serve. O(bytes).
// Errors: those of replace_model() and open_model_file().
inline constexpr const char* kPublishedName = "freshet.model";
Result<void> publish_model(const std::filesystem::path& path, const std::filesystem::path& folder);

// Returns the checksum in the file's header, without comparing it with the content. Tells model
// files apart. nullopt if the file is absent or not a model.
std::optional<std::uint64_t> read_checksum(const std::filesystem::path& path);

}  // namespace freshet::model
