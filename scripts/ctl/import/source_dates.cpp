#include "scripts/ctl/import/source_dates.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

namespace freshet::ctl {
namespace {

struct Zone {
  std::string_view name, offset;
};
// Zones that parse_date() does not know. Names with several meanings are missing.
constexpr std::array kZones{
    Zone{"CET", "+0100"},  Zone{"CEST", "+0200"}, Zone{"MET", "+0100"},  Zone{"MEST", "+0200"},
    Zone{"BST", "+0100"},  Zone{"WET", "+0000"},  Zone{"WEST", "+0100"}, Zone{"EET", "+0200"},
    Zone{"EEST", "+0300"}, Zone{"MSK", "+0300"},  Zone{"JST", "+0900"},  Zone{"KST", "+0900"},
    Zone{"AEST", "+1000"}, Zone{"AEDT", "+1100"}, Zone{"NZST", "+1200"}, Zone{"NZDT", "+1300"}};
constexpr std::size_t kMaxDateBytes = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

template <class Predicate>
std::string_view take_while(std::string_view& rest, Predicate predicate) {
  const auto end = std::ranges::find_if_not(rest, predicate);
  const std::string_view run = rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
  rest.remove_prefix(run.size());
  return run;
}

// A zone by its offset, and a day or month by its first three letters.
std::string_view short_word(std::string_view word) {
  const auto* const zone = std::ranges::find(kZones, word, &Zone::name);
  return zone == kZones.end() ? word.substr(0, 3) : zone->offset;
}

// In the form that parse_date() expects: single spaces, two digits at least, "-" between the parts
// of a day.
std::string canonical(std::string_view text) {
  std::string out;
  const bool iso = text.size() > 4 && is_digit(text[3]) && (text[4] == '/' || text[4] == '-');
  while (!text.empty()) {
    if (const auto digits = take_while(text, is_digit); !digits.empty()) {
      if (digits.size() == 1 && out.find('.') == std::string::npos) out += '0';
      out += digits;
    } else if (const auto word = take_while(text, is_word_letter); !word.empty()) {
      const bool is_separator = word == "T" || word == "t";
      out += is_separator ? word : short_word(word);
    } else {
      char c = text.front();
      text.remove_prefix(1);
      if (c == '\t' || c == '\n' || c == '\r') c = ' ';
      if (iso && c == '/') c = '-';
      if (c != ' ' || !(out.empty() || out.ends_with(' '))) out += c;
    }
  }
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

// Unix seconds, or milliseconds if they are 12 digits or more.
std::optional<UnixSeconds> from_number(std::string_view digits) {
  constexpr std::size_t kMinDigits = 9, kMillisecondDigits = 12;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || digits.size() < kMinDigits) return std::nullopt;
  const auto at = from_unix(digits.size() >= kMillisecondDigits ? number / 1000 : number, "date");
  return at ? std::optional(*at) : std::nullopt;
}

}  // namespace

std::optional<UnixSeconds> parse_source_date(std::string_view text) {
  if (text.size() > kMaxDateBytes) return std::nullopt;
  const std::string date = canonical(text);
  if (date.empty()) return std::nullopt;
  if (std::ranges::all_of(date, is_digit)) return from_number(date);
  const auto at = parse_date(date, "date");
  return at ? *at : std::nullopt;
}

}  // namespace freshet::ctl
