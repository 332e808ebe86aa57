// Compares recall over 100,000 items with a flat Xapian query:
//   recall_bench [items [days [rounds [folder]]]]
//
// Both find the best 500 items for a 13-term OR and read their ids. The flat index is one database
// without time slices or decay. They take turns. Prints medians and 99th percentiles of CPU time in
// ms. Builds the indexes first, in a temporary folder if none is given.
#include <stdlib.h>
#include <xapian.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "core/feed/recall.h"
#include "core/search/search_index.h"
#include "core/search/search_schema.h"

using namespace freshet;

namespace {

constexpr int kVocabulary = 20000;
constexpr std::size_t kSize = 500;
constexpr std::size_t kTerms = 13;
const UnixSeconds kNow{seconds{1770000000}};

class Corpus {
 public:
  Corpus(int items, int days) : items_(items), days_(days) {}

  // Words have a distribution similar to Zipf's law.
  std::string word(int skip = 0) {
    const double u = std::uniform_real_distribution<>(0, 1)(random_);
    return "w" + std::to_string(skip + static_cast<int>(kVocabulary * std::pow(u, 3)));
  }
  std::string words(std::size_t count, int skip = 0) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += word(skip) + " ";
    return text;
  }
  items::Item item(int i) {
    items::Item made;
    made.id = ItemId::trusted("item-" + std::to_string(i));
    made.title = words(8);
    made.text = words(200);
    made.tags = {TagName::trusted("tag" + std::to_string(random_() % 50))};
    made.published_at = kNow - seconds{static_cast<std::int64_t>((items_ - i) * 86400.0 * days_ / items_)};
    return made;
  }
  std::vector<feed::Interest> interests() {
    std::vector<feed::Interest> out;
    for (int i = 0; i < 10; ++i) {
      const auto number = items_ - 1 - static_cast<int>(random_() % static_cast<unsigned>(items_ / 10));
      out.push_back({ItemId::trusted("item-" + std::to_string(number)), 1.0});
    }
    return out;
  }

 private:
  int items_, days_;
  std::mt19937_64 random_{7};
};

void exit_on_error(const Result<void>& result) {
  if (result) return;
  std::fprintf(stderr, "%s\n", result.error().detail.c_str());
  std::exit(1);
}

template <class Work>
double cpu_ms(Work work) {
  const auto start = search::thread_cpu_time();
  work();
  return std::chrono::duration<double, std::milli>(search::thread_cpu_time() - start).count();
}

// Returns the total length of the ids, so that nothing is optimized away.
std::size_t flat_search(const Xapian::Database& database, const Xapian::Query& query) {
  Xapian::Enquire enquire(database);
  enquire.set_query(query);
  const Xapian::MSet found = enquire.get_mset(0, kSize);
  std::size_t bytes = 0;
  for (auto each = found.begin(); each != found.end(); ++each) bytes += each.get_document().get_data().size();
  return bytes;
}

struct Contender {
  const char* name;
  std::vector<double> ms;
  double percentile_ms(double share) {
    std::sort(ms.begin(), ms.end());
    return ms[std::min(ms.size() - 1, static_cast<std::size_t>(share * static_cast<double>(ms.size())))];
  }
};

void build(const SearchSettings& settings, const std::string& flat_path, int items, int days) {
  Corpus corpus(items, days);
  auto index = search::SearchIndex::open(settings).value();
  Xapian::WritableDatabase flat(flat_path, Xapian::DB_CREATE);
  for (int i = 0; i < items; ++i) {
    const items::Item item = corpus.item(i);
    exit_on_error(index->put(item));
    flat.add_document(search::make_document(item, Xapian::Stem()));
    if (i % 2000 == 1999) exit_on_error(index->commit());
  }
  exit_on_error(index->commit());
  flat.commit();
}

}  // namespace

int main(int argc, char** argv) {
  const int items = argc > 1 ? std::atoi(argv[1]) : 100000;
  const int days = argc > 2 ? std::atoi(argv[2]) : 100;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 400;
  char temporary[] = "/tmp/recall_bench.XXXXXX";
  const std::string folder = argc > 4 ? argv[4] : mkdtemp(temporary);
  Settings settings;
  settings.search.index = folder + "/index";
  if (!std::filesystem::exists(settings.search.index)) {
    const double built_ms = cpu_ms([&] { build(settings.search, folder + "/flat", items, days); });
    std::printf("%d items of %d days, both indexes built in %.1f s\n", items, days, built_ms / 1000);
  }

  const Xapian::Database flat(folder + "/flat");
  feed::BlockingRecall recall(settings);
  Corpus queries(items, days);
  Contender contenders[] = {{"flat Xapian, 13 terms", {}},
                            {"recall, same words as text", {}},
                            {"recall, ten interests", {}},
                            {"recall, newest", {}},
                            {"recall, three words typed", {}}};
  std::size_t found = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::string text = queries.words(kTerms, 20);
    const Xapian::Query parsed = feed::text_query(text, Xapian::Stem(), flat).query;
    const std::vector<feed::Interest> interests = queries.interests();
    contenders[0].ms.push_back(cpu_ms([&] { found += flat_search(flat, parsed); }));
    contenders[1].ms.push_back(cpu_ms([&] {
      found += recall.search({text, {}, kNow, kSize}).value().candidates.size();
    }));
    contenders[2].ms.push_back(cpu_ms([&] {
      feed::RecallQuery query{{}, interests, kNow, kSize};
      query.interest_weight = settings.recall.interest_weight;
      found += recall.search(query).value().candidates.size();
    }));
    contenders[3].ms.push_back(cpu_ms([&] {
      feed::RecallQuery query{{}, {}, kNow, kSize};
      query.interest_weight = settings.recall.interest_weight;
      found += recall.search(query).value().candidates.size();
    }));
    const std::string typed = queries.words(3, 20);
    contenders[4].ms.push_back(cpu_ms([&] {
      found += recall.search({typed, {}, kNow, kSize}).value().candidates.size();
    }));
  }
  std::printf("%-28s %8s %8s %8s\n", "", "median", "p99", "x flat");
  const double reference = contenders[0].percentile_ms(0.5);
  for (Contender& each : contenders) {
    std::printf("%-28s %8.2f %8.2f %8.2f\n", each.name, each.percentile_ms(0.5), each.percentile_ms(0.99),
                each.percentile_ms(0.5) / reference);
  }
  if (argc <= 4) std::filesystem::remove_all(folder);
  return found > 0 ? 0 : 1;
}
