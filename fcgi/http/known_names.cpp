#include "fcgi/http/known_names.h"

#include <algorithm>

#include "core/base/edit_distance.h"
#include "core/base/hex.h"
#include "fcgi/http/cors.h"

namespace freshet::http {
namespace {

// Calls `visit` with each part of `text` between `separator`s, without surrounding blanks.
template <class Visit>
void for_each_part(std::string_view text, char separator, const Visit& visit) {
  constexpr std::string_view kBlanks = " \t";
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    std::string_view part = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    part.remove_prefix(std::min(part.find_first_not_of(kBlanks), part.size()));
    part = part.substr(0, part.find_last_not_of(kBlanks) + 1);
    if (!part.empty()) visit(part);
  }
}

// The known name that `name` is most likely a misspelling of; empty if none is close.
std::string_view nearest_name(std::string_view known, std::string_view name) {
  std::string_view best;
  if (name.size() > kMaxIgnoredBytes) return best;
  std::size_t best_distance = max_edits(name.size()) + 1;
  for_each_part(known, ' ', [&](std::string_view each) {
    const std::size_t distance = equals_ignore_case(each, name) ? 0 : edit_distance(name, each);
    // A short name differs from most others by two edits.
    if (distance >= best_distance || distance >= std::max(name.size(), each.size()) - 1) return;
    best_distance = distance;
    best = each;
  });
  return best;
}

std::string detail_for(std::string_view known, std::string_view name) {
  if (known.empty()) return "is unknown; this route takes none";
  if (const auto nearest = nearest_name(known, name); !nearest.empty())
    return std::string("is unknown; did you mean \"").append(nearest).append("\"?");
  std::string detail = "is unknown; known names:";
  std::string_view separator = " ";
  for_each_part(known, ' ', [&](std::string_view each) {
    detail.append(separator).append(each);
    separator = ", ";
  });
  return detail;
}

bool is_token_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         std::string_view("!#$&'*+-.^_`|~").find(c) != std::string_view::npos;
}

std::string encode_token(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (is_token_character(c)) {
      out.push_back(c);
    } else {
      out.push_back('%');
      append_hex(out, static_cast<unsigned char>(c), kUpperHex);
    }
  }
  return out;
}

}  // namespace

bool is_known_name(std::string_view known, std::string_view name) {
  if (name.empty() || name.find(' ') != std::string_view::npos) return false;
  for (std::size_t at = known.find(name); at != std::string_view::npos; at = known.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || known[at - 1] == ' ') && (end == known.size() || known[end] == ' ')) return true;
  }
  return false;
}

bool prefers_lenient_handling(std::string_view prefer) {
  bool found = false;
  for_each_part(prefer, ',', [&](std::string_view preference) {
    const std::string_view word = preference.substr(0, preference.find(';'));
    std::string bare;
    std::ranges::copy_if(word, std::back_inserter(bare),
                         [](char c) { return c != '"' && c != ' ' && c != '\t'; });
    found |= equals_ignore_case(bare, "handling=lenient");
  });
  return found;
}

Result<void> NameCheck::check(std::string_view name, std::string_view known, std::string_view reason) {
  if (is_known_name(known, name)) return {};
  const std::string_view shown = name.substr(0, kMaxIgnoredBytes);
  if (!is_lenient_) return fail(ErrorCode::kInvalid, reason, std::string(shown), detail_for(known, name));
  if (ignored_names_.size() == kMaxIgnored || std::ranges::count(ignored_names_, shown) > 0) return {};
  ignored_names_.emplace_back(shown);
  ignored_.append(ignored_.empty() ? "" : ", ").append(encode_token(shown));
  return {};
}

Result<void> NameCheck::check_parameters(const Target& target, std::string_view known) {
  for (const auto& [name, value] : target.parameters()) {
    FRESHET_TRY(checked, check(name, known, "unknown_parameter"));
  }
  return {};
}

Result<void> NameCheck::check_members(json::Value object, std::string_view known) {
  for (const auto& [name, value] : object.members()) {
    FRESHET_TRY(checked, check(name, known, "unknown_member"));
  }
  return {};
}

void count_ignored_members(json::Value object, std::string_view known, IgnoredMembers& counts) {
  for (const auto& [name, value] : object.members()) {
    if (is_known_name(known, name)) continue;
    const std::string_view shown = name.substr(0, kMaxIgnoredBytes);
    if (const auto found = counts.find(shown); found != counts.end())
      ++found->second;
    else if (counts.size() < kMaxIgnored)
      counts.emplace(shown, 1);
  }
}

}  // namespace freshet::http
