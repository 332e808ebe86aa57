// Page views of a news portal (clicks.csv): seconds,reader,session,article.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/base/result.h"

namespace freshet::bench {

struct Click {
  std::int64_t at = 0;
  std::uint32_t reader = 0, session = 0, item = 0;
};

// In order of time, at least one. Errors: kNotFound "no_file", kInvalid "bad_data".
Result<std::vector<Click>> read_clicks(const std::filesystem::path& path);

}  // namespace freshet::bench
