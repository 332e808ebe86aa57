#include "scripts/ctl/import/item_id.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>

#include "core/base/utf8.h"
#include "scripts/ctl/http/curl_handle.h"

namespace freshet::ctl {
namespace {

constexpr std::array<std::string_view, 4> kNamedRules{"guid", "url", "path", "slug"};

// Decodes %XX. nullopt if an escape is broken or the result is not UTF-8.
std::optional<std::string> percent_decoded(std::string_view text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  };
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      out += text[at];
      continue;
    }
    if (at + 2 >= text.size()) return std::nullopt;
    const int high = digit(text[at + 1]), low = digit(text[at + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    at += 2;
  }
  if (!utf8::is_valid(out)) return std::nullopt;
  return out;
}

// As new URL(…).pathname encodes it: what a path may contain stays, escapes included.
std::string percent_encoded(std::string_view path) {
  constexpr std::string_view kEncoded = " \"#<>?`{}";
  std::string out;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte >= 0x7F || kEncoded.find(c) != std::string_view::npos)
      out += fmt::format("%{:02X}", byte);
    else
      out += c;
  }
  return out;
}

// WordPress's /?p=14, also of drafts and scheduled posts: many of them have the same path.
bool is_plain_permalink(const std::string& url, std::string_view path) {
  const std::string query = url_part(url, CURLUPART_QUERY).value_or("");
  const bool names_post = query.starts_with("p=") || query.starts_with("page_id=");
  const bool is_folder = url_part(url, CURLUPART_PATH).value_or("").ends_with('/');
  return path == "/" ? !query.empty() : is_folder && names_post;
}

}  // namespace

std::optional<std::string> path_id(const std::string& url) {
  const auto scheme = url_part(url, CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") return std::nullopt;
  const auto path = url_part(url, CURLUPART_PATH);
  if (!path) return std::nullopt;
  const auto decoded = percent_decoded(*path);
  std::string out = decoded ? utf8::to_nfc(*decoded) : percent_encoded(*path);
  while (out.size() > 1 && out.ends_with('/')) out.pop_back();
  return out;
}

Result<IdRule> IdRule::parse(const std::string& text) {
  IdRule rule;
  rule.is_default_ = text.empty();
  rule.text_ = text.empty() ? "path" : text;
  if (std::ranges::find(kNamedRules, rule.text_) != kNamedRules.end()) return rule;
  static const re2::RE2 kColumnName("[\\pL\\pN_ -]+");
  if (re2::RE2::FullMatch(text, kColumnName)) {
    rule.column_ = text;
    return rule;
  }
  rule.pattern_ = std::make_shared<const re2::RE2>(text, re2::RE2::Quiet);
  if (!rule.pattern_->ok())
    return fail(ErrorCode::kInvalid, "bad_option", {}, "--id: " + rule.pattern_->error());
  if (rule.pattern_->NumberOfCapturingGroups() == 0)
    return fail(
        ErrorCode::kInvalid, "bad_option", {},
        "--id takes guid, url, path, slug, a column of a table, or a regular expression with a group");
  return rule;
}

Result<std::string> IdRule::id_of(const SourceItem& item) const {
  const auto none = [](std::string why) { return fail(ErrorCode::kInvalid, "no_id", {}, std::move(why)); };
  std::optional<std::string> out;
  if (pattern_) {
    std::string group;
    if (re2::RE2::PartialMatch(item.url, *pattern_, &group)) out = std::move(group);
  } else if (!column_.empty() || (is_default_ && !item.table_id.empty())) {
    out = item.table_id;
  } else if (text_ == "path") {
    const bool has_no_host = item.url.starts_with('/') && !item.url.starts_with("//");
    const std::string url = has_no_host ? "http://localhost" + item.url : item.url;
    out = path_id(url);
    if (out && is_plain_permalink(url, *out))
      return none("has its id only in the query of its URL; choose another --id, such as guid");
  } else {
    out = text_ == "guid" ? item.guid : text_ == "url" ? item.url : item.slug;
  }
  if (!out || out->empty())
    return none("has no id by the rule " + text_ + "; choose another --id, in a table the name of a column");
  return std::move(*out);
}

}  // namespace freshet::ctl
