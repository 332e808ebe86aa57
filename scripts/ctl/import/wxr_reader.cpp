#include "scripts/ctl/import/wxr_reader.h"

#include <map>

#include "scripts/ctl/import/source_dates.h"
#include "scripts/ctl/import/source_text.h"
#include "scripts/ctl/import/xml_reader.h"

namespace freshet::ctl {
namespace {

constexpr std::string_view kWordPress = "http://wordpress.org/export/";  // followed by a version

class WordPressExport {
 public:
  explicit WordPressExport(const SourceSink& sink) : sink_(sink) {}

  Result<void> read(std::istream& in) {
    const XmlVisitor visitor{
        .root = [](const XmlElement& root) -> Result<void> {
          if (root.name == "rss") return {};
          return fail(ErrorCode::kInvalid, "bad_wxr", {},
                      "is not a WordPress export: its root is <" + root.name + ">");
        },
        .is_record = [this](int depth, const XmlElement& start) { return is_record(depth, start); },
        .record = [this](const XmlElement& record) { return read_record(record); }};
    FRESHET_TRY(done, read_xml(in, {}, visitor));
    if (wordpress_.empty())
      return fail(ErrorCode::kInvalid, "bad_wxr", {}, "is a feed, not a WordPress export");
    return {};
  }

 private:
  struct Author {
    std::string id, name;
  };

  bool is_record(int depth, const XmlElement& start) {
    if (depth != 2) return false;
    const bool is_wordpress = start.space.starts_with(kWordPress);
    if (is_wordpress && wordpress_.empty()) wordpress_ = start.space;
    return (start.space.empty() &&
            (start.name == "item" || start.name == "language" || start.name == "link")) ||
           (is_wordpress && start.name == "author");
  }

  bool read_record(const XmlElement& record) {
    if (record.name == "language") {
      language_ = trimmed(record.text);
    } else if (record.name == "link") {
      site_ = trimmed(record.text);
    } else if (record.name == "author") {
      authors_[std::string(wp(record, "author_login"))] = {std::string(wp(record, "author_id")),
                                                           std::string(wp(record, "author_display_name"))};
    } else {
      ++count_;
      const std::string_view type = wp(record, "post_type");
      return (type != "post" && type != "page") || deliver(item_of(record), sink_);
    }
    return true;
  }

  std::string_view wp(const XmlElement& from, std::string_view name) const {
    return from.child_text(wordpress_, name);
  }

  SourceItem item_of(const XmlElement& post) const {
    SourceItem item;
    item.position = "entry " + std::to_string(count_);
    item.guid = post.child_text("", "guid");
    item.url = resolve_url(site_, post.child_text("", "link"));
    item.slug = wp(post, "post_name");
    item.title = plain_line(post.child_text("", "title"));
    item.text_format = items::TextFormat::kHtml;
    item.text = post.child_text(kContentSpace, "encoded");
    if (item.text.empty()) item.text = post.child_text(wordpress_ + "excerpt/", "encoded");
    item.language = language_;
    set_author(post, item);
    set_tags(post, item);
    item.published_at = published_at(post);
    item.updated_at = parse_source_date(wp(post, "post_modified_gmt"));
    const std::string_view status = wp(post, "status");
    item.hidden =
        (status != "publish" && status != "future" && !status.empty()) || !wp(post, "post_password").empty();
    return item;
  }

  // Drafts have no GMT date, and an unreadable pubDate.
  std::optional<UnixSeconds> published_at(const XmlElement& post) const {
    for (const std::string_view date :
         {wp(post, "post_date_gmt"), post.child_text("", "pubDate"), wp(post, "post_date")}) {
      if (const auto at = parse_source_date(date)) return at;
    }
    return std::nullopt;
  }

  // The id is the number that WordPress itself uses.
  void set_author(const XmlElement& post, SourceItem& item) const {
    const std::string login(post.child_text(kDublinCoreSpace, "creator"));
    const auto known = authors_.find(login);
    item.author = known == authors_.end() || known->second.name.empty() ? login : known->second.name;
    if (known != authors_.end()) item.author_id = known->second.id;
  }

  static void set_tags(const XmlElement& post, SourceItem& item) {
    for (const XmlElement& each : post.children) {
      if (each.name != "category" || !each.space.empty()) continue;
      const std::string_view domain = each.attribute("domain");
      const bool is_category = domain == "category";
      if ((!is_category && domain != "post_tag") || each.attribute("nicename") == "uncategorized") continue;
      std::string tag = plain_line(each.text);
      if (is_category && item.section.empty()) item.section = tag;
      item.tags.push_back(std::move(tag));
    }
  }

  const SourceSink& sink_;
  std::string wordpress_;  // the namespace, with its version
  std::string site_, language_;
  std::map<std::string, Author> authors_;  // by their login
  std::size_t count_ = 0;
};

}  // namespace

Result<void> read_wxr(std::istream& in, const SourceSink& sink) { return WordPressExport(sink).read(in); }

}  // namespace freshet::ctl
