// Tables made from ICU's transliterators by write_letter_tables.cpp when Freshet is built: a
// transliterator itself takes megabytes and milliseconds in each process.
#pragma once

#include <cstddef>

namespace freshet::text {

struct LetterMapping {
  char32_t from;
  char to[8];  // UTF-8, ends with a NUL
};

// Ascending by `from`.
extern const LetterMapping kSimplified[];  // traditional Chinese character → simplified
extern const std::size_t kSimplifiedSize;
extern const LetterMapping kAsciiLetters[];  // letter that has no decomposition → ASCII, such as ø → o
extern const std::size_t kAsciiLettersSize;

}  // namespace freshet::text
