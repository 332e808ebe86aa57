// Parses what a reader types into a search box. Pure; never fails.
//
// Words are alternatives, and so is "a phrase", which is found only as it is written. +word must
// occur, -word must not, and +"a phrase" and -"a phrase" likewise. They need no spaces around them
// in scripts that have none, except that an operator stands at the beginning of a word. Everything
// else is text: an unmatched quotation mark or one before a space, an operator without a word, the
// quotation mark in a Hebrew abbreviation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/words.h"

namespace freshet::search {

// Only the beginning of a longer text is used, since each word is a term of the search.
inline constexpr std::size_t kMaxQueryBytes = 512;
// A run of characters without spaces counts as one word, or as those that a dictionary finds in it.
inline constexpr std::size_t kMaxQueryWords = 32;

enum class Presence : std::uint8_t { kOptional, kRequired, kExcluded };

// As text::Token, but owns the term.
struct QueryToken {
  std::string term;
  std::uint32_t position = 0;
  text::Form form = text::Form::kWord;
  std::uint32_t run = 0;
};

// A phrase, or what stood between two spaces. Has at least one token.
struct QueryClause {
  Presence presence = Presence::kOptional;
  bool is_phrase = false;
  std::vector<QueryToken> tokens;
};

// Returns at most kMaxQueryWords words. If all of them are excluded, they are optional instead:
// there is nothing to exclude them from.
std::vector<QueryClause> parse_query(std::string_view text);

}  // namespace freshet::search
