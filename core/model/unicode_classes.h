// Character classes for content_terms(). Not full Unicode tables, only what titles of content sites
// need.
#pragma once

namespace freshet::model {

// Han, kana and Hangul: scripts written without spaces (Korean has spaces, but bigrams work well
// for it).
constexpr bool is_cjk(char32_t c) {
  return (c >= 0x1100 && c <= 0x11FF) || (c >= 0x2E80 && c <= 0x2FDF) || (c >= 0x3041 && c <= 0x318F) ||
         (c >= 0x31A0 && c <= 0x31BF) || (c >= 0x31F0 && c <= 0x31FF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0xA960 && c <= 0xA97F) || (c >= 0xAC00 && c <= 0xD7FF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0xFF66 && c <= 0xFF9F) || (c >= 0x20000 && c <= 0x3FFFF);
}

// Letters and digits. From U+00C0 up, this is everything except punctuation, symbols, white space,
// private use and CJK.
constexpr bool is_word(char32_t c) {
  if (c < 0xC0) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == 0xAA ||
           c == 0xB5 || c == 0xBA;
  }
  const bool symbol =
      c == 0xD7 || c == 0xF7 || c == 0x1680 || (c >= 0x2000 && c <= 0x206F) || (c >= 0x20A0 && c <= 0x20CF) ||
      (c >= 0x2190 && c <= 0x2BFF) || (c >= 0x2E00 && c <= 0x2E7F) || (c >= 0x3000 && c <= 0x3040) ||
      (c >= 0x3190 && c <= 0x319F) || (c >= 0x3200 && c <= 0x33FF) || (c >= 0xE000 && c <= 0xF8FF) ||
      (c >= 0xFE10 && c <= 0xFE6F) || (c >= 0xFEFF && c <= 0xFF0F) || (c >= 0xFF1A && c <= 0xFF20) ||
      (c >= 0xFF3B && c <= 0xFF40) || (c >= 0xFF5B && c <= 0xFF65) || c >= 0xFFE0;
  return !symbol && !is_cjk(c);
}

// Simple lower case for Latin (also full-width), Greek and Cyrillic. Returns other characters
// unchanged.
constexpr char32_t lower_case(char32_t c) {
  const bool even_is_upper = (c >= 0x100 && c <= 0x137 && c != 0x130 && c != 0x131) ||
                             (c >= 0x14A && c <= 0x177) || (c >= 0x1E00 && c <= 0x1E95) ||
                             (c >= 0x1EA0 && c <= 0x1EFF) || (c >= 0x460 && c <= 0x481) ||
                             (c >= 0x48A && c <= 0x4BF) || (c >= 0x4D0 && c <= 0x52F);
  const bool odd_is_upper = (c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17E);
  if (even_is_upper) return c | 1U;
  if (odd_is_upper) return c % 2 == 1 ? c + 1 : c;
  if ((c >= 'A' && c <= 'Z') || (c >= 0xC0 && c <= 0xDE) || (c >= 0x391 && c <= 0x3AB) ||
      (c >= 0x410 && c <= 0x42F) || (c >= 0xFF21 && c <= 0xFF3A)) {
    return c + 32;
  }
  if (c >= 0x400 && c <= 0x40F) return c + 80;
  return c == 0x178 ? 0xFF : c == 0x130 ? 'i' : c;
}

}  // namespace freshet::model
