#include "scripts/ctl/import/markdown_reader.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <vector>

#include "core/base/utf8.h"
#include "scripts/ctl/import/front_matter.h"
#include "scripts/ctl/import/permalink.h"
#include "scripts/ctl/import/source_dates.h"
#include "scripts/ctl/import/source_text.h"

namespace freshet::ctl {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFileBytes = 1024UL * 1024;

enum class Generator : std::uint8_t { kUnknown, kHugo, kJekyll, kHexo };

struct Site {
  Generator generator = Generator::kUnknown;
  fs::path content;       // the folder whose paths are those of the pages
  std::string base;       // the site's address, without a slash at its end; may be empty
  std::string permalink;  // the pattern for posts; Hugo has one a section, in `config`
  std::string language;
  FrontMatter config;
};

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> texts) {
  return std::ranges::find(texts, text) != texts.end();
}

tl::unexpected<Error> unreadable(const fs::path& path, const std::string& why) {
  return fail(ErrorCode::kInvalid, "bad_folder", {}, path.string() + " cannot be read: " + why);
}

// At most the limit, up to a whole character.
Result<std::string> read_text(const fs::path& path) {
  std::string text(kMaxFileBytes, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in.is_open() || in.bad()) return fail(ErrorCode::kInvalid, "bad_file", {}, std::strerror(errno));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  constexpr std::size_t kMaxCharacterBytes = 4;
  if (text.size() == kMaxFileBytes)
    text.resize(utf8::prefix(text, kMaxFileBytes - kMaxCharacterBytes).size());
  return text;
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Empty if it is not valid.
Result<FrontMatter> read_config(const fs::path& path) {
  auto text = read_text(path);
  if (!text) return unreadable(path, text.error().detail);
  auto config = path.extension() == ".toml" ? parse_toml(*text) : parse_yaml(*text);
  return config ? std::move(*config) : FrontMatter();
}

std::string jekyll_permalink(std::string_view style) {
  if (style.empty() || style == "date") return "/:categories/:year/:month/:day/:title:output_ext";
  if (style == "pretty") return "/:categories/:year/:month/:day/:title/";
  if (style == "none") return "/:categories/:title:output_ext";
  return std::string(style);
}

// The site whose configuration is in the folder, if there is one.
Result<std::optional<Site>> site_at(const fs::path& folder) {
  for (const char* const name : {"hugo.toml", "hugo.yaml", "hugo.yml", "config.toml", "config.yaml",
                                 "config.yml", "config/_default/hugo.toml", "config/_default/config.toml"}) {
    if (!is_there(folder / name) || !is_there(folder / "content")) continue;
    FRESHET_TRY(config, read_config(folder / name));
    return Site{.generator = Generator::kHugo,
                .content = folder / "content",
                .base = std::string(config->first({"baseurl", "base_url"})),
                .language = std::string(config->first({"languagecode", "defaultcontentlanguage"})),
                .config = *config};
  }
  if (!is_there(folder / "_config.yml")) return std::nullopt;
  FRESHET_TRY(config, read_config(folder / "_config.yml"));
  Site site{.base = std::string(config->first({"url"})),
            .permalink = std::string(config->first({"permalink"})),
            .language = std::string(config->first({"language", "lang"}))};
  const bool is_hexo = is_there(folder / "source" / "_posts");
  site.generator = is_hexo ? Generator::kHexo : Generator::kJekyll;
  site.content = is_hexo ? folder / "source" : folder;
  if (!is_hexo) {
    site.base += config->first({"baseurl"});
    site.permalink = jekyll_permalink(site.permalink);
  } else if (site.permalink.empty()) {
    site.permalink = ":year/:month/:day/:title/";
  }
  return site;
}

Result<Site> site_of(const fs::path& folder, std::string_view base_url) {
  Site site{.content = folder, .permalink = jekyll_permalink("")};
  fs::path at = folder;
  for (int above = 0; above <= 2; ++above, at = at.parent_path()) {
    FRESHET_TRY(found, site_at(at));
    if (*found) {
      site = std::move(**found);
      break;
    }
  }
  if (!base_url.empty()) site.base = base_url;
  while (site.base.ends_with('/')) site.base.pop_back();
  return site;
}

// A file of the site and where it stands.
struct Page {
  fs::path path;
  std::string position;              // relative to the folder that is read
  std::vector<std::string> folders;  // below the site's content
  std::string stem;                  // the file's name without extension and language
  std::string language;              // of "post.fr.md"
  std::string date;                  // of "2024-01-02-post.md", which the stem then lacks
  bool is_post = false, is_draft = false;
};

bool is_markdown(const fs::path& path) {
  return is_one_of(to_lower(path.extension().string()), {".md", ".markdown", ".mdown", ".mkd", ".mdx"});
}
bool is_html(const fs::path& path) {
  return is_one_of(to_lower(path.extension().string()), {".html", ".htm"});
}

bool is_left_out(const std::string& folder) {
  return folder.starts_with('.') || is_one_of(folder, {"node_modules", "vendor", "_site", "_includes",
                                                       "_layouts", "_sass", "_data", "_plugins"});
}

// Files about the repository rather than of the site.
bool is_about_repository(const Page& page) {
  return is_one_of(page.stem, {"README", "LICENSE", "CHANGELOG", "CONTRIBUTING", "CODE_OF_CONDUCT",
                               "SECURITY", "SUMMARY"});
}

Page page_at(const fs::path& path, const fs::path& folder, const Site& site) {
  Page page{.path = path,
            .position = path.lexically_relative(folder).generic_string(),
            .stem = path.stem().string()};
  for (const fs::path& part : path.parent_path().lexically_relative(site.content)) {
    if (part != "." && part != "..") page.folders.push_back(part.string());
  }
  page.is_draft = std::ranges::find(page.folders, "_drafts") != page.folders.end();
  page.is_post = page.is_draft || std::ranges::find(page.folders, "_posts") != page.folders.end();
  if (const std::size_t dot = page.stem.rfind('.');
      site.generator == Generator::kHugo && dot != std::string::npos && dot + 3 == page.stem.size()) {
    page.language = page.stem.substr(dot + 1);
    page.stem.resize(dot);
  }
  constexpr std::size_t kDateSize = 10;
  if (page.stem.size() > kDateSize && page.stem[kDateSize] == '-' && !date_parts(page.stem).empty()) {
    page.date = page.stem.substr(0, kDateSize);
    if (site.generator != Generator::kHugo) page.stem.erase(0, kDateSize + 1);
  }
  return page;
}

// The folders around _posts, which are categories in Jekyll, or within it, which are part of the
// title in Hexo.
std::vector<std::string> folders_around(const Page& page, bool within) {
  const auto posts = std::ranges::find_if(
      page.folders, [](const std::string& name) { return name == "_posts" || name == "_drafts"; });
  if (posts == page.folders.end()) return within ? std::vector<std::string>() : page.folders;
  return within ? std::vector<std::string>(posts + 1, page.folders.end())
                : std::vector<std::string>(page.folders.begin(), posts);
}

std::string joined(const std::vector<std::string>& names) {
  std::string path;
  for (const std::string& name : names) path += (path.empty() ? "" : "/") + name;
  return path;
}

// One value may hold several: separated by commas, or in Jekyll by blanks.
std::vector<std::string> terms(const FrontMatter& front, std::initializer_list<std::string_view> names,
                               const Site& site) {
  const auto& values = front.all(names);
  if (values.size() != 1 || front.is_list(names)) return values;
  if (values.front().find(',') != std::string::npos) return split_list(values.front(), ",");
  return site.generator == Generator::kJekyll ? split_list(values.front(), " ") : values;
}

// A name in the paths that Hugo makes: in lower case, with hyphens for blanks, without most
// punctuation.
std::string hugo_name(std::string_view name) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789._#+~-@";
  std::string out;
  bool after_blank = false;
  for (const char c : to_lower(name)) {
    const bool is_kept = static_cast<unsigned char>(c) >= 0x80 || kLetters.find(c) != std::string_view::npos;
    if (is_kept && after_blank && !out.empty()) out += '-';
    if (is_kept) out += c;
    after_blank = c == ' ' || (after_blank && !is_kept);
  }
  return out;
}

class PageReader {
 public:
  PageReader(const Site& site, const Page& page, const MarkdownFile& file)
      : site_(site), page_(page), front_(file.front_matter), body_(file.body) {}

  SourceItem item() const {
    SourceItem item;
    item.position = page_.position;
    item.guid = front_.first({"id", "guid"});
    item.slug = slug();
    item.url = link();
    item.title = front_.first({"title"});
    set_text(item);
    item.author = front_.first({"author", "authors"});
    item.language = front_.first({"lang", "language"});
    if (item.language.empty()) item.language = page_.language.empty() ? site_.language : page_.language;
    item.tags = terms(front_, {"tags", "tag", "keywords"}, site_);
    const std::vector<std::string> categories = all_categories();
    if (!categories.empty()) item.section = categories.front();
    item.tags.insert(item.tags.end(), categories.begin(), categories.end());
    item.published_at = parse_source_date(date());
    item.updated_at = parse_source_date(front_.first({"lastmod", "updated", "last_modified_at", "modified"}));
    item.expires_at = parse_source_date(front_.first({"expirydate", "unpublishdate"}));
    item.hidden = is_hidden();
    return item;
  }

 private:
  std::string slug() const {
    const std::string_view given = front_.first({"slug"});
    if (!given.empty()) return std::string(given);
    const bool is_bundle = page_.stem == "index" && !page_.folders.empty();
    return is_bundle ? page_.folders.back() : page_.stem;
  }

  std::string_view date() const {
    const std::string_view given =
        front_.first({"publishdate", "date", "pubdate", "published_at", "created"});
    return given.empty() ? std::string_view(page_.date) : given;
  }

  std::vector<std::string> all_categories() const {
    std::vector<std::string> out = terms(front_, {"categories", "category"}, site_);
    if (site_.generator == Generator::kJekyll && page_.is_post) {
      const auto around = folders_around(page_, false);
      out.insert(out.begin(), around.begin(), around.end());
    }
    return out;
  }

  bool is_hidden() const {
    return page_.is_draft || front_.is_true("draft") || front_.is_false("published") ||
           front_.is_true("private") || front_.is_true("hidden") || !front_.first({"password"}).empty() ||
           to_lower(front_.first({"status"})) == "draft";
  }

  // Without a title, a heading at the beginning is one, and no longer part of the text.
  void set_text(SourceItem& item) const {
    std::string_view text = trimmed(body_);
    if (item.title.empty() && text.starts_with("# ")) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      std::string buffer;
      item.title = trimmed(text.substr(2, end - 2));
      text = trimmed(text.substr(end));
    }
    if (text.empty()) text = front_.first({"description", "summary", "excerpt"});
    item.text = text;
    item.text_format = is_html(page_.path) ? items::TextFormat::kHtml : items::TextFormat::kMarkdown;
  }

  std::string link() const {
    std::string path(front_.first({"url", "permalink"}));
    if (path.find("://") != std::string::npos) return resolve_url({}, path);
    if (path.empty() || path.find(':') != std::string::npos) path = generated_path(path);
    if (path.empty()) return {};
    return resolve_url({}, site_.base + (path.starts_with('/') ? "" : "/") + path);
  }

  std::string generated_path(std::string_view pattern) const {
    if (site_.generator == Generator::kHugo) return hugo_path();
    if (!page_.is_post) return page_path();
    PermalinkParts parts = date_parts(date());
    const std::string within = joined(folders_around(page_, true));
    const bool is_hexo = site_.generator == Generator::kHexo;
    parts["title"] = is_hexo && !within.empty() ? within + "/" + page_.stem : slug();
    parts["slug"] = parts["name"] = slug();
    std::vector<std::string> categories = all_categories();
    for (std::string& category : categories) category = is_hexo ? hyphenated(category) : to_lower(category);
    parts["categories"] = parts["category"] =
        is_hexo && categories.empty() ? "uncategorized" : joined(categories);
    parts["slugified_categories"] = hyphenated(joined(categories));
    parts["output_ext"] = ".html";
    return expand_permalink(pattern.empty() ? site_.permalink : pattern, parts);
  }

  std::string hugo_path() const {
    const std::string section = page_.folders.empty() ? "" : page_.folders.front();
    const std::string_view pattern = site_.config.first({to_lower("permalinks." + section)});
    if (pattern.empty()) return page_path();
    const bool is_bundle = page_.stem == "index" && page_.folders.size() > 1;
    PermalinkParts parts = date_parts(date());
    parts["title"] = hugo_name(front_.first({"title"}));
    parts["section"] = parts["sections"] = hugo_name(section);
    parts["filename"] = parts["contentbasename"] = hugo_name(is_bundle ? page_.folders.back() : page_.stem);
    parts["slugorfilename"] = parts["slugorcontentbasename"] = hugo_name(slug());
    parts["slug"] = front_.first({"slug"}).empty() ? parts["title"] : hugo_name(slug());
    return expand_permalink(pattern, parts);
  }

  // The path of a page, by its file's: /about/ of about.md and about/index.md, in Jekyll and Hexo
  // /about.html of the former.
  std::string page_path() const {
    const bool is_hugo = site_.generator == Generator::kHugo;
    std::string path = "/";
    for (const std::string& folder : page_.folders) path += (is_hugo ? hugo_name(folder) : folder) + "/";
    if (page_.stem == "index") return path;
    const bool has_extension = site_.generator == Generator::kHexo ||
                               (site_.generator == Generator::kJekyll && !site_.permalink.ends_with('/'));
    if (has_extension) return path + page_.stem + ".html";
    return path + (is_hugo ? hugo_name(slug()) : page_.stem) + "/";
  }

  const Site& site_;
  const Page& page_;
  const FrontMatter& front_;
  std::string_view body_;
};

// The files to read, sorted.
Result<std::vector<fs::path>> find_files(const fs::path& folder, const Site& site) {
  // Reads only the content of a whole site. Jekyll's is the site.
  const fs::path root =
      site.content.lexically_relative(folder).string().starts_with("..") ? folder : site.content;
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator at(root, error), end;
  fs::path last = root;
  for (; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    last = at->path();
    if (at->is_directory(ignored) && is_left_out(at->path().filename().string()))
      at.disable_recursion_pending();
    // Not pipes and devices, which would block.
    if (at->is_regular_file(ignored) && (is_markdown(at->path()) || is_html(at->path())))
      files.push_back(at->path());
  }
  if (error) return unreadable(last, error.message());
  std::ranges::sort(files);
  return files;
}

// Delivers the page's item, or reports why there is none. False if the sink wants no more.
bool read_page(const Site& site, const Page& page, const SourceSink& sink) {
  const auto read = read_text(page.path);
  if (!read) {
    sink.skipped(page.position, "cannot be read: " + read.error().detail);
    return true;
  }
  const std::string& text = *read;
  const bool is_text = text.find('\0') == std::string::npos;
  if (is_html(page.path) && !text.starts_with("---") && !text.starts_with("+++")) return true;
  if (!is_text || !utf8::is_valid(text)) {
    sink.skipped(page.position, is_text ? "is not UTF-8" : "is not a text");
    return true;
  }
  const auto file = split_front_matter(text);
  if (!file) {
    sink.skipped(page.position, file.error().detail);
    return true;
  }
  if (file->front_matter.empty() && is_about_repository(page)) return true;
  if (page.stem == "_index" || file->front_matter.is_true("headless")) return true;  // Hugo's lists
  return deliver(PageReader(site, page, *file).item(), sink);
}

}  // namespace

Result<void> read_markdown(const fs::path& folder, std::string_view base_url, const SourceSink& sink) {
  std::error_code error;
  const fs::path root = fs::canonical(folder, error);
  if (error || !fs::is_directory(root, error))
    return fail(ErrorCode::kInvalid, "bad_folder", {}, "is not a folder");
  FRESHET_TRY(site, site_of(root, base_url));
  FRESHET_TRY(files, find_files(root, *site));
  if (std::ranges::none_of(*files, is_markdown))
    return fail(ErrorCode::kInvalid, "bad_folder", {}, "contains no Markdown files");
  for (const fs::path& path : *files) {
    if (!read_page(*site, page_at(path, root, *site), sink)) return {};
  }
  return {};
}

}  // namespace freshet::ctl
