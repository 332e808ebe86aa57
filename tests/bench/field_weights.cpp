// Compares weights of the fields of an item:
//   field_weights <items-and-queries
//
// Reads lines of JSON: items {"id", "title", "tags", "author", "text"} with texts in HTML, all with
// the same date, then queries {"kind", "query", "wanted", "source"}: the item to be found, and an
// item that is no result or "". Prints the mean reciprocal rank (0 beyond the first ten results) of
// each kind and the mean of kinds, for the odd queries, by which weights are chosen, and for the
// even ones.
#include <stdlib.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/feed/recall.h"
#include "core/search/index_folder.h"
#include "core/search/search_schema.h"
#include "core/search/time_slices.h"

using namespace freshet;

namespace {

constexpr std::size_t kResults = 10;
const UnixSeconds kNow{seconds{1770000000}};

struct Query {
  std::string kind, text, wanted, source;
};

void write_index(const std::string& path, const std::vector<items::Item>& items,
                 const search::FieldWeights& weights) {
  std::filesystem::create_directories(path);
  const search::IndexFolder folder(path);
  search::TimeSlices slices(folder, {}, search::terms_version("none"));
  for (const items::Item& each : items)
    slices.put(search::make_document(each, Xapian::Stem(), weights), search::id_term(each.id), kNow);
  slices.commit();
  folder.publish(slices.slices());
}

double reciprocal_rank(feed::BlockingRecall& recall, const Query& query) {
  const auto found = recall.search({query.text, {}, kNow, kResults + 1}).value();
  std::size_t rank = 0;
  for (const feed::Candidate& each : found.candidates) {
    if (each.item.view() == query.source) continue;
    if (++rank > kResults) break;
    if (each.item.view() == query.wanted) return 1.0 / static_cast<double>(rank);
  }
  return 0;
}

void measure(const std::vector<items::Item>& items, const std::vector<Query>& queries,
             const search::FieldWeights& weights) {
  char folder[] = "/tmp/field_weights.XXXXXX";
  Settings settings;
  settings.search.index = std::string(mkdtemp(folder)) + "/index";
  write_index(settings.search.index, items, weights);
  struct Mean {
    double sum = 0, count = 0;
  };
  std::map<std::string, std::array<Mean, 2>> kinds;
  {
    feed::BlockingRecall recall(settings);
    for (std::size_t i = 0; i < queries.size(); ++i) {
      Mean& mean = kinds[queries[i].kind][i % 2];
      mean.sum += reciprocal_rank(recall, queries[i]);
      ++mean.count;
    }
  }
  std::filesystem::remove_all(folder);
  std::printf("title %u tag %u author %u text %u:", weights.title, weights.tag, weights.author, weights.text);
  for (const std::size_t half : {1U, 0U}) {
    double sum = 0;
    for (const auto& [name, means] : kinds) {
      const double mean = means[half].sum / means[half].count;
      std::printf(" %s %.3f", name.c_str(), mean);
      sum += mean;
    }
    std::printf(" mean %.4f%s", sum / static_cast<double>(kinds.size()), half == 1 ? " |" : "\n");
  }
  std::fflush(stdout);
}

}  // namespace

int main() {
  std::vector<items::Item> items;
  std::vector<Query> queries;
  for (std::string line; std::getline(std::cin, line);) {
    json::Document document;
    if (!document.parse(line)) return 2;
    const json::Value root = document.root();
    const auto string = [&](const char* key) { return std::string(root[key].text()); };
    if (root["query"].is_string()) {
      queries.push_back({string("kind"), string("query"), string("wanted"), string("source")});
      continue;
    }
    items::Item& item = items.emplace_back();
    item.id = ItemId::trusted(string("id"));
    item.title = string("title");
    item.author = string("author");
    item.text = string("text");
    item.text_format = items::TextFormat::kHtml;
    for (const json::Value& tag : root["tags"].elements())
      item.tags.push_back(TagName::trusted(std::string(tag.text())));
    item.published_at = kNow;
  }
  std::printf("%zu items, %zu queries\n", items.size(), queries.size());
  for (const unsigned title : {1U, 2U, 3U, 4U}) {
    for (const unsigned tag : {1U, 2U, 3U, 4U}) {
      for (const unsigned author : {1U, 2U, 3U}) measure(items, queries, {title, tag, author, 1});
    }
  }
  return 0;
}
