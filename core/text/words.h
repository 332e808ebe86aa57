// Splits text of any script into the words that are searched for: the index, queries, interests
// and the content model all use the same ones.
//
// Text is normalized first: NFKC, case folding, traditional Chinese characters as simplified ones,
// digits as ASCII digits. Han, kana and Hangul need no dictionary, since their words are pairs of
// adjacent characters. Runs of Thai, Lao, Khmer, Burmese and related scripts are split by ICU's
// dictionaries. Everything else is split between letters and other characters. An emoji is a word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace freshet::text {

// Changes whenever the same text may give other words. Includes ICU's version, since that can move
// word boundaries.
std::string pipeline_version();

enum class Form : std::uint8_t {
  kWord,       // a word, or a part of a compound
  kCompound,   // a word with an apostrophe or the like, such as "l'été", after its parts
  kPair,       // two adjacent characters of a run of Han, kana, Hangul or Yi
  kCharacter,  // one character of such a run; a run of one character is a kWord
  kFragment,   // three adjacent characters of a run that a dictionary has split
};

struct Token {
  std::string_view term;  // normalized; valid during the call
  // Consecutive words have consecutive positions. A pair is where its first character is, and a
  // compound where its first part is. Fragments have none.
  std::uint32_t position = 0;
  Form form = Form::kWord;
  // Number of the run or compound that the token belongs to, from 0.
  std::uint32_t run = 0;
};

// Longer words are left out; they are URLs or encoded data. In characters, at most kMaxTermBytes.
inline constexpr std::size_t kMaxWordLength = 64, kMaxTermBytes = 200;

// Calls `emit` for every token of `text`. Returns the number of positions. Ill-formed bytes
// separate words. O(bytes) in time and memory.
std::uint32_t for_each_token(std::string_view text, const std::function<void(const Token&)>& emit);

// A normalized word without accents, vowel points and tatweel: "munchen" for "münchen". Returns
// the word itself if it has none.
std::string without_accents(std::string_view word);

// Returns whether a word can have a stem: it begins with a letter of an alphabet, so it is not a
// number, an emoji, or of a script that is written without spaces.
bool can_have_stem(std::string_view word);

// Returns whether `c` is a Hebrew letter, between which a quotation mark belongs to the word.
bool is_hebrew(char32_t c);

}  // namespace freshet::text
