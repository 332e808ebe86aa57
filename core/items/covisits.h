// Reads after an item: which items readers read next, and how often lately. A string in Redis,
// which the recorder writes every few seconds from the pairs that it counts, and `similar` reads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"

namespace freshet::items {

struct Covisit {
  ItemId next;
  // log2 of the sum in which each read halves every kCovisitHalfLife, plus unix time in half-lives.
  double recent = 0;
};

inline constexpr std::size_t kListedCovisits = 20;  // of an item
inline constexpr seconds kCovisitHalfLife{3600};

// The sum at `now`; at most 2^40, under whatever clock it was counted.
inline double covisit_weight(double recent, UnixSeconds now) {
  const double half_lives = static_cast<double>(unix_s(now)) / static_cast<double>(kCovisitHalfLife.count());
  return std::exp2(std::min(recent - half_lives, 40.0));
}

// "id recent id recent …", separated by kIdSeparator.
std::string encode_covisits(std::span<const Covisit> covisits);
// Ignores what encode_covisits() cannot have written.
std::vector<Covisit> parse_covisits(std::string_view text);

}  // namespace freshet::items
