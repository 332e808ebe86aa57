// The memory of recent items: its weights are Xapian's, and it follows changes of the index. What
// searches make of it is compared with scoring every item in tests/feed/exactness_test.cpp.
#include <map>

#include "core/feed/recall_query.h"
#include "core/feed/recall_source.h"
#include "core/search/recent_index.h"
#include "tests/search/corpus.h"

using namespace freshet;
using namespace freshet::test;
using search::RecentIndex;

namespace {

using Weights = std::map<std::string, double>;  // by item

std::int64_t unix_time(UnixSeconds at) { return at.time_since_epoch().count(); }

struct Fixture : IndexFixture {
  void change(const std::function<void(search::SearchIndex&)>& work) {
    const auto index = open_index(settings);
    work(*index);
    require_ok(index->commit());
  }
  void put(const std::vector<items::Item>& items) {
    change([&](search::SearchIndex& index) {
      for (const items::Item& each : items) require_ok(index.put(each));
    });
  }
  // Loads the items since `begin`. Returns the time since which they are in memory.
  std::int64_t load(UnixSeconds begin) {
    source->database();
    recent.refresh(source->slices());
    return recent.load_since(unix_time(begin));
  }
  // Matches the items that were published since `begin`.
  Weights match(const std::vector<search::WeightedTerm>& terms, UnixSeconds begin,
                UnixSeconds end = kNow + seconds{1}, double min_weight = 0) {
    load(begin);
    const auto matches = recent.match(terms, unix_time(begin), unix_time(end), min_weight, nullptr);
    REQUIRE(matches.has_value());
    Weights out;
    for (const RecentIndex::Match& each : *matches) {
      const search::OrderKey key = search::parse_order_key(each.order_key);
      CHECK(unix_time(key.published) == each.published);
      CHECK(out.emplace(key.item, each.weight).second);
    }
    return out;
  }
  Weights search_xapian(const std::vector<search::WeightedTerm>& terms) {
    Xapian::Enquire enquire(source->database());
    enquire.set_query(feed::any_of(terms));
    const Xapian::MSet found = enquire.get_mset(0, 100000);
    Weights out;
    for (auto each = found.begin(); each != found.end(); ++each)
      out.emplace(each.get_document().get_data(), each.get_weight());
    return out;
  }

  std::unique_ptr<feed::SearchSource> source;
  RecentIndex recent{{1000, 20000}};
};

void check_equal(const Weights& got, const Weights& expected) {
  REQUIRE(got.size() == expected.size());
  for (const auto& [item, weight] : expected) {
    INFO(item);
    REQUIRE(got.contains(item));
    CHECK(got.at(item) == Approx(weight).epsilon(1e-12));
  }
}

const std::vector<search::WeightedTerm> kRed{{"red", 1}};

}  // namespace

TEST_CASE_METHOD(Fixture, "weights are those of Xapian, whatever the frequencies and lengths", "[recent]") {
  RandomItems random(5);
  std::vector<items::Item> items(500);
  for (items::Item& each : items) {
    each = random.next();
    each.published_at = std::min(each.published_at, kNow);
  }
  items.push_back(item("often", "w0 w0 w0 w1"));
  items.back().text = std::string(200, 'x') + " w1 w1 w1 w1 w1 w1 w1 w1 w1";
  put(items);
  source = feed::make_search_source(settings.search);
  recent = RecentIndex();
  const std::vector<search::WeightedTerm> terms{{"w0", 1}, {"w1", 0.5},    {"Ktag1", 0.001},
                                                {"w1", 2}, {"nowhere", 1}, {"w300", 1}};
  const Weights got = match(terms, UnixSeconds{});
  REQUIRE(got.size() > 100);
  check_equal(got, search_xapian(terms));
  double highest = 0;
  for (const auto& [name, weight] : got) highest = std::max(highest, weight);
  CHECK(recent.highest_weight(terms) >= highest);
}

TEST_CASE_METHOD(Fixture, "matches below a weight are left out, and no others", "[recent]") {
  const UnixSeconds newest = kNow, oldest = kNow - 6 * kDay;
  RandomItems random(8);
  std::vector<items::Item> items(600);
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i] = random.next();
    items[i].published_at = newest - seconds{static_cast<std::int64_t>(i * 37 % 600) * 800};
  }
  put({items.begin(), items.begin() + 500});
  source = feed::make_search_source(settings.search);
  recent = RecentIndex();
  load(oldest);
  put({items.begin() + 500, items.end()});  // kept behind the others, in no order
  const std::vector<search::WeightedTerm> terms{{"w0", 0.2}, {"w1", 1},   {"w2", 0.5},    {"Ktag1", 2},
                                                {"w4", 0.1}, {"w300", 3}, {"nowhere", 1}, {"w1", 0.3}};
  const Weights all = match(terms, oldest);
  REQUIRE(all.size() > 300);
  std::vector<double> weights;
  for (const auto& [name, weight] : all) weights.push_back(weight);
  std::sort(weights.begin(), weights.end());
  for (const UnixSeconds begin : {oldest, oldest + kDay, newest - kDay}) {
    for (const UnixSeconds end : {newest + seconds{1}, newest - kDay / 2, oldest + 3 * kDay}) {
      const Weights in_range = match(terms, begin, end);
      for (const double share : {0.0, 0.3, 0.6, 0.9, 0.99, 1.0}) {
        // Between two weights, so that rounding does not matter.
        const double min_weight =
            weights[static_cast<std::size_t>(share * static_cast<double>(weights.size() - 1))] - 1e-6;
        Weights expected;
        for (const auto& [name, weight] : in_range) {
          if (weight >= min_weight) expected.emplace(name, weight);
        }
        INFO("since " << unix_time(begin) << " until " << unix_time(end) << ", at least " << min_weight);
        check_equal(match(terms, begin, end, min_weight), expected);
      }
    }
  }
}

TEST_CASE_METHOD(Fixture, "items and postings follow each commit", "[recent]") {
  put({item("a", "red fox"), item("b", "blue sky", kNow - kDay), item("old", "red", kNow - 300 * kDay)});
  source = feed::make_search_source(settings.search);
  recent = RecentIndex();
  check_equal(match(kRed, UnixSeconds{}), search_xapian(kRed));

  SECTION("an item is added") { put({item("c", "red red", kNow - kDay)}); }
  SECTION("an item has other words at the same time") { put({item("b", "red sky", kNow - kDay)}); }
  SECTION("an item no longer has the word") { put({item("a", "white fox")}); }
  SECTION("an item moves within a week") { put({item("a", "red fox", kNow - 2 * kDay)}); }
  SECTION("an item moves to another week") { put({item("a", "red fox", kNow - 100 * kDay)}); }
  SECTION("an item is removed") {
    change([](search::SearchIndex& index) { require_ok(index.remove(ItemId::trusted("a"))); });
  }
  SECTION("another index has the same names of files") {
    std::filesystem::remove_all(folder / "index");
    put({item("a", "red red red"), item("b", "red", kNow - kDay), item("old", "red", kNow - 300 * kDay)});
  }
  SECTION("more items are added than it compares") {
    std::vector<items::Item> more(2500);
    for (std::size_t i = 0; i < more.size(); ++i)
      more[i] = item("m" + std::to_string(i), i % 3 == 0 ? "red" : "blue", kNow - seconds{i});
    put(more);
  }
  check_equal(match(kRed, UnixSeconds{}), search_xapian(kRed));
}

TEST_CASE_METHOD(Fixture, "only items published in the range match", "[recent]") {
  put({item("a", "red"), item("b", "red", kNow - seconds{10}), item("c", "red", kNow - seconds{20}),
       item("later", "red", kNow + seconds{5})});
  source = feed::make_search_source(settings.search);
  const Weights got = match(kRed, kNow - seconds{10}, kNow);
  REQUIRE(got.size() == 1);
  CHECK(got.contains("b"));
  put({item("d", "red", kNow - seconds{15}), item("e", "red", kNow - seconds{5})});  // added out of order
  CHECK(match(kRed, kNow - seconds{10}, kNow).size() == 2);
}

TEST_CASE_METHOD(Fixture, "an item that leaves the loaded time and returns is found", "[recent]") {
  put({item("a", "red", kNow - kDay), item("b", "red")});
  source = feed::make_search_source(settings.search);
  const UnixSeconds begin = kNow - 3 * kDay / 2;
  CHECK(match(kRed, begin).size() == 2);
  put({item("a", "red", kNow - 4 * kDay)});
  CHECK(match(kRed, begin).size() == 1);
  put({item("a", "red", kNow - kDay)});
  check_equal(match(kRed, begin), search_xapian(kRed));
}

TEST_CASE_METHOD(Fixture, "the newest items are in memory, up to a limit", "[recent]") {
  std::vector<items::Item> items(1600);
  for (std::size_t i = 0; i < items.size(); ++i)
    items[i] = item("i" + std::to_string(i), "red", kNow - seconds{static_cast<std::int64_t>(i) / 2 * 10});
  put(items);
  source = feed::make_search_source(settings.search);
  CHECK(load(kNow - seconds{100}) <= unix_time(kNow - seconds{100}));
  const std::int64_t since = load(UnixSeconds{});
  // Three quarters of the limit; two items of each second are both in memory.
  CHECK(since > unix_time(kNow - seconds{3750}));
  CHECK(since < unix_time(kNow - seconds{3730}));
  CHECK(load(UnixSeconds{}) == since);
  CHECK(match(kRed, UnixSeconds{seconds{since}}).size() == 750);

  std::vector<items::Item> more(300);  // beyond the limit: the oldest are dropped
  for (std::size_t i = 0; i < more.size(); ++i) more[i] = item("m" + std::to_string(i), "red");
  put(more);
  const std::int64_t later = load(UnixSeconds{});
  CHECK(later > since);
  CHECK(match(kRed, UnixSeconds{seconds{later}}).size() <= 750);
  CHECK(match(kRed, kNow).size() == 302);
}

TEST_CASE_METHOD(Fixture, "more items of one second than the limit are not in memory", "[recent]") {
  std::vector<items::Item> items(1000);
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = item("i" + std::to_string(i), "red");
  put(items);
  source = feed::make_search_source(settings.search);
  CHECK(load(UnixSeconds{}) == RecentIndex::kNone);
}

TEST_CASE_METHOD(Fixture, "a word that is too frequent in an item is not matched in memory", "[recent]") {
  items::Item repeated = item("a", "red");
  for (int i = 0; i < 20000; ++i) repeated.text += " red";
  put({repeated, item("b", "blue")});
  source = feed::make_search_source(settings.search);
  load(UnixSeconds{});
  CHECK_FALSE(recent.match(kRed, 0, unix_time(kNow) + 1, 0, nullptr).has_value());
  CHECK(match({{"blue", 1}}, UnixSeconds{}).size() == 1);
  put({item("a", "red")});
  check_equal(match(kRed, UnixSeconds{}), search_xapian(kRed));
}

TEST_CASE_METHOD(Fixture, "many items are loaded by several searches, also while they change", "[recent]") {
  std::vector<items::Item> items(10000);
  for (std::size_t i = 0; i < items.size(); ++i)
    items[i] = item("i" + std::to_string(i), i % 3 == 0 ? "red" : "blue", kNow - seconds{i});
  put(items);
  source = feed::make_search_source(settings.search);
  recent = RecentIndex();
  CHECK(load(UnixSeconds{}) == RecentIndex::kNone);
  items.resize(20);  // of those that are loaded last
  for (items::Item& each : items) each.title = "red red";
  put(items);
  change([](search::SearchIndex& index) { require_ok(index.remove(ItemId::trusted("i30"))); });
  CHECK(load(UnixSeconds{}) == RecentIndex::kNone);
  load(UnixSeconds{});
  check_equal(match(kRed, UnixSeconds{}), search_xapian(kRed));
}

TEST_CASE_METHOD(Fixture, "many items of a slice that has more than the limit are loaded, too", "[recent]") {
  std::vector<items::Item> items(7000);
  for (std::size_t i = 0; i < items.size(); ++i)
    items[i] = item("i" + std::to_string(i), "red", kNow - seconds{i});
  put(items);
  source = feed::make_search_source(settings.search);
  recent = RecentIndex({6000, 20000});
  CHECK(load(UnixSeconds{}) == RecentIndex::kNone);
  CHECK(load(UnixSeconds{}) == unix_time(kNow - seconds{4499}));  // three quarters of the limit
  CHECK(match(kRed, kNow - seconds{4499}).size() == 4500);
}

TEST_CASE_METHOD(Fixture, "a search loads a limited number of items, of all slices together", "[recent]") {
  std::vector<items::Item> items;
  for (int week = 0; week < 3; ++week) {
    for (int i = 0; i < 100; ++i) {
      const std::string id = "i" + std::to_string(100 * week + i);
      items.push_back(item(id, "red", kNow - week * search::kSliceSpan - seconds{i}));
    }
  }
  put(items);
  source = feed::make_search_source(settings.search);
  recent = RecentIndex({1000, 20000, 100});
  for (int week = 0; week < 3; ++week) {
    const std::int64_t since = unix_time(search::slice_start(kNow) - week * search::kSliceSpan);
    CHECK(load(UnixSeconds{}) == since);
    CHECK(recent.load_since(0) == since);  // a wider range of the same search
  }
  check_equal(match(kRed, UnixSeconds{}), search_xapian(kRed));
}

TEST_CASE_METHOD(Fixture, "a slice with more than twice as many items as the limit is not in memory",
                 "[recent]") {
  std::vector<items::Item> items(200);
  for (std::size_t i = 0; i < items.size(); ++i)
    items[i] = item("i" + std::to_string(i), "red", kNow - seconds{i});
  put(items);
  source = feed::make_search_source(settings.search);
  recent = RecentIndex({100, 20000});
  CHECK(load(kNow) != RecentIndex::kNone);
  put({item("one more", "red")});
  CHECK(load(kNow) == RecentIndex::kNone);
  change([](search::SearchIndex& index) { require_ok(index.remove(ItemId::trusted("i0"))); });
  CHECK(match(kRed, kNow).size() == 1);
}

TEST_CASE_METHOD(Fixture, "a changed slice is compared by the next search that needs it", "[recent]") {
  put({item("a", "red"), item("b", "red", kNow - 60 * kDay),
       item("c", "red", kNow - 60 * kDay - seconds{1})});
  source = feed::make_search_source(settings.search);
  recent = RecentIndex({1000, 20000, 1});
  load(UnixSeconds{});
  load(UnixSeconds{});
  const std::int64_t since = load(UnixSeconds{});
  CHECK(since < unix_time(kNow - 60 * kDay));
  const auto change_state = [&](const std::string& state) {
    const std::string name = source->slices().front().slice.folder_name();
    Xapian::WritableDatabase writer((folder / "index" / name).string());
    Xapian::Document document = writer.get_document(1);
    std::string old = document.get_value(search::kItemStateSlot);
    document.add_value(search::kItemStateSlot, state);
    writer.replace_document(1, document);
    writer.commit();
    return old;
  };
  const std::string state = change_state("");  // the slice could not be used
  CHECK(load(kNow - seconds{1}) <= unix_time(kNow));
  change_state(state);
  CHECK(load(UnixSeconds{}) == since);
  check_equal(match(kRed, UnixSeconds{}), search_xapian(kRed));
}

TEST_CASE_METHOD(Fixture, "an index without the items' states is not used", "[recent]") {
  put({item("a", "red")});
  source = feed::make_search_source(settings.search);
  source->database();
  Xapian::WritableDatabase writer((folder / "index" / source->slices().front().slice.folder_name()).string());
  Xapian::Document document = writer.get_document(1);
  document.remove_value(search::kItemStateSlot);
  writer.replace_document(1, document);
  writer.commit();
  CHECK(load(UnixSeconds{}) == RecentIndex::kNone);
}

TEST_CASE_METHOD(Fixture, "a search that is out of time leaves the memory usable", "[recent]") {
  std::vector<items::Item> items(700);
  for (std::size_t i = 0; i < items.size(); ++i)
    items[i] = item("i" + std::to_string(i), "red", kNow - seconds{i});
  put(items);
  source = feed::make_search_source(settings.search);
  load(UnixSeconds{});
  const search::SearchDeadline over(std::chrono::microseconds{1});
  CHECK_THROWS_AS(recent.match(kRed, 0, unix_time(kNow) + 1, 0, &over), search::SearchTimeout);
  check_equal(match(kRed, UnixSeconds{}), search_xapian(kRed));
}

TEST_CASE_METHOD(Fixture, "words that were not used for longest are forgotten", "[recent]") {
  std::vector<items::Item> items(700);
  for (std::size_t i = 0; i < items.size(); ++i)
    items[i] = item("i" + std::to_string(i), "red w" + std::to_string(i % 50), kNow - seconds{i});
  put(items);
  source = feed::make_search_source(settings.search);
  recent = RecentIndex({1000, 800});
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 50; ++i) {
      const std::vector<search::WeightedTerm> terms{{"red", 1}, {"w" + std::to_string(i), 1}};
      check_equal(match(terms, UnixSeconds{}), search_xapian(terms));
    }
  }
}

TEST_CASE_METHOD(Fixture, "a search holds at most twice the postings that later ones may find", "[recent]") {
  std::vector<items::Item> items(700);
  for (std::size_t i = 0; i < items.size(); ++i)
    items[i] = item("i" + std::to_string(i), "red green blue white", kNow - seconds{i});
  put(items);
  source = feed::make_search_source(settings.search);
  recent = RecentIndex({1000, 800});
  load(UnixSeconds{});
  const std::vector<search::WeightedTerm> terms{{"red", 1}, {"green", 1}, {"blue", 1}, {"white", 1}};
  CHECK_FALSE(recent.match(terms, 0, unix_time(kNow) + 1, 0, nullptr).has_value());
  check_equal(match(kRed, UnixSeconds{}), search_xapian(kRed));
}
