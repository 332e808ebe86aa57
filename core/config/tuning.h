// The file with the values that `freshetctl tune` has chosen: TOML with `format = 1`, `created`
// (unix seconds), a table `values` of directives, and at the end a checksum, so that a truncated or
// changed file is recognized.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/time.h"

namespace freshet {

// The directives that may be tuned.
inline constexpr std::array<std::string_view, 8> kTunedDirectives{
    "hot.default_model", "views.default_mode", "trending.half_life",     "hot.half_life",
    "views.gamma",       "recall.decay_scale", "recall.interest_weight", "recall.trend_weight"};

struct Tuning {
  UnixSeconds created{};
  std::map<std::string, std::string, std::less<>> values;  // directive → value as in an environment variable
};

// The last line of a file whose other lines are `text`, which ends with a line break.
std::string tuning_checksum_line(std::string_view text);

// Without a file, a Tuning without values. Errors: kInvalid "bad_tuning", with a sentence in the
// detail: an unreadable file, no checksum or another one, another format, created more than a day
// after `now`, or a directive that may not be tuned.
Result<Tuning> load_tuning(const std::filesystem::path& path, UnixSeconds now);

}  // namespace freshet
