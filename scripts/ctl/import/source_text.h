// Texts and links of sources, and the limits that the service has for items.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scripts/ctl/import/source_item.h"

namespace freshet::ctl {

std::string_view trimmed(std::string_view text);
// In one line: each run of white space and control characters becomes a space.
std::string one_line(std::string_view text);
// The readable text of HTML in one line, with entities decoded.
std::string plain_line(std::string_view html);
// ASCII only.
std::string to_lower(std::string_view text);
// The parts between `separators`, trimmed, without empty ones.
std::vector<std::string> split_list(std::string_view text, std::string_view separators);
// Returns whether the text contains a closing tag, a paragraph or a line break of HTML.
bool looks_like_html(std::string_view text);

// `reference` relative to `base`, percent-encoded. Empty unless it is http or https, or a path if
// `base` is empty; also if it exceeds the limit of an item's link.
std::string resolve_url(std::string_view base, std::string_view reference);

// Hands an item over after bringing it within the limits of items: cuts texts at a character, drops
// tags that are too long or too many, and makes a title from the first words of the text or from
// the link. Reports the item as skipped if it has none of these. Returns false if the sink wants no
// more.
bool deliver(SourceItem item, const SourceSink& sink);

}  // namespace freshet::ctl
