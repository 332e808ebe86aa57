// How far apart two names are, for suggestions in errors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace freshet {

// The number of edits that turn `a` into `b` (insertions, deletions, replacements, and swaps of
// neighbors, each part of the name edited once: optimal string alignment). O(|a|·|b|).
std::size_t edit_distance(std::string_view a, std::string_view b);

// The most edits that still count as a misspelling of a name of `length` bytes.
inline std::size_t max_edits(std::size_t length) { return std::max<std::size_t>(2, length / 4); }

}  // namespace freshet
