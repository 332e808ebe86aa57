// Limits of an item's members, as API.md states them.
#pragma once

#include <cstddef>
#include <string_view>

namespace freshet::items {

inline constexpr std::size_t kMaxTags = 100, kMaxTagsBytes = 2048;  // of all tags together
inline constexpr std::size_t kMaxTitleBytes = 1024;
inline constexpr std::size_t kMaxTextBytes = 256UL * 1024;
inline constexpr std::size_t kMaxUrlBytes = 2048;
inline constexpr std::size_t kMaxSectionLetters = 64;
inline constexpr std::size_t kMaxLanguageBytes = 35;  // RFC 5646, section 4.4.1: all of these must fit

// The form of a BCP 47 tag: subtags of one to eight letters and digits, of which the first has at
// least two letters and no digits. Does not check that the language exists.
constexpr bool is_language_tag(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  constexpr std::size_t kMaxSubtag = 8;
  std::size_t size = 0;
  bool first = true;
  for (const char c : text) {
    if (c == '-') {
      if (size < (first ? 2U : 1U)) return false;
      first = false;
      size = 0;
    } else if (++size > kMaxSubtag || !(is_letter(c) || (!first && c >= '0' && c <= '9'))) {
      return false;
    }
  }
  return size >= (first ? 2U : 1U);
}

}  // namespace freshet::items
