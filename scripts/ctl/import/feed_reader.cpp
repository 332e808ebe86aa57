#include "scripts/ctl/import/feed_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "scripts/ctl/import/json_elements.h"
#include "scripts/ctl/import/source_dates.h"
#include "scripts/ctl/import/source_text.h"
#include "scripts/ctl/import/xml_reader.h"

namespace freshet::ctl {
namespace {

constexpr std::string_view kAtom = "http://www.w3.org/2005/Atom";
constexpr std::string_view kDublinTerms = "http://purl.org/dc/terms/";
constexpr std::string_view kRdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
constexpr std::string_view kItunes = "http://www.itunes.com/dtds/podcast-1.0.dtd";
constexpr std::string_view kFeedBurner = "http://rssnamespace.org/feedburner/ext/1.0";
constexpr std::array<std::string_view, 5> kRss{
    "", "http://purl.org/rss/1.0/", "http://backend.userland.com/rss2",
    "http://my.netscape.com/rdf/simple/0.9/", "http://channel.netscape.com/rdf/simple/0.9/"};

bool is_rss(const XmlElement& element, std::string_view name) {
  return element.name == name && std::ranges::find(kRss, element.space) != kRss.end();
}

tl::unexpected<Error> bad_feed(std::string detail) {
  return fail(ErrorCode::kInvalid, "bad_feed", {}, std::move(detail));
}

// The first that is not empty.
std::string_view first_of(std::initializer_list<std::string_view> texts) {
  const auto* const found = std::ranges::find_if_not(texts, &std::string_view::empty);
  return found == texts.end() ? std::string_view() : *found;
}

std::string_view http_url(std::string_view text) {
  const std::string start = to_lower(text.substr(0, 8));
  return start.starts_with("http://") || start.starts_with("https://") ? text : std::string_view();
}

// "Ann" of "ann@example.org (Ann)".
std::string_view author_name(std::string_view author) {
  const std::size_t open = author.find('('), close = author.rfind(')');
  if (author.find('@') == std::string_view::npos) return author;
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return {};
  return trimmed(author.substr(open + 1, close - open - 1));
}

class XmlFeed {
 public:
  XmlFeed(std::string_view base, const SourceSink& sink) : base_(base), sink_(sink) {}

  Result<void> read(std::istream& in) {
    const XmlVisitor visitor{
        .root = [this](const XmlElement& root) { return read_root(root); },
        .is_record = [this](int depth, const XmlElement& start) { return is_record(depth, start); },
        .record = [this](const XmlElement& record) { return read_record(record); }};
    return read_xml(in, base_, visitor);
  }

 private:
  Result<void> read_root(const XmlElement& root) {
    is_atom_ = root.space == kAtom && (root.name == "feed" || root.name == "entry");
    if (is_atom_) language_ = root.language();
    if (is_atom_ || is_rss(root, "rss") || (root.name == "RDF" && root.space == kRdf)) return {};
    return bad_feed("is not a feed: its root is <" + root.name + ">");
  }

  bool is_record(int depth, const XmlElement& start) const {
    if (is_atom_)
      return depth == 1 && start.space == kAtom && (start.name == "entry" || start.name == "author");
    return depth <= 2 &&
           (is_rss(start, "item") || (depth == 2 && (is_rss(start, "language") || is_rss(start, "link"))));
  }

  bool read_record(const XmlElement& record) {
    if (record.name == "language") {
      language_ = trimmed(record.text);
    } else if (record.name == "link") {
      if (base_.empty()) base_ = http_url(trimmed(record.text));
    } else if (record.name == "author") {
      author_ = record.child_text(kAtom, "name");
    } else {
      ++count_;
      return deliver(is_atom_ ? atom_item(record) : rss_item(record), sink_);
    }
    return true;
  }

  SourceItem new_item(const XmlElement& entry) const {
    SourceItem item;
    item.position = "entry " + std::to_string(count_);
    item.text_format = items::TextFormat::kHtml;
    item.language = first_of({entry.language(), entry.child_text(kDublinCoreSpace, "language"), language_});
    return item;
  }

  // A link refers to xml:base, the feed's address or, without both, the site.
  std::string link(const XmlElement& at, std::string_view reference) const {
    return resolve_url(at.base.empty() ? base_ : at.base, reference);
  }

  SourceItem rss_item(const XmlElement& entry) const {
    const auto text = [&](std::string_view name) { return entry.child_text(entry.space, name); };
    const auto core = [&](std::string_view name) { return entry.child_text(kDublinCoreSpace, name); };
    SourceItem item = new_item(entry);
    const XmlElement* const guid = entry.child(entry.space, "guid");
    item.guid = first_of({text("guid"), rdf_about(entry)});
    const bool guid_is_link = guid != nullptr && guid->attribute("isPermaLink") != "false";
    item.url =
        link(entry, first_of({entry.child_text(kFeedBurner, "origLink"), text("link"), atom_link(entry),
                              guid_is_link ? http_url(item.guid) : "", http_url(rdf_about(entry))}));
    item.title = plain_line(first_of({text("title"), core("title")}));
    item.text = first_of({entry.child_text(kContentSpace, "encoded"), text("description"),
                          entry.child_text(kItunes, "summary"), core("description")});
    item.author = plain_line(
        first_of({core("creator"), author_name(text("author")), entry.child_text(kItunes, "author")}));
    item.published_at =
        parse_source_date(first_of({text("pubDate"), core("date"), entry.child_text(kAtom, "published"),
                                    entry.child_text(kDublinTerms, "created")}));
    item.updated_at = parse_source_date(
        first_of({entry.child_text(kAtom, "updated"), entry.child_text(kDublinTerms, "modified")}));
    for (const XmlElement& child : entry.children) {
      const bool is_tag = (child.name == "category" && child.space == entry.space) ||
                          (child.name == "subject" && child.space == kDublinCoreSpace);
      if (is_tag) item.tags.push_back(plain_line(child.text));
    }
    return item;
  }

  static std::string_view rdf_about(const XmlElement& entry) {
    for (const XmlAttribute& each : entry.attributes) {
      if (each.space == kRdf && each.name == "about") return each.value;
    }
    return {};
  }

  // The link to the page itself, as HTML if there are several.
  static std::string_view atom_link(const XmlElement& entry) {
    std::string_view found;
    for (const XmlElement& each : entry.children) {
      if (each.space != kAtom || each.name != "link") continue;
      if (const auto rel = each.attribute("rel"); !rel.empty() && rel != "alternate") continue;
      if (found.empty() || each.attribute("type") == "text/html") found = each.attribute("href");
    }
    return found;
  }

  // The text of an entry: its content unless that is elsewhere or no text, otherwise its summary.
  static void read_atom_text(const XmlElement& entry, SourceItem& item) {
    for (const std::string_view name : {"content", "summary"}) {
      const XmlElement* const content = entry.child(kAtom, name);
      if (content == nullptr || trimmed(content->text).empty()) continue;
      const std::string_view type = content->attribute("type");
      const bool is_plain = type.empty() || type == "text" || type == "text/plain";
      if (!is_plain && type != "html" && type != "xhtml" && type != "text/html") continue;
      item.text = trimmed(content->text);
      item.text_format = is_plain ? items::TextFormat::kPlain : items::TextFormat::kHtml;
      return;
    }
  }

  SourceItem atom_item(const XmlElement& entry) const {
    const auto text = [&](std::string_view name) { return entry.child_text(kAtom, name); };
    SourceItem item = new_item(entry);
    item.guid = text("id");
    item.url = link(
        entry, first_of({entry.child_text(kFeedBurner, "origLink"), atom_link(entry), http_url(item.guid)}));
    if (const XmlElement* const title = entry.child(kAtom, "title")) {
      const bool is_markup = title->attribute("type").ends_with("html");
      item.title = is_markup ? plain_line(title->text) : one_line(title->text);
    }
    read_atom_text(entry, item);
    const XmlElement* const author = entry.child(kAtom, "author");
    item.author = author == nullptr ? author_ : author->child_text(kAtom, "name");
    item.published_at = parse_source_date(text("published"));
    item.updated_at = parse_source_date(text("updated"));
    for (const XmlElement& child : entry.children) {
      if (child.space != kAtom || child.name != "category") continue;
      item.tags.emplace_back(first_of({trimmed(child.attribute("label")), child.attribute("term")}));
    }
    return item;
  }

  std::string base_;
  const SourceSink& sink_;
  bool is_atom_ = false;
  std::string language_, author_;  // of the feed
  std::size_t count_ = 0;
};

// The name of the first author.
std::string json_author(json::Value holder) {
  const json::Value authors = holder["authors"];
  const auto all = authors.elements();
  return json_text(all.empty() ? holder["author"] : all.front(), "name");
}

SourceItem json_item(const JsonElement& entry, std::string_view base) {
  const json::Value from = entry.value;
  SourceItem item;
  item.position = "entry " + std::to_string(entry.number);
  item.guid = json_text(from, "id");
  const std::string url = json_text(from, "url"), external = json_text(from, "external_url");
  item.url = resolve_url(base, first_of({url, external, http_url(item.guid)}));
  item.title = json_text(from, "title");
  const std::string html = json_text(from, "content_html"), plain = json_text(from, "content_text");
  item.text_format = html.empty() ? items::TextFormat::kPlain : items::TextFormat::kHtml;
  item.text = first_of({html, plain, json_text(from, "summary")});
  item.author = json_author(from);
  item.language = json_text(from, "language");
  item.published_at = parse_source_date(json_text(from, "date_published"));
  item.updated_at = parse_source_date(json_text(from, "date_modified"));
  for (const json::Value tag : from["tags"].elements()) {
    if (tag.is_string()) item.tags.emplace_back(tag.text());
  }
  return item;
}

Result<void> read_json_feed(std::istream& in, std::string_view base_url, const SourceSink& sink) {
  constexpr std::array<std::string_view, 6> kMembers{"version", "items",  "language",
                                                     "authors", "author", "home_page_url"};
  std::string base(base_url), language, author;
  bool is_feed = false;  // also of a feed without entries
  const auto visit = [&](const JsonElement& entry) {
    if (entry.member == "version") {
      is_feed = entry.value.is_string() && entry.value.text().find("jsonfeed.org") != std::string_view::npos;
      return true;
    }
    if (entry.member != "items") {
      if (entry.member == "language" && entry.value.is_string()) language = entry.value.text();
      if (entry.member == "home_page_url" && base.empty() && entry.value.is_string())
        base = entry.value.text();
      if (entry.member.starts_with("author") && author.empty()) author = json_text(entry.value, "name");
      return true;
    }
    is_feed = true;
    if (!entry.value.is_object()) {
      sink.skipped("entry " + std::to_string(entry.number),
                   entry.error.empty() ? "is not an object" : entry.error);
      return true;
    }
    SourceItem item = json_item(entry, base);
    if (item.language.empty()) item.language = language;
    if (item.author.empty()) item.author = author;
    return deliver(std::move(item), sink);
  };
  FRESHET_TRY(done, read_json_elements(in, kMembers, visit));
  if (!is_feed) return bad_feed("is not a JSON Feed: it has no \"items\"");
  return {};
}

// Blanks and the UTF-8 byte order mark.
bool is_skipped(int c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == 0xEF || c == 0xBB || c == 0xBF;
}

}  // namespace

Result<void> read_feed(std::istream& in, std::string_view base_url, const SourceSink& sink) {
  while (is_skipped(in.peek())) in.get();
  return in.peek() == '{' ? read_json_feed(in, base_url, sink) : XmlFeed(base_url, sink).read(in);
}

}  // namespace freshet::ctl
