// Strict UTF-8 decoding, which rejects overlong forms, surrogates and values above U+10FFFF;
// normalization. By ICU.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace freshet::utf8 {

struct CodePoint {
  char32_t value = 0;
  std::size_t size = 0;  // 1..4 bytes; 0 if ill-formed
};

// Decodes the code point at bytes[at]. REQUIRES: at < bytes.size().
CodePoint decode(std::string_view bytes, std::size_t at);

// Returns whether all of `bytes` is well-formed. Checks eight ASCII bytes at a time.
bool is_valid(std::string_view bytes);

// The longest prefix of `text` that has at most `max_bytes` and does not end within a character.
std::string_view prefix(std::string_view text, std::size_t max_bytes);

// The number of code points. REQUIRES: is_valid(text).
std::size_t length(std::string_view text);

// General category Cc: U+0000–001F, U+007F–009F.
constexpr bool is_control(char32_t c) { return c < 0x20 || (c >= 0x7F && c <= 0x9F); }

// Invisible characters: bidirectional controls, zero-width characters and the soft hyphen.
constexpr bool is_invisible(char32_t c) {
  return c == 0xAD || c == 0x61C || c == 0x180E || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x202A && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF;
}

// The White_Space property, which U+200B and U+FEFF do not have.
bool is_white_space(char32_t c);

// `text` with one space for each run of white space, and none at the ends. Keeps ill-formed bytes.
std::string single_spaced(std::string_view text);

// Normalization Form C. O(bytes); ASCII is returned as it is. REQUIRES: is_valid(text).
std::string to_nfc(std::string_view text);

// The form in which names that people write differently are compared: NFKC_Casefold, which ignores
// case, compatibility variants (half-width, ligatures) and invisible characters. Idempotent; may be
// empty, and up to eleven times as long as the text. REQUIRES: is_valid(text).
std::string fold(std::string_view text);
// Like fold(), but returns `text` itself if it is lower-case ASCII, and otherwise a view of
// `buffer`.
std::string_view fold(std::string_view text, std::string& buffer);

}  // namespace freshet::utf8
