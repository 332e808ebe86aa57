// Short fingerprints of ids, for places where millions of full ids would take too much memory.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_set>

namespace freshet {

// The first 40 bits of the SHA-1, which Redis' Lua computes too (reader_put.lua). Among a thousand
// items and 20,000 fingerprints, one item in 50,000 matches by accident.
std::uint64_t fingerprint(std::string_view text);

// Parses concatenated fingerprints of ten hexadecimal digits each. Skips malformed ones.
std::unordered_set<std::uint64_t> parse_fingerprints(std::string_view digits);
inline constexpr std::size_t kFingerprintDigits = 10;

}  // namespace freshet
