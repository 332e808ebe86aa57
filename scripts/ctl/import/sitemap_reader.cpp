#include "scripts/ctl/import/sitemap_reader.h"

#include "scripts/ctl/import/source_dates.h"
#include "scripts/ctl/import/source_text.h"
#include "scripts/ctl/import/xml_reader.h"

namespace freshet::ctl {
namespace {

constexpr std::string_view kNews = "http://www.google.com/schemas/sitemap-news/0.9";
constexpr std::size_t kMaxSitemaps = 50'000;  // of an index, by the protocol

// The namespace of sitemaps has had several URIs, and some sitemaps have none.
SourceItem item_of(const XmlElement& entry, std::string_view base, std::string position) {
  SourceItem item;
  item.position = std::move(position);
  item.url = resolve_url(base, entry.child_text(entry.space, "loc"));
  item.updated_at = parse_source_date(entry.child_text(entry.space, "lastmod"));
  const XmlElement* const news = entry.child(kNews, "news");
  if (news == nullptr) return item;
  item.title = plain_line(news->child_text(kNews, "title"));
  item.published_at = parse_source_date(news->child_text(kNews, "publication_date"));
  item.tags = split_list(news->child_text(kNews, "keywords"), ",");
  const XmlElement* const publication = news->child(kNews, "publication");
  if (publication != nullptr) item.language = publication->child_text(kNews, "language");
  return item;
}

}  // namespace

Result<SitemapLinks> read_sitemap(std::istream& in, std::string_view base_url, const SourceSink& sink) {
  SitemapLinks links;
  bool is_index = false;
  std::size_t count = 0;
  const XmlVisitor visitor{.root = [&](const XmlElement& root) -> Result<void> {
                             is_index = root.name == "sitemapindex";
                             if (is_index || root.name == "urlset") return {};
                             return fail(ErrorCode::kInvalid, "bad_sitemap", {},
                                         "is not a sitemap: its root is <" + root.name + ">");
                           },
                           .is_record =
                               [&](int depth, const XmlElement& start) {
                                 return depth == 1 && start.name == (is_index ? "sitemap" : "url");
                               },
                           .record =
                               [&](const XmlElement& entry) {
                                 SourceItem item =
                                     item_of(entry, base_url, "entry " + std::to_string(++count));
                                 if (item.url.empty()) {
                                   sink.skipped(item.position, "has no usable <loc>");
                                 } else if (!is_index) {
                                   return deliver(std::move(item), sink);
                                 } else {
                                   links.sitemaps.push_back(std::move(item.url));
                                 }
                                 return links.sitemaps.size() < kMaxSitemaps;
                               }};
  FRESHET_TRY(done, read_xml(in, base_url, visitor));
  return links;
}

}  // namespace freshet::ctl
