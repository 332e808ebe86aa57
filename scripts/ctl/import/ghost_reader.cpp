#include "scripts/ctl/import/ghost_reader.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <vector>

#include "scripts/ctl/import/json_elements.h"
#include "scripts/ctl/import/source_dates.h"
#include "scripts/ctl/import/source_text.h"

namespace freshet::ctl {
namespace {

// A row of a join table: what is joined to a post, and its order.
struct Join {
  std::int64_t order = 0;
  std::string id;
};

class GhostExport {
 public:
  explicit GhostExport(const SourceSink& sink) : sink_(sink) {}

  Result<void> read(std::istream& in) {
    constexpr std::array<std::string_view, 6> kTables{"tags",          "users",    "posts_tags",
                                                      "posts_authors", "settings", "posts"};
    // An error ends the second pass too, after it has delivered the posts before the error.
    auto tables = read_json_elements(in, kTables, [this](const JsonElement& row) {
      add_row(row);
      return true;
    });
    for (auto* joins : {&post_tags_, &post_authors_}) {
      for (auto& [post, rows] : *joins) std::ranges::stable_sort(rows, {}, &Join::order);
    }
    if (tables && !has_posts_)
      return fail(ErrorCode::kInvalid, "bad_ghost", {}, "is not a Ghost export: it has no \"posts\"");
    in.clear();
    if (!in.seekg(0)) return fail(ErrorCode::kInvalid, "bad_ghost", {}, "cannot be read twice");
    constexpr std::array<std::string_view, 5> kPosts{"posts", "tags", "users", "posts_tags", "posts_authors"};
    return read_json_elements(
        in, kPosts, [this](const JsonElement& row) { return row.member != "posts" || read_post(row); });
  }

 private:
  using Joins = std::unordered_map<std::string, std::vector<Join>>;

  void add_row(const JsonElement& row) {
    if (row.member == "posts") has_posts_ = true;
    if (!row.value.is_object()) return;
    if (row.member == "tags") {
      // Internal tags, whose names start with #, are not shown to readers.
      const std::string name = json_text(row.value, "name");
      if (json_text(row.value, "visibility") != "internal" && !name.starts_with('#'))
        tags_[json_text(row.value, "id")] = name;
    } else if (row.member == "users") {
      authors_[json_text(row.value, "id")] = json_text(row.value, "name");
    } else if (row.member == "posts_tags") {
      post_tags_[json_text(row.value, "post_id")].push_back(
          {row.value["sort_order"].integer().value_or(0), json_text(row.value, "tag_id")});
    } else if (row.member == "posts_authors") {
      post_authors_[json_text(row.value, "post_id")].push_back(
          {row.value["sort_order"].integer().value_or(0), json_text(row.value, "author_id")});
    } else if (row.member == "settings") {
      const std::string key = json_text(row.value, "key");
      if (key == "locale" || (key == "lang" && language_.empty())) language_ = json_text(row.value, "value");
    }
  }

  bool read_post(const JsonElement& row) {
    if (row.value.is_object()) return deliver(item_of(row), sink_);
    sink_.skipped("entry " + std::to_string(row.number), row.error.empty() ? "is not an object" : row.error);
    return true;
  }

  SourceItem item_of(const JsonElement& row) const {
    const json::Value post = row.value;
    SourceItem item;
    item.position = "entry " + std::to_string(row.number);
    const std::string id = json_text(post, "id");
    item.guid = json_text(post, "uuid");
    if (item.guid.empty()) item.guid = id;
    item.slug = json_text(post, "slug");
    if (!item.slug.empty()) item.url = resolve_url({}, "/" + item.slug + "/");
    item.title = json_text(post, "title");
    set_text(post, item);
    item.language = json_text(post, "locale");
    if (item.language.empty()) item.language = language_;
    set_author(id, post, item);
    set_tags(id, item);
    item.published_at = parse_source_date(json_text(post, "published_at"));
    if (!item.published_at) item.published_at = parse_source_date(json_text(post, "created_at"));
    item.updated_at = parse_source_date(json_text(post, "updated_at"));
    // Posts for members are listed on the site; those that were only sent by mail are not.
    const std::string status = json_text(post, "status");
    item.hidden = status != "published" && status != "scheduled" && !status.empty();
    return item;
  }

  static void set_text(json::Value post, SourceItem& item) {
    item.text_format = items::TextFormat::kHtml;
    for (const std::string_view member : {"html", "markdown", "plaintext", "custom_excerpt"}) {
      item.text = json_text(post, member);
      if (item.text.empty()) continue;
      if (member == "markdown") item.text_format = items::TextFormat::kMarkdown;
      if (member == "plaintext" || member == "custom_excerpt") item.text_format = items::TextFormat::kPlain;
      return;
    }
  }

  // The first author; exports before Ghost 1.22 have one in the post itself.
  void set_author(const std::string& id, json::Value post, SourceItem& item) const {
    const auto joined = post_authors_.find(id);
    item.author_id = joined == post_authors_.end() ? json_text(post, "author_id") : joined->second.front().id;
    const auto author = authors_.find(item.author_id);
    if (author != authors_.end()) item.author = author->second;
  }

  void set_tags(const std::string& id, SourceItem& item) const {
    const auto joined = post_tags_.find(id);
    if (joined == post_tags_.end()) return;
    for (const Join& row : joined->second) {
      if (const auto tag = tags_.find(row.id); tag != tags_.end()) item.tags.push_back(tag->second);
    }
    if (!item.tags.empty()) item.section = item.tags.front();  // Ghost's primary tag
  }

  const SourceSink& sink_;
  std::unordered_map<std::string, std::string> tags_, authors_;  // names by their ids
  Joins post_tags_, post_authors_;                               // by the post's id
  std::string language_;
  bool has_posts_ = false;
};

}  // namespace

Result<void> read_ghost(std::istream& in, const SourceSink& sink) { return GhostExport(sink).read(in); }

}  // namespace freshet::ctl
