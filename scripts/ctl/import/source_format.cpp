#include "scripts/ctl/import/source_format.h"

#include <algorithm>
#include <string>

#include "scripts/ctl/import/csv_reader.h"
#include "scripts/ctl/import/source_text.h"

namespace freshet::ctl {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The name of the root without its prefix: what follows declarations, comments and instructions.
std::string_view root_name(std::string_view xml) {
  while (xml.starts_with("<?") || xml.starts_with("<!")) {
    const std::string_view end = xml.starts_with("<!--") ? "-->" : ">";
    const std::size_t at = xml.find(end);
    if (at == std::string_view::npos) return {};
    xml = trimmed(xml.substr(at + end.size()));
  }
  if (!xml.starts_with('<')) return {};
  const std::string_view name = xml.substr(1, xml.find_first_of(" \t\r\n/>") - 1);
  return name.substr(name.find(':') + 1);  // all of it without a colon
}

std::optional<SourceFormat> detect_xml(std::string_view text) {
  const std::string_view root = root_name(text);
  if (root == "urlset" || root == "sitemapindex") return SourceFormat::kSitemap;
  if (root == "rss")
    return contains(text, "wordpress.org/export/") ? SourceFormat::kWxr : SourceFormat::kFeed;
  if (root == "feed" || root == "RDF") return SourceFormat::kFeed;
  return std::nullopt;
}

SourceFormat detect_json(std::string_view text) {
  if (contains(text, "jsonfeed.org/version")) return SourceFormat::kFeed;
  if (contains(text, "\"OrderedCollection") || contains(text, "\"orderedItems\""))
    return SourceFormat::kOutbox;
  const bool has_data = contains(text, "\"data\"") || contains(text, "\"exported_on\"");
  if (contains(text, "\"db\"") && has_data) return SourceFormat::kGhost;
  return SourceFormat::kNdjson;
}

}  // namespace

std::optional<SourceFormat> detect_format(std::string_view beginning) {
  if (beginning.starts_with("\xEF\xBB\xBF")) beginning.remove_prefix(3);
  const std::string_view text = trimmed(beginning);
  if (text.starts_with('<')) return detect_xml(text);
  if (text.starts_with('{')) return detect_json(text);
  const std::string_view first_line = text.substr(0, text.find('\n'));
  return is_csv_header(trimmed(first_line)) ? std::optional(SourceFormat::kCsv) : std::nullopt;
}

}  // namespace freshet::ctl
