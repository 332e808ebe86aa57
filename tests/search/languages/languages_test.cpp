// Each row of the table, by the recall that workers use.
#include <algorithm>
#include <set>
#include <sstream>

#include "tests/search/corpus.h"
#include "tests/search/languages/table.h"

using namespace freshet;
using namespace freshet::test;

namespace {

items::Item make_item(const TableItem& from) {
  items::Item out = item(from.id, from.title);
  if (*from.tag != 0) out.tags = {TagName::trusted(from.tag)};
  out.author = from.author;
  out.text = from.text;
  out.text_format = from.format;
  return out;
}

// "" if `ids` are as `found` says, and otherwise `ids`.
std::string difference(const std::vector<std::string>& ids, std::string found) {
  const bool ordered = found.find('>') != std::string::npos;
  std::ranges::replace(found, '>', ' ');
  std::istringstream words(found);
  std::vector<std::string> expected, actual = ids;
  for (std::string id; words >> id;) expected.push_back(id);
  if (!ordered) {
    std::ranges::sort(expected);
    std::ranges::sort(actual);
  }
  if (actual == expected) return {};
  std::string out = "found";
  for (const std::string& id : ids) out += " " + id;
  return ids.empty() ? "found none" : out;
}

}  // namespace

TEST_CASE("readers find what they look for in their language", "[languages]") {
  const std::string stemmer = GENERATE("none", "english");
  TemporaryFolder folder;
  std::size_t number = 0;
  for (const TableRow& row : language_table()) {
    Settings settings;
    settings.search.index = folder / std::to_string(number++);
    settings.search.stemmer = stemmer;
    std::vector<items::Item> items;
    for (const TableItem& each : row.items) items.push_back(make_item(each));
    write_index(settings, items);
    INFO(row.language << ": " << row.query << " must find: " << row.found << ", stemmer " << stemmer);
    CHECK(difference(search_ids(settings, row.query), row.found) == "");
    std::filesystem::remove_all(settings.search.index);
  }
}

TEST_CASE("the table has at least ten rows per language, some of which find nothing", "[languages]") {
  for (const char* language :
       {"Chinese", "Japanese", "Korean", "Thai", "Arabic", "Hebrew", "Hindi", "Vietnamese", "Turkish",
        "German", "Russian", "Greek", "French", "Emoji", "Mixture"}) {
    INFO(language);
    const auto is_row = [&](const TableRow& row) { return std::string_view(row.language) == language; };
    CHECK(std::ranges::count_if(language_table(), is_row) >= 10);
    CHECK(std::ranges::any_of(language_table(),
                              [&](const TableRow& row) { return is_row(row) && *row.found == 0; }));
  }
}
