#include "scripts/ctl/import/permalink.h"

#include <algorithm>

#include "scripts/ctl/import/source_text.h"

namespace freshet::ctl {
namespace {

bool is_name(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }

std::string without_zero(std::string_view number) {
  return std::string(number.starts_with('0') ? number.substr(1) : number);
}

}  // namespace

std::string expand_permalink(std::string_view pattern, const PermalinkParts& parts) {
  std::string out = "/";
  while (!pattern.empty()) {
    if (pattern.starts_with(':')) {
      const auto* const end = std::find_if_not(pattern.begin() + 1, pattern.end(), is_name);
      const auto size = static_cast<std::size_t>(end - pattern.begin());
      const auto part = parts.find(pattern.substr(1, size - 1));
      if (part == parts.end()) return {};
      out += part->second;
      pattern.remove_prefix(size);
    } else {
      if (pattern.front() != '/' || !out.ends_with('/')) out += pattern.front();
      pattern.remove_prefix(1);
    }
  }
  return out;
}

PermalinkParts date_parts(std::string_view date) {
  constexpr std::string_view kForm = "0000-00-00";
  const auto matches = [](char c, char form) {
    return form == '0' ? c >= '0' && c <= '9' : c == '-' || c == '/';
  };
  if (date.size() < kForm.size() || !std::ranges::equal(date.substr(0, kForm.size()), kForm, matches))
    return {};
  const std::string year(date.substr(0, 4)), month(date.substr(5, 2)), day(date.substr(8, 2));
  return {{"year", year},
          {"month", month},
          {"day", day},
          {"i_month", without_zero(month)},
          {"i_day", without_zero(day)},
          {"short_year", year.substr(2)}};
}

std::string hyphenated(std::string_view name) {
  std::string out(trimmed(name));
  std::ranges::replace(out, ' ', '-');
  return out;
}

}  // namespace freshet::ctl
