// Hexadecimal encoding.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace freshet {

inline constexpr std::string_view kLowerHex = "0123456789abcdef";
inline constexpr std::string_view kUpperHex = "0123456789ABCDEF";

inline void append_hex(std::string& out, unsigned char byte, std::string_view digits = kLowerHex) {
  out.push_back(digits[byte >> 4U]);
  out.push_back(digits[byte & 15U]);
}

inline std::string hex(std::span<const unsigned char> bytes) {
  std::string out;
  for (const unsigned char byte : bytes) append_hex(out, byte);
  return out;
}

}  // namespace freshet
