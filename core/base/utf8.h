// UTF-8, decoded strictly (Unicode 15, table 3-7): no overlong forms, no surrogates, nothing above
// U+10FFFF.
#pragma once

#include <cstddef>
#include <string_view>

namespace freshet::utf8 {

struct CodePoint {
  char32_t value = 0;
  std::size_t size = 0;  // bytes, 1..4; 0 when what stands there is ill-formed
};

// The code point that begins at bytes[at]. REQUIRES: at < bytes.size().
CodePoint decode(std::string_view bytes, std::size_t at);

// True iff all of `bytes` is well-formed. Eight ASCII bytes at a time.
bool is_valid(std::string_view bytes);

// General category Cc: U+0000–001F, U+007F–009F.
constexpr bool is_control(char32_t c) { return c < 0x20 || (c >= 0x7F && c <= 0x9F); }

// What changes how others are shown, or is not shown itself: the bidirectional controls, what has
// no width, and the hyphen that is only there at a line's end.
constexpr bool is_invisible(char32_t c) {
  return c == 0xAD || c == 0x61C || c == 0x180E || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x202A && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF;
}

// The property White_Space (PropList.txt). U+200B and U+FEFF do not have it.
constexpr bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

}  // namespace freshet::utf8
