// The increments of `views` of an article that the site has not dated yet, in buckets by time
// (parts/increments.lua).
#pragma once

#include <string>
#include <string_view>

#include "core/base/time.h"

namespace freshet::hot {

// Removes `weight` from the buckets that are nearest to `time`. `increments`: the article's field.
std::string without_increment(std::string_view increments, UnixSeconds time, double weight);

}  // namespace freshet::hot
