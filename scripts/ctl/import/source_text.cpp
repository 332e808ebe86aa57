#include "scripts/ctl/import/source_text.h"

#include <libxml/uri.h>
#include <libxml/xmlmemory.h>

#include <algorithm>
#include <array>
#include <memory>
#include <unordered_set>

#include "core/base/ids.h"
#include "core/base/utf8.h"
#include "core/items/item_limits.h"
#include "core/search/readable_text.h"

namespace freshet::ctl {
namespace {

constexpr std::size_t kTitleFromTextCharacters = 80;
// Enough for the first words of a text with markup around them.
constexpr std::size_t kTitleSourceBytes = 8192;

bool is_http(std::string_view url) {
  const std::string start = to_lower(url.substr(0, 8));
  return start.starts_with("http://") || start.starts_with("https://");
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Percent-encodes what a URI may not contain.
std::string escape_uri(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF", kUnsafe = "\"<>\\^`{|}";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > ' ' && byte < 0x7F && kUnsafe.find(c) == std::string_view::npos) {
      out += c;
    } else {
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

// libxml2's result; empty if one of both is not a URI.
std::string build_uri(const std::string& reference, const std::string& base) {
  const auto as_xml = [](const std::string& text) { return reinterpret_cast<const xmlChar*>(text.c_str()); };
  const std::unique_ptr<xmlChar, void (*)(void*)> uri(xmlBuildURI(as_xml(reference), as_xml(base)),
                                                      [](void* text) { xmlFree(text); });
  return uri ? reinterpret_cast<const char*>(uri.get()) : "";
}

// The first words of a line, with an ellipsis if there are more.
std::string first_words(std::string_view line) {
  std::size_t end = 0, word_end = 0;
  for (std::size_t characters = 0; end < line.size(); ++characters) {
    if (line[end] == ' ') word_end = end;
    if (characters == kTitleFromTextCharacters) break;
    end += utf8::decode(line, end).size;
  }
  if (end >= line.size()) return std::string(line);
  return std::string(line.substr(0, word_end > 0 ? word_end : end)) + "…";
}

std::string title_from_text(std::string_view text, items::TextFormat format) {
  std::string buffer;
  const std::string_view start = utf8::prefix(text, kTitleSourceBytes);
  return first_words(one_line(search::readable_text(start, format, buffer)));
}

// "Hello world" of https://example.org/2026/hello-world.html.
std::string title_from_link(std::string_view link) {
  link = link.substr(0, link.find_first_of("?#"));
  while (link.ends_with('/')) link.remove_suffix(1);
  std::string_view name = link.substr(link.rfind('/') + 1);
  if (const std::size_t dot = name.rfind('.');
      dot != std::string_view::npos && dot > 0 && link.rfind('/') > 8)
    name = name.substr(0, dot);
  const std::unique_ptr<char, void (*)(void*)> decoded(
      xmlURIUnescapeString(name.data(), static_cast<int>(name.size()), nullptr),
      [](void* text) { xmlFree(text); });
  std::string title = decoded && utf8::is_valid(decoded.get()) ? decoded.get() : std::string(name);
  std::ranges::replace_if(
      title, [](char c) { return c == '-' || c == '_'; }, ' ');
  title = one_line(title);
  if (!title.empty() && title[0] >= 'a' && title[0] <= 'z') title[0] = static_cast<char>(title[0] - 0x20);
  return title;
}

void limit_tags(std::vector<std::string>& tags) {
  std::vector<std::string> kept;
  std::unordered_set<std::string> keys;
  std::size_t bytes = 0;
  for (const std::string& tag : tags) {
    std::string line = one_line(tag);
    if (kept.size() == items::kMaxTags) break;
    if (!parse_tag(line, "tags") || bytes + line.size() > items::kMaxTagsBytes) continue;
    if (!keys.insert(utf8::fold(line)).second) continue;
    bytes += line.size();
    kept.push_back(std::move(line));
  }
  tags = std::move(kept);
}

std::string limited_line(std::string_view text, std::size_t max_bytes) {
  std::string line = one_line(text);
  return std::string(trimmed(utf8::prefix(line, max_bytes)));
}

std::string limited_section(std::string_view text) {
  std::string line = one_line(text);
  std::size_t end = 0;
  for (std::size_t characters = 0; end < line.size() && characters < items::kMaxSectionLetters; ++characters)
    end += utf8::decode(line, end).size;
  line.resize(end);
  return std::string(trimmed(line));
}

std::string language_tag(std::string_view text) {
  std::string tag(trimmed(text));
  std::ranges::replace(tag, '_', '-');
  return items::is_language_tag(tag) && tag.size() <= items::kMaxLanguageBytes ? tag : "";
}

// Drops an id that the service would refuse, rather than the item.
std::string valid_id(std::string_view text) {
  const auto id = parse_author(trimmed(text), "author_id");
  return id ? std::string(trimmed(text)) : "";
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\f\v";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string one_line(std::string_view text) {
  std::string line;
  for (std::size_t at = 0; at < text.size();) {
    const utf8::CodePoint c = utf8::decode(text, at);
    const bool is_blank = c.size == 0 || utf8::is_control(c.value) || utf8::is_white_space(c.value);
    const std::size_t size = std::max<std::size_t>(c.size, 1);
    if (!is_blank) {
      line.append(text, at, size);
    } else if (!line.empty() && !line.ends_with(' ')) {
      line += ' ';
    }
    at += size;
  }
  if (line.ends_with(' ')) line.pop_back();
  return line;
}

std::string plain_line(std::string_view html) {
  std::string buffer;
  return one_line(search::readable_text(html, items::TextFormat::kHtml, buffer));
}

std::string to_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  return out;
}

std::vector<std::string> split_list(std::string_view text, std::string_view separators) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(separators), text.size());
    if (const auto part = trimmed(text.substr(0, end)); !part.empty()) parts.emplace_back(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool looks_like_html(std::string_view text) {
  for (std::size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    const std::string_view tag = text.substr(at + 1, 3);
    if (tag.size() < 2) return false;
    if (tag[0] == '/' && is_letter(tag[1])) return true;
    const std::string name = to_lower(tag);
    if (name == "br>" || name == "br/" || name == "br " || name.starts_with("p>") || name.starts_with("p "))
      return true;
  }
  return false;
}

std::string resolve_url(std::string_view base, std::string_view reference) {
  const std::string target = escape_uri(trimmed(reference).substr(0, items::kMaxUrlBytes + 1));
  if (target.empty() || target.size() > items::kMaxUrlBytes || base.size() > items::kMaxUrlBytes) return {};
  std::string url = target;
  if (!base.empty() && !is_http(target)) url = build_uri(target, escape_uri(base));
  const bool is_usable = is_http(url) || (base.empty() && url.starts_with('/') && !url.starts_with("//"));
  return is_usable && url.size() <= items::kMaxUrlBytes ? url : "";
}

bool deliver(SourceItem item, const SourceSink& sink) {
  std::erase(item.text, '\0');
  item.text.resize(utf8::prefix(item.text, items::kMaxTextBytes).size());
  item.title = limited_line(item.title, items::kMaxTitleBytes);
  if (item.title.empty()) item.title = title_from_text(item.text, item.text_format);
  if (item.title.empty()) item.title = title_from_link(item.url.empty() ? item.slug : item.url);
  if (item.title.empty()) {
    sink.skipped(item.position, "has no title, no text and no link");
    return true;
  }
  item.author = limited_line(item.author, kMaxIdBytes);
  item.author_id = valid_id(item.author_id);
  item.section = limited_section(item.section);
  item.language = language_tag(item.language);
  item.guid = std::string(trimmed(item.guid));
  limit_tags(item.tags);
  return sink.item(std::move(item));
}

}  // namespace freshet::ctl
