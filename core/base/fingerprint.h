// The name of an item in few bytes, where names in full would be too many.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_set>

namespace freshet {

// The first 40 bits of the SHA-1, which Redis' Lua computes too (reader_put.lua): of a thousand
// items and 20,000 fingerprints one in 50,000 is taken for another.
std::uint64_t fingerprint(std::string_view text);

// Ten hexadecimal digits each, one after the other. What is none is left out.
std::unordered_set<std::uint64_t> parse_fingerprints(std::string_view digits);
inline constexpr std::size_t kFingerprintDigits = 10;

}  // namespace freshet
