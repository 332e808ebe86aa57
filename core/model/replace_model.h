// Puts a model file in the place of another.
#pragma once

#include <filesystem>
#include <span>

#include "core/base/result.h"

namespace freshet::model {

// Durably, by rename: whoever opens the file finds the old one or the new. O(bytes). Errors:
// kUnavailable "disk_full", "model_io"; then the old one stays.
Result<void> replace_model(const std::filesystem::path& path, std::span<const char> bytes);

}  // namespace freshet::model
