// Puts a model file in the place of another.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "core/base/result.h"

namespace freshet::model {

// Whom a new file lets read it: its owner and whoever the umask says, or everybody.
enum class FileAccess : std::uint8_t { kUmask, kWorldReadable };

// Durably, by rename: whoever opens the file finds the old one or the new. O(bytes). Errors: those
// of Model::open() where the bytes are no model that this program reads; kUnavailable "disk_full",
// "model_io". Then the old one stays.
Result<void> replace_model(const std::filesystem::path& path, std::span<const char> bytes,
                           FileAccess access = FileAccess::kUmask);

// Puts a copy of the model where nginx finds it: kPublished in `folder`, for everybody to read.
// O(bytes). Errors: as replace_model(), and those of open_file().
inline constexpr const char* kPublishedName = "freshet.model";
Result<void> publish_model(const std::filesystem::path& path, const std::filesystem::path& folder);

// By which two model files are told apart: the checksum in its header, which is not compared with
// the content. nullopt: there is no file, or none of a model.
std::optional<std::uint64_t> read_checksum(const std::filesystem::path& path);

}  // namespace freshet::model
