// Shared by the recall tests: random items, an index of them, and a brute-force search.
#pragma once

#include <stdlib.h>
#include <xapian.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/feed/recall.h"
#include "core/search/search_index.h"
#include "core/search/search_schema.h"

namespace freshet::test {

inline constexpr seconds kDay{86400};
inline const UnixSeconds kNow{seconds{1770000000}};

// Removed by the destructor.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    // In memory if possible: there are thousands of commits, which would wait for the disk.
    std::string name = std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp";
    name += "/freshet_search.XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// Settings with an index in a temporary folder.
struct IndexFixture {
  IndexFixture() { settings.search.index = folder / "index"; }

  const TemporaryFolder folder;
  Settings settings;
};

inline items::Item item(const std::string& id, const std::string& title, UnixSeconds published = kNow,
                        const std::vector<std::string>& tags = {}) {
  items::Item out;
  out.id = ItemId::trusted(id);
  out.title = title;
  for (const std::string& each : tags) out.tags.push_back(TagName::trusted(each));
  out.published_at = published;
  return out;
}

inline void require_ok(const Result<void>& result) {
  INFO((result ? std::string() : std::string(result.error().reason) + ": " + result.error().detail));
  REQUIRE(result.has_value());
}

inline std::unique_ptr<search::SearchIndex> open_index(const Settings& settings) {
  auto index = search::SearchIndex::open(settings.search);
  INFO((index ? std::string() : index.error().detail));
  REQUIRE(index.has_value());
  return *std::move(index);
}

inline void write_index(const Settings& settings, const std::vector<items::Item>& items) {
  const auto index = open_index(settings);
  for (const items::Item& each : items) require_ok(index->put(each));
  require_ok(index->commit());
}

inline feed::RecallResult run_search(feed::BlockingRecall& recall, const feed::RecallQuery& query) {
  auto recalled = recall.search(query);
  INFO((recalled ? std::string() : std::string(recalled.error().reason) + ": " + recalled.error().detail));
  REQUIRE(recalled.has_value());
  return *std::move(recalled);
}

inline std::vector<std::string> ids(const feed::RecallResult& recalled) {
  std::vector<std::string> all;
  for (const feed::Candidate& each : recalled.candidates) all.push_back(each.item.str());
  return all;
}

// Ids that match `text`, best first; with a new searcher without caches.
inline std::vector<std::string> search_ids(const Settings& settings, const std::string& text) {
  feed::BlockingRecall recall(settings);
  return ids(run_search(recall, {text, {}, kNow, 100}));
}

// Items with a small vocabulary, so that there are many matches and ties; dates from clustered to
// scattered, some equal, some in the future.
class RandomItems {
 public:
  explicit RandomItems(std::uint64_t seed) : random_(seed) {
    vocabulary_ = 5 + below(400);
    days_ = 1 + below(below(2) == 0 ? 30 : 1500);
    max_text_words_ = 1 + below(30);
  }
  std::size_t below(std::size_t n) { return random_() % n; }
  std::string word() {
    const double u = std::uniform_real_distribution<>(0, 1)(random_);
    return "w" + std::to_string(static_cast<std::size_t>(static_cast<double>(vocabulary_) * u * u));
  }
  std::string words(std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += word() + " ";
    return text;
  }
  UnixSeconds date() {
    if (below(50) == 0) return kNow + seconds{static_cast<std::int64_t>(below(1000000))};
    if (below(10) == 0) return kNow - kDay * static_cast<std::int64_t>(below(days_));  // many at one instant
    return kNow - seconds{static_cast<std::int64_t>(below(days_ * 86400))};
  }
  items::Item next() {
    items::Item out = item("item" + std::to_string(next_number_++), words(1 + below(4)), date(),
                           {"tag" + std::to_string(below(7))});
    if (below(3) > 0) out.text = words(below(max_text_words_));
    return out;
  }

 private:
  std::mt19937_64 random_;
  std::size_t vocabulary_ = 1, days_ = 1, max_text_words_ = 1;
  std::size_t next_number_ = 0;
};

// All items that may match `query`, without embargoed ones, by score, date and id, each descending.
// The reference definition: weighs every match of the whole database, without ranges, cutoffs or an
// order of slices.
inline std::vector<feed::Candidate> brute_force_search(const Xapian::Database& database,
                                                       const Xapian::Query& terms, bool matches_only,
                                                       const feed::GaussDecay& decay, UnixSeconds now,
                                                       double base = 0) {
  std::vector<feed::Candidate> all;
  std::vector<bool> matched(database.get_lastdocid() + 1);
  const auto add = [&](Xapian::docid document, double weight) {
    const std::string key = database.get_document(document).get_value(search::kOrderSlot);
    const search::OrderKey read = search::parse_order_key(key);
    const seconds age = std::max(seconds{0}, now - read.published);
    if (read.published <= now)
      all.push_back(
          {ItemId::trusted(std::string(read.item)), (base + weight) * decay.at(age), read.published});
  };
  if (!terms.empty()) {
    Xapian::Enquire enquire(database);
    enquire.set_query(terms);
    const Xapian::MSet everything = enquire.get_mset(0, database.get_doccount());
    for (auto each = everything.begin(); each != everything.end(); ++each) {
      matched[*each] = true;
      add(*each, each.get_weight());
    }
  }
  if (!matches_only) {
    for (auto each = database.postlist_begin(""); each != database.postlist_end(""); ++each) {
      if (!matched[*each]) add(*each, 0);
    }
  }
  std::sort(all.begin(), all.end(), [](const feed::Candidate& a, const feed::Candidate& b) {
    return std::tie(a.score, a.published_at, a.item) > std::tie(b.score, b.published_at, b.item);
  });
  return all;
}

}  // namespace freshet::test
