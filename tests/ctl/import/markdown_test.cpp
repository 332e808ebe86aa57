#include "scripts/ctl/import/markdown_reader.h"

#include <unistd.h>
#include <catch2/catch.hpp>

#include "scripts/ctl/import/front_matter.h"
#include "tests/ctl/import/collect.h"

using namespace freshet;
using namespace freshet::test;
using namespace freshet::ctl;

namespace {

namespace fs = std::filesystem;

Collected read_folder(const fs::path& folder, std::string_view base = "") {
  Collected out;
  const auto done = read_markdown(folder, base, out.sink());
  if (!done) out.error = done.error().detail;
  return out;
}

// A folder that is removed at the end.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "freshet-import-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << text;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string front_matter_error(const std::string& text) { return error_of(split_front_matter(text)).detail; }

}  // namespace

TEST_CASE("Hugo: TOML, YAML and JSON, bundles, languages and taxonomies", "[import]") {
  const Collected pages = read_folder(fixture("hugo"));
  CHECK(pages.error.empty());
  CHECK(pages.skipped.empty());
  REQUIRE(pages.items.size() == 3);
  const SourceItem& salt = pages.items[0];
  CHECK(salt.position == "content/posts/Salt One.md");
  CHECK(salt.title == "Salt & vinegar");
  CHECK(salt.url == "https://example.org/blog/posts/salt-one/");
  CHECK(salt.tags == Strings{"sea salt", "salt", "Food"});
  CHECK(salt.section == "Food");
  CHECK(salt.author == "Ann");
  CHECK(salt.language == "en-us");
  CHECK(salt.text == "Body **text**.");
  CHECK(salt.text_format == items::TextFormat::kMarkdown);
  CHECK(unix_or_zero(salt.published_at) == 1795681800);
  CHECK(unix_or_zero(salt.updated_at) == 1795737600);
  CHECK(unix_or_zero(salt.expires_at) == 1798761600);
  const SourceItem& bundle = pages.items[1];
  CHECK(bundle.title == "Paquet");
  CHECK(bundle.slug == "le-paquet");
  CHECK(bundle.language == "fr");
  CHECK(bundle.tags == Strings{"un", "deux mots"});
  CHECK(pages.items[2].title == "From { JSON }");
  CHECK(pages.items[2].text == "Text of it.");
  CHECK(pages.items[2].hidden);
}

TEST_CASE("Hugo: permalinks of sections", "[import]") {
  const Folder folder;
  folder.write("config.yaml",
               "baseURL: https://example.org\npermalinks:\n  posts: /:year/:month/:title\n  page: {news: "
               "'/n/:slug/'}\n");
  folder.write("content/posts/2026/a.md", "---\ntitle: What's  New, in C++?\ndate: 2026-01-05\n---\n");
  folder.write("content/news/b/index.md", "---\ntitle: B\nslug: The B\n---\n");
  folder.write("content/other/C d.md", "---\ntitle: C\n---\n");
  Strings links;
  for (const SourceItem& item : read_folder(folder.path()).items) links.push_back(item.url);
  CHECK(links == Strings{"https://example.org/n/the-b/", "https://example.org/other/c-d/",
                         "https://example.org/2026/01/whats-new-in-c++"});
}

TEST_CASE("Jekyll: dates in names, drafts, categories of folders and permalinks", "[import]") {
  const Collected pages = read_folder(fixture("jekyll"), "https://other.example/");
  CHECK(pages.error.empty());
  REQUIRE(pages.items.size() == 4);
  const SourceItem& idea = pages.items[0];
  CHECK(idea.position == "_drafts/idea.md");
  CHECK(idea.hidden);
  const SourceItem& dated = pages.items[1];
  CHECK(dated.title == "Dated: twice");
  CHECK(dated.author == "Ann");
  CHECK(dated.tags == Strings{"sea salt"});
  CHECK(dated.url == "https://other.example/2026/11/dated/");
  CHECK(dated.hidden);
  CHECK(unix_or_zero(dated.published_at) == 1795840200);
  const SourceItem& about = pages.items[2];
  CHECK(about.url == "https://other.example/about-us/");
  CHECK(about.text_format == items::TextFormat::kHtml);
  const SourceItem& crisps = pages.items[3];
  CHECK(crisps.title.starts_with("One two three"));
  CHECK(crisps.slug == "crisps");
  CHECK(crisps.url == "https://other.example/food/snacks/2026/1/crisps/");
  CHECK(crisps.tags == Strings{"one", "two", "food", "Snacks"});
  CHECK(unix_or_zero(crisps.published_at) == 1767571200);
  CHECK(read_folder(fixture("jekyll/food")).items.at(0).url ==
        "https://example.org/j/food/snacks/2026/1/crisps/");
}

TEST_CASE("Hexo: folders in titles, nested categories and pages", "[import]") {
  const Collected pages = read_folder(fixture("hexo"));
  REQUIRE(pages.items.size() == 2);
  CHECK(pages.items[0].url == "https://example.org/2026/11/26/2026/salt/");
  CHECK(pages.items[0].tags == Strings{"sea salt", "Food", "Snacks", "Salt"});
  CHECK(unix_or_zero(pages.items[0].published_at) == 1795685400);
  CHECK(pages.items[0].language == "en");
  CHECK(pages.items[1].url == "https://example.org/about/");
}

TEST_CASE("a folder without a generator", "[import]") {
  const Folder folder;
  folder.write("README.md", "# About the repository");
  folder.write("notes/First Note.md", "# The *first* note\n\nText of it.");
  folder.write("binary.md", std::string("\0\1\2", 3));
  folder.write("latin.md", "Caf\xE9");
  folder.write("broken.md", "---\ntitle: [\n---\nText");
  folder.write("picture.png", "\x89PNG");
  folder.write(".git/config.md", "hidden");
  folder.write("big.md", std::string(3UL * 1024 * 1024, 'x'));
  const Collected pages = read_folder(folder.path(), "https://example.org/wiki");
  CHECK(pages.error.empty());
  REQUIRE(pages.items.size() == 2);
  CHECK(pages.items[0].text.size() == 256UL * 1024);
  CHECK(pages.items[1].title == "The *first* note");
  CHECK(pages.items[1].text == "Text of it.");
  CHECK(pages.items[1].url == "https://example.org/wiki/notes/First%20Note/");
  REQUIRE(pages.skipped.size() == 3);
  CHECK(pages.skipped[0] == std::pair<std::string, std::string>("binary.md", "is not a text"));
  CHECK(pages.skipped[1].first == "broken.md");
  CHECK(pages.skipped[1].second.starts_with("has front matter that is not valid YAML: line "));
  CHECK(pages.skipped[2] == std::pair<std::string, std::string>("latin.md", "is not UTF-8"));
}

TEST_CASE("a folder that cannot be read is one sentence", "[import]") {
  CHECK(read_folder("/nonexistent").error == "is not a folder");
  CHECK(read_folder(fixture("rss.xml")).error == "is not a folder");
  const Folder folder;
  CHECK(read_folder(folder.path()).error == "contains no Markdown files");
}

TEST_CASE("a file that cannot be read is skipped, a folder is an error", "[import]") {
  const Folder folder;
  folder.write("a.md", "text");
  fs::create_symlink("/proc/self/mem", folder.path() / "b.md");  // reading its beginning fails
  const Collected pages = read_folder(folder.path());
  CHECK(pages.items.size() == 1);
  REQUIRE(pages.skipped.size() == 1);
  CHECK(pages.skipped[0] ==
        std::pair<std::string, std::string>("b.md", "cannot be read: Input/output error"));

  fs::create_symlink("/proc/self/mem", folder.path() / "_config.yml");
  const std::string config = (folder.path() / "_config.yml").string();
  CHECK(read_folder(folder.path()).error == config + " cannot be read: Input/output error");

  const Folder other;
  other.write("a.md", "text");
  other.write("closed/b.md", "text");
  fs::permissions(other.path(), fs::perms(0755));
  fs::permissions(other.path() / "closed", fs::perms::none);
  const bool is_root = geteuid() == 0;  // root may read everything
  if (is_root) REQUIRE(seteuid(65534) == 0);
  const Collected closed = read_folder(other.path());
  if (is_root) REQUIRE(seteuid(0) == 0);
  fs::permissions(other.path() / "closed", fs::perms(0755));
  CHECK(closed.error == (other.path() / "closed").string() + " cannot be read: Permission denied");
}

TEST_CASE("a YAML bomb is not expanded", "[import]") {
  std::string bomb = "---\na: &a [x, x, x, x, x, x, x, x, x]\n";
  for (char name = 'b'; name <= 'z'; ++name) {
    const std::string before = std::string(1, static_cast<char>(name - 1));
    bomb += std::string(1, name) + ": &" + name + " [*" + before + ", *" + before + ", *" + before + ", *" +
            before + "]\n";
  }
  const std::string text = bomb + "tags: *z\ntitle: Bomb\n---\nText";
  const auto file = split_front_matter(text);
  REQUIRE(file);
  CHECK(file->front_matter.first({"title"}) == "Bomb");
  CHECK(file->front_matter.all({"tags"}).empty());
  CHECK(split_front_matter("---\ntaxonomies: &t {taxonomies: *t, tags: [a]}\n---\n"));
  const std::string wide_text = "---\na: &a [" + std::string(2000, 'x') + "]\ntags:\n" + [] {
    std::string lines;
    for (int i = 0; i < 5000; ++i) lines += "- *a\n";
    return lines;
  }() + "---\n";
  const auto wide = split_front_matter(wide_text);
  REQUIRE(wide);
  CHECK(wide->front_matter.all({"tags"}).size() == 200);
  const auto repeated = [](const std::string& what, const std::string& element, int times) {
    std::string out = what + ": &" + what + " [";
    for (int i = 0; i < times; ++i) out += element + ",";
    return out + "]\n";
  };
  std::string names;
  for (int i = 0; i < 900; ++i) names += "c" + std::to_string(i) + ": *b\n";
  std::string map = "m: &m {";
  for (int i = 0; i < 1000; ++i) map += "k" + std::to_string(i) + ": 1, ";
  map += "}\n";
  for (const std::string& bomb_in_time : {repeated("a", "x", 8000) + repeated("b", "*a", 5000) + names,
                                          map + repeated("b", "*m", 5000) + names}) {
    CHECK(front_matter_error("---\n" + bomb_in_time + "---\n") ==
          "has front matter with more than 20000 values");
  }
}

TEST_CASE("bad front matter is one sentence", "[import]") {
  CHECK(front_matter_error("---\ntitle: x\n") == "has front matter that does not end within 64 KiB");
  CHECK(front_matter_error("---\n" + std::string(100'000, '\n') + "---\n") ==
        "has front matter that does not end within 64 KiB");
  CHECK(front_matter_error("{\"title\": \"x\"") == "has front matter that does not end within 64 KiB");
  CHECK(front_matter_error("---\n- a\n---\n") == "has front matter that is not a list of names and values");
  CHECK(front_matter_error("---\n" + std::string(60'000, '[') + "\n---\n")
            .starts_with("has front matter that is not valid YAML"));
  CHECK(front_matter_error("+++\ntitle = \n+++\n")
            .starts_with("has front matter that is not valid TOML: line 2: "));
  CHECK(front_matter_error("+++\na = " + std::string(60'000, '[') + "\n+++\n")
            .starts_with("has front matter that is not valid TOML"));
  CHECK(front_matter_error("{\"title\": x}").starts_with("has front matter that is not valid JSON"));
}

TEST_CASE("a text without front matter is all body", "[import]") {
  const auto file = split_front_matter("{{< note >}} text");
  REQUIRE(file);
  CHECK(file->front_matter.empty());
  CHECK(file->body == "{{< note >}} text");
}
