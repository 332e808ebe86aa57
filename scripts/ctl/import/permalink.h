// The paths that generators of static sites give to pages.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace freshet::ctl {

// Values of the placeholders, such as "year" and "title".
using PermalinkParts = std::map<std::string, std::string, std::less<>>;

// Replaces placeholders such as :year in a pattern of Jekyll or Hexo. Empty parts leave no double
// slash. Empty if a placeholder is not known.
std::string expand_permalink(std::string_view pattern, const PermalinkParts& parts);

// The parts "year", "month", "day", "i_month", "i_day" and "short_year" of a date that begins with
// yyyy-mm-dd or yyyy/mm/dd; nothing for another text.
PermalinkParts date_parts(std::string_view date);

// Replaces blanks with hyphens.
std::string hyphenated(std::string_view name);

}  // namespace freshet::ctl
