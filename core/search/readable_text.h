// The readable part of an item's text, from which the index and the model take their words.
#pragma once

#include <string>
#include <string_view>

#include "core/items/ports.h"

namespace freshet::search {

// Returns `text` without markup: `text` itself if it is plain or not valid UTF-8, otherwise a view
// of `buffer`, of at most 4 · text.size() + 1 bytes (tabs of Markdown become spaces). Broken markup
// is not an error: what can be read is returned.
//
// HTML: entities are decoded. Scripts, styles, templates, comments, the readings of ruby text and
// all attributes except an image's `alt` are left out. Inline elements join what they separate
// (你<b>好</b>吗 is one run); all others, and <sup>, which marks footnotes, end a word. Elements
// nested deeper than 256 are read as if they were not nested.
// Markdown: CommonMark with ~~strikethrough~~; its HTML is read as above. Link targets are left
// out, code and the alternative texts of images are not.
std::string_view readable_text(std::string_view text, items::TextFormat format, std::string& buffer);

}  // namespace freshet::search
