// Recall as seen by its callers: texts, interests, and an index that changes during searches.
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "core/feed/recall_source.h"
#include "core/search/index_folder.h"
#include "core/search/query_parser.h"
#include "tests/search/corpus.h"
#include "tests/support/error_of.h"
#include "tests/support/shared_files.h"

using namespace freshet;
using namespace freshet::test;
using Ids = std::vector<std::string>;

namespace {

// Folders of time slices, in use or not.
std::size_t count_folders(const Settings& settings) {
  std::size_t count = 0;
  for (const auto& each : std::filesystem::directory_iterator(settings.search.index)) {
    count += each.is_directory() ? 1U : 0U;
  }
  return count;
}

// Waits for `done()` for up to 20 s.
template <class Condition>
bool eventually(Condition done) {
  for (int i = 0; i < 2000; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace

TEST_CASE_METHOD(IndexFixture, "Chinese and Japanese titles are found by any two adjacent characters",
                 "[search]") {
  write_index(settings, {item("zh", "北京大学发布新研究"), item("ja", "東京タワーの夜景"),
                         item("en", "Tower of London")});
  CHECK(search_ids(settings, "大学") == Ids{"zh"});
  CHECK(search_ids(settings, "学发") == Ids{"zh"});
  CHECK(search_ids(settings, "東京") == Ids{"ja"});
  CHECK(search_ids(settings, "夜景") == Ids{"ja"});
  CHECK(search_ids(settings, "タワ") == Ids{"ja"});
  CHECK(search_ids(settings, "tower") == Ids{"en"});
  CHECK(search_ids(settings, "北夜").empty());
}

TEST_CASE_METHOD(IndexFixture, "a text is found by its readable words, not by its markup", "[search]") {
  items::Item html = item("html", "page"), markdown = item("markdown", "page");
  html.text =
      "<p class='a'><span>Hello&nbsp;wor</span>ld <a href='https://example.org'>你<b>好</b>吗</a></p>";
  html.text_format = items::TextFormat::kHtml;
  markdown.text = "Hello **wor**ld [你**好**吗](https://example.org)";
  markdown.text_format = items::TextFormat::kMarkdown;
  write_index(settings, {html, markdown});
  for (const char* word : {"hello", "world", "你好", "好吗"}) {
    INFO(word);
    CHECK(search_ids(settings, word).size() == 2);
  }
  for (const char* markup : {"href", "class", "span", "nbsp", "https", "example"}) {
    INFO(markup);
    CHECK(search_ids(settings, markup).empty());
  }
}

TEST_CASE_METHOD(IndexFixture, "a query may alternate between scripts with and without spaces", "[search]") {
  write_index(settings, {item("price", "手机的价格"), item("phone", "iphone"), item("other", "fox")});
  feed::BlockingRecall recall(settings);
  for (const char* text : {"手机 iphone 价格 2024", "工 a 学 iphone 手机", "手机\tiphone\n价格 (y"}) {
    INFO(text);
    const auto found = recall.search({text, {}, kNow, 10});
    REQUIRE(found.has_value());
    CHECK(found->candidates.size() == 2);
  }
}

TEST_CASE_METHOD(IndexFixture, "words are alternatives, and phrases, + and - have their usual meaning",
                 "[search]") {
  write_index(settings,
              {item("ab", "red fox"), item("ba", "fox red"), item("a", "red hen"), item("b", "grey fox")});
  CHECK(search_ids(settings, "red fox").size() == 4);
  CHECK(search_ids(settings, "\"red fox\"") == Ids{"ab"});
  CHECK(search_ids(settings, "fox -red") == Ids{"b"});
  CHECK(search_ids(settings, "+hen fox") == Ids{"a"});
  CHECK(search_ids(settings, "RED hen") == search_ids(settings, "red hen"));
}

TEST_CASE_METHOD(IndexFixture, "invalid syntax is plain text, including wildcards and operators",
                 "[search]") {
  write_index(settings,
              {item("a", "red fox"), item("b", "redder than redder"), item("c", "not or and near")});
  for (const char* text : {"red AND", "AND red", "(red", "red)", "\"red", "-", "+", "red NEAR/", "red XOR",
                           "red:", "\"", "-red fox \"", "red ~", "((((red", "red*"}) {
    feed::BlockingRecall recall(settings);
    INFO(text);
    CHECK(recall.search({text, {}, kNow, 10}).has_value());
  }
  CHECK(search_ids(settings, "red*") == Ids{"a"});       // no expansion to "redder"
  CHECK(search_ids(settings, "red AND c").size() == 2);  // "and" is a word of c
  CHECK(search_ids(settings, "!?…").empty());
}

TEST_CASE_METHOD(IndexFixture, "only the first 512 bytes of a text are searched for", "[search]") {
  write_index(settings, {item("a", "red fox"), item("b", "blue sky")});
  const std::string filler = std::string(500, '?') + " ";
  CHECK(search_ids(settings, filler + "red " + std::string(400, '?') + " blue") == Ids{"a"});
  CHECK(search_ids(settings, std::string(512, '?') + " red").empty());
  // The text is cut before a character, never within one.
  const auto parsed = [](const std::string& text) {
    return feed::text_query(text, Xapian::Stem(), Xapian::Database()).query.get_description();
  };
  for (const std::string character : {"é", "文"}) {
    for (std::size_t room = 0; room <= character.size(); ++room) {
      const std::string before = std::string(510 - room, '?') + " x";
      INFO(room << " bytes for " << character);
      CHECK(parsed(before + character) == parsed(room < character.size() ? "x" : "x" + character));
    }
  }
}

TEST_CASE("only a limited number of words, terms, phrases and words per phrase are used", "[search]") {
  const auto parsed = [](const std::string& text) {
    return feed::text_query(text, Xapian::Stem(), Xapian::Database()).query;
  };
  std::string words, all;
  for (std::size_t i = 0; i < 40; ++i) {
    words += "w" + std::to_string(i) + " ";
    if (i < search::kMaxQueryWords) all += (i ? " OR w" : "w") + std::to_string(i);
  }
  CHECK(parsed(words).get_description() == "Query((" + all + "))");
  CHECK(parsed("\"a b c d e f g h\"").get_description() ==
        "Query(((a PHRASE 6 b PHRASE 6 c PHRASE 6 d PHRASE 6 e PHRASE 6 f) AND g AND h))");
  CHECK(parsed("\"a b\" c-d \"e f\" \"g h\"").get_description() ==
        "Query((c OR d OR (a PHRASE 2 b) OR (e PHRASE 2 f) OR (g AND h)))");
  CHECK(parsed("+a b -c").get_description() == "Query(((a AND_MAYBE b) AND_NOT c))");
  std::string run;
  for (int i = 0; i < 85; ++i) run += "\u8bed\u6587";
  CHECK(parsed(run).get_length() == feed::kMaxQueryTerms);
  CHECK(parsed("\"" + run + "\"").get_length() == feed::kMaxQueryTerms);
}

TEST_CASE_METHOD(IndexFixture, "a search for a phrase that is nearly everywhere ends with its budget",
                 "[search]") {
  std::vector<items::Item> items;
  std::string text;
  for (int i = 0; i < 300; ++i)
    text += "b filler a ";  // both words, hundreds of times, never adjacent in this order
  for (int i = 0; i < 4000; ++i) {
    items.push_back(item("i" + std::to_string(i), "title", kNow - seconds{i * 60}));
    items.back().text = text;
  }
  write_index(settings, items);
  const auto cost = [&] {
    feed::BlockingRecall recall(settings);
    const auto began = search::thread_cpu_time();
    const auto found = recall.search({"\"b a\"", {}, kNow, 500});
    if (!found) CHECK(found.error().reason == "search_timeout");
    return std::pair(search::thread_cpu_time() - began, found.has_value());
  };
  settings.recall.budget = milliseconds(60000);
  const auto [whole, found] = cost();
  REQUIRE(found);
  settings.recall.budget = milliseconds(1);
  const auto [bounded, found_in_time] = cost();
  INFO(whole.count() << " us without a bound, " << bounded.count() << " with one of 1 ms");
  CHECK_FALSE(found_in_time);
  CHECK(bounded < whole / 3);
}

TEST_CASE_METHOD(IndexFixture, "a search that runs out of budget returns what it found, not exhausted",
                 "[search]") {
  std::vector<items::Item> items;
  for (int i = 0; i < 20000; ++i)
    items.push_back(item("i" + std::to_string(i), "sun", kNow - seconds{i * 600}));
  write_index(settings, items);
  settings.recall.budget = milliseconds(1);
  feed::BlockingRecall recall(settings);
  // All of them: no range ends the search early, and one millisecond is not enough.
  const auto part = recall.search({"sun", {}, kNow, 30000});
  if (part) {
    CHECK_FALSE(part->exhausted);
    CHECK(part->candidates.size() < items.size());
  } else {
    CHECK(error_of(part).reason == "search_timeout");
  }
  CHECK((part || error_of(part).reason == "search_timeout"));
}

TEST_CASE_METHOD(IndexFixture, "no string of the BLNS corpus is an error or matches another", "[search]") {
  const auto list = shared_path("corpora/BLNS/blns.txt");
  if (!list) return;
  write_index(settings, {item("a", "Quetzalcoatlus")});
  feed::BlockingRecall recall(settings);
  std::size_t tried = 0;
  std::string line;
  std::ifstream lines(*list);
  while (std::getline(lines, line)) {
    if (line.empty()) continue;
    line.resize(std::min(line.size(), search::kMaxQueryBytes));
    INFO(line);
    const auto recalled = recall.search({line, {}, kNow, 10});
    REQUIRE(recalled.has_value());
    for (const std::string& id : ids(*recalled)) REQUIRE(id == "naughty");  // the previous line, at most
    write_index(settings, {item("naughty", line)});
    ++tried;
  }
  CHECK(tried > 400);
}

TEST_CASE_METHOD(IndexFixture, "items similar to interests come first, all others follow, newest first",
                 "[search]") {
  write_index(settings, {item("liked", "deep sea fishing", kNow - 9 * kDay, {"sea"}),
                         item("tag", "harbour news", kNow - kDay, {"sea"}),
                         item("word", "fishing rods", kNow - 2 * kDay), item("new", "tax law", kNow),
                         item("old", "tax law", kNow - 90 * kDay)});
  feed::BlockingRecall recall(settings);
  const feed::RecallResult recalled = run_search(recall, {{}, {{ItemId::trusted("liked"), 1.0}}, kNow, 10});
  CHECK(recalled.exhausted);
  REQUIRE(recalled.candidates.size() == 5);
  CHECK(recalled.candidates[3].item.str() == "new");
  CHECK(recalled.candidates[3].score == 0);
  CHECK(recalled.candidates[4].item.str() == "old");
  for (int i = 0; i < 3; ++i) CHECK(recalled.candidates[static_cast<std::size_t>(i)].score > 0);
}

TEST_CASE_METHOD(IndexFixture, "an embargoed item as an interest is like an unknown one", "[search]") {
  write_index(settings,
              {item("embargoed", "deep sea fishing", wall_now() + kDay, {"sea"}),
               item("alike", "deep sea fishing", kNow - kDay, {"sea"}), item("new", "tax law", kNow)});
  feed::BlockingRecall recall(settings);
  const auto search = [&](const char* interest) {
    return run_search(recall, {{}, {{ItemId::trusted(interest), 1.0}}, kNow, 10});
  };
  CHECK(ids(search("nobody")) == Ids{"new", "alike"});
  CHECK(ids(search("embargoed")) == Ids{"new", "alike"});
  CHECK(search("embargoed").candidates.back().score == 0);
}

TEST_CASE_METHOD(IndexFixture, "without text or interests, or with unknown ones, the newest items come first",
                 "[search]") {
  write_index(settings,
              {item("old", "a", kNow - 9 * kDay), item("new", "b", kNow), item("mid", "c", kNow - kDay)});
  feed::BlockingRecall recall(settings);
  CHECK(ids(run_search(recall, {{}, {}, kNow, 2})) == Ids{"new", "mid"});
  CHECK(ids(run_search(recall, {{}, {{ItemId::trusted("nobody"), 1.0}}, kNow, 9})) ==
        Ids{"new", "mid", "old"});
  CHECK_FALSE(run_search(recall, {{}, {}, kNow, 2}).exhausted);
  CHECK(run_search(recall, {{}, {}, kNow, 3}).exhausted);
}

TEST_CASE_METHOD(IndexFixture, "a missing index is unavailable, an empty one has no results", "[search]") {
  feed::BlockingRecall recall(settings);
  const auto nothing = recall.search({"whale", {}, kNow, 10});
  REQUIRE_FALSE(nothing.has_value());
  CHECK(error_of(nothing).code == ErrorCode::kUnavailable);
  CHECK(error_of(nothing).reason == "index_unavailable");
  open_index(settings);
  const feed::RecallResult recalled = run_search(recall, {"whale", {}, kNow, 10});
  CHECK(recalled.candidates.empty());
  CHECK(recalled.exhausted);
}

TEST_CASE_METHOD(IndexFixture, "an open searcher finds a new item once it is committed", "[search]") {
  write_index(settings, {item("a", "whale")});
  feed::BlockingRecall recall(settings);
  CHECK(run_search(recall, {"whale", {}, kNow, 10}).candidates.size() == 1);
  write_index(settings,
              {item("b", "whale"), item("c", "whale", kNow - 200 * kDay)});  // the latter in a new time slice
  CHECK(run_search(recall, {"whale", {}, kNow, 10}).candidates.size() == 3);
  write_index(settings, {item("d", "whale")});  // the same time slices
  CHECK(run_search(recall, {"whale", {}, kNow, 10}).candidates.size() == 4);
}

TEST_CASE_METHOD(IndexFixture,
                 "an interest matches once its item is committed, even if it was searched for before",
                 "[search]") {
  write_index(settings, {item("like", "news", kNow, {"sea"})});
  feed::BlockingRecall recall(settings);
  const feed::RecallQuery query{{}, {{ItemId::trusted("late"), 1.0}}, kNow, 10};
  CHECK(run_search(recall, query).candidates.front().score == 0);
  write_index(settings, {item("late", "harbour", kNow, {"sea"})});
  CHECK(run_search(recall, query).candidates.front().score > 0);
}

// The recorder's pause between commits (recorder::kIndexCommitInterval) relies on this: a search
// survives one commit, but not two.
TEST_CASE_METHOD(IndexFixture, "a search that starts with the newest commit survives the next", "[search]") {
  RandomItems random(7);
  std::vector<items::Item> items(3000);
  for (items::Item& each : items) each = random.next();
  write_index(settings, items);
  const auto read_all = [](Xapian::Database& database) {
    Xapian::Enquire enquire(database);
    enquire.set_query(Xapian::Query::MatchAll);
    const Xapian::MSet all = enquire.get_mset(0, database.get_doccount());
    std::size_t bytes = 0;
    for (auto each = all.begin(); each != all.end(); ++each) {
      const Xapian::Document document = each.get_document();
      for (auto term = document.termlist_begin(); term != document.termlist_end(); ++term)
        bytes += (*term).size();
    }
    return bytes;
  };
  const auto rewrite = [&] {
    for (items::Item& each : items) each.title += " again";
    write_index(settings, items);
  };
  const auto source = feed::make_search_source(settings.search);
  Xapian::Database& begun = source->database();
  rewrite();
  CHECK(read_all(begun) > 0);
  rewrite();
  CHECK_THROWS_AS(read_all(begun), Xapian::DatabaseModifiedError);
  CHECK(read_all(source->database()) > 0);
}

TEST_CASE_METHOD(IndexFixture, "searches work while the writer commits, moves and merges without pause",
                 "[search]") {
  RandomItems random(5);
  std::vector<items::Item> items(300);
  for (items::Item& each : items) each = random.next();
  items.push_back(item("constant", "constant"));
  write_index(settings, items);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    auto index = search::SearchIndex::open(settings.search);
    while (!stop) {
      for (int i = 0; i < 20; ++i) {
        items::Item any = random.next();
        any.id = ItemId::trusted("item" + std::to_string(random.below(400)));
        static_cast<void>((*index)->put(any));
      }
      static_cast<void>((*index)->commit());
    }
  });
  feed::BlockingRecall recall(settings);
  bool all_found = true;
  for (int i = 0; i < 1500; ++i) {
    const auto recalled = recall.search({"constant", {}, kNow, 10});
    all_found = all_found && recalled && recalled->candidates.size() == 1;
    all_found = all_found && recall.search({{}, {}, kNow, 100}).has_value();
  }
  stop = true;
  writer.join();
  CHECK(all_found);
}

TEST_CASE_METHOD(IndexFixture, "a match whose values are missing fails only its own search", "[search]") {
  write_index(settings, {item("a", "whale")});
  feed::BlockingRecall recall(settings);
  CHECK(run_search(recall, {"whale", {}, kNow, 10}).candidates.size() == 1);
  const search::IndexFolder index(settings.search.index);
  for (const std::string& key : {std::string(), std::string("short")}) {
    {
      Xapian::WritableDatabase partition(index.path_of(index.slices()->front()), Xapian::DB_OPEN);
      Xapian::Document torn = partition.get_document(1);
      torn.add_value(search::kOrderSlot, key);
      partition.replace_document(1, torn);
      partition.commit();
    }
    for (const std::string text : {"whale", ""}) {
      CHECK(eventually([&] { return !recall.search({text, {}, kNow, 10}); }));
      const auto none = recall.search({text, {}, kNow, 10});
      REQUIRE_FALSE(none);
      CHECK(error_of(none).reason == "index_unavailable");
    }
  }
}

TEST_CASE_METHOD(IndexFixture, "a damaged file of the index fails searches until it is restored",
                 "[search]") {
  RandomItems random(13);
  std::vector<items::Item> items(3000);
  for (items::Item& each : items) each = random.next();
  write_index(settings, items);
  const std::vector<feed::RecallQuery> queries{
      {"w1 w2", {}, kNow, 50}, {{}, {{items.front().id, 1.0}}, kNow, 50}, {{}, {}, kNow, 50}};
  feed::BlockingRecall open(settings);
  std::vector<Ids> expected;
  for (const auto& query : queries) expected.push_back(ids(run_search(open, query)));
  const search::IndexFolder index(settings.search.index);
  // The newest of several slices, which every query reads.
  const std::filesystem::path slice = index.path_of(index.slices()->back());
  const auto search_all = [&](feed::BlockingRecall& recall, bool must_fail) {
    for (std::size_t i = 0; i < queries.size(); ++i) {
      const auto found = recall.search(queries[i]);
      CHECK(
          (found ? !must_fail && ids(*found) == expected[i] : error_of(found).reason == "index_unavailable"));
    }
  };
  for (const std::string name :
       {"postlist.glass", "termlist.glass", "docdata.glass", "position.glass", "iamglass"}) {
    INFO(name);
    const std::filesystem::path file = slice / name;
    if (name == "docdata.glass" && !std::filesystem::exists(file)) continue;  // an empty table has no file
    const auto size = std::filesystem::file_size(file);
    std::filesystem::copy_file(file, folder / "copy");
    if (name == "iamglass")
      std::ofstream(file) << std::string(size, 'x');
    else
      std::filesystem::resize_file(file, size / 2);
    feed::BlockingRecall fresh(settings);
    search_all(fresh, name == "postlist.glass" || name == "iamglass");
    search_all(open, false);
    std::filesystem::rename(folder / "copy", file);
    for (feed::BlockingRecall* each : {&fresh, &open})
      for (std::size_t i = 0; i < queries.size(); ++i)
        CHECK(ids(run_search(*each, queries[i])) == expected[i]);
  }
}

TEST_CASE_METHOD(IndexFixture,
                 "a rebuild does not disturb searches, is swapped in atomically and releases the writer",
                 "[search]") {
  const auto index = open_index(settings);
  for (int i = 0; i < 50; ++i)
    require_ok(index->put(item("old" + std::to_string(i), "whale", kNow - i * kDay)));
  require_ok(index->commit());
  feed::BlockingRecall recall(settings);
  CHECK(run_search(recall, {"whale", {}, kNow, 100}).candidates.size() == 50);
  {
    auto rebuild = search::IndexRebuild::start(settings.search);
    REQUIRE(rebuild.has_value());
    CHECK(error_of(search::IndexRebuild::start(settings.search)).reason == "index_locked");
    for (int i = 0; i < 20; ++i)
      require_ok((*rebuild)->put(item("new" + std::to_string(i), "whale", kNow - i * kDay)));
    items::Item hidden = item("hidden", "whale");
    hidden.hidden = true;
    require_ok((*rebuild)->put(hidden));
    CHECK((*rebuild)->documents() == 20);
    CHECK(error_of(index->put(item("late", "whale"))).reason == "index_locked");
    CHECK(run_search(recall, {"whale", {}, kNow, 100}).candidates.size() == 50);
    require_ok((*rebuild)->finish());
  }
  CHECK(eventually([&] { return run_search(recall, {"whale", {}, kNow, 100}).candidates.size() == 20; }));
  require_ok(index->put(item("late", "whale")));
  require_ok(index->commit());
  CHECK(index->documents() == 21);
  CHECK(eventually([&] { return run_search(recall, {"whale", {}, kNow, 100}).candidates.size() == 21; }));
  CHECK(count_folders(settings) == search::IndexFolder(settings.search.index).slices()->size());
}

TEST_CASE_METHOD(IndexFixture, "an abandoned rebuild leaves the old index", "[search]") {
  write_index(settings, {item("a", "whale")});
  {
    auto rebuild = search::IndexRebuild::start(settings.search);
    require_ok((*rebuild)->put(item("b", "whale")));
    CHECK(count_folders(settings) == 2);
  }
  CHECK(count_folders(settings) == 1);
  CHECK(search_ids(settings, "whale") == Ids{"a"});
  write_index(settings, {item("c", "whale")});
  CHECK(search_ids(settings, "whale").size() == 2);
}

TEST_CASE_METHOD(IndexFixture, "interests are exact in catalogues of one kind of item", "[search]") {
  const auto make = [&](auto describe) {
    std::vector<items::Item> items(600);
    for (std::size_t i = 0; i < items.size(); ++i) {
      items[i] = item("i" + std::to_string(i), "", kNow - seconds{static_cast<std::int64_t>(i) * 3000});
      describe(items[i]);
    }
    write_index(settings, items);
  };
  SECTION("all have the same words") {
    make([](items::Item& each) { each.title = "red fox"; });
  }
  SECTION("all have the same second") {
    make([](items::Item& each) {
      each.title = "fox " + each.id.str();
      each.published_at = kNow;
    });
  }
  SECTION("none has words") {
    make([](items::Item&) {});
  }
  SECTION("one has 100,000 words") {
    make([](items::Item& each) {
      each.title = "fox " + each.id.str();
      if (each.id.view() != "i7") return;
      for (int i = 0; i < 100000; ++i) each.text += i % 2 == 0 ? "fox " : "ox ";
    });
  }
  const auto source = feed::make_search_source(settings.search);
  const feed::GaussDecay decay(settings.recall);
  std::vector<feed::Interest> interests;
  for (int i = 0; i < 500; ++i) interests.push_back({ItemId::trusted("gone" + std::to_string(i)), 1.0});
  for (const char* const liked : {"none", "i3"}) {
    interests.front().item = ItemId::trusted(liked);
    const auto terms = feed::InterestTerms().weigh(source->database(), interests, 0.02);
    const auto all = brute_force_search(source->database(), feed::any_of(terms), false, decay, kNow, 1);
    feed::BlockingRecall recall(settings);
    feed::RecallQuery query{{}, interests, kNow, 50};
    query.interest_weight = 0.02;
    const feed::RecallResult got = run_search(recall, query);
    REQUIRE(got.candidates.size() == 50);
    for (std::size_t i = 0; i < got.candidates.size(); ++i) {
      INFO(liked << " at " << i);
      CHECK(got.candidates[i].item == all[i].item);
      CHECK(got.candidates[i].score == Approx(all[i].score).epsilon(1e-9));
    }
  }
}

TEST_CASE("cached newest items are valid from their time on, or only at that time if items are future-dated",
          "[search]") {
  feed::NewestItems known;
  known.items.resize(3);
  known.as_of = kNow;
  CHECK(known.is_valid_for(kNow, 3));
  CHECK(known.is_valid_for(kNow + seconds{1}, 2));
  CHECK_FALSE(known.is_valid_for(kNow - seconds{1}, 3));  // newer items must not be shown yet
  CHECK_FALSE(known.is_valid_for(kNow, 4));
  known.complete = true;
  CHECK(known.is_valid_for(kNow, 4));
  known.has_future_items = true;
  CHECK(known.is_valid_for(kNow, 3));
  CHECK_FALSE(known.is_valid_for(kNow + seconds{1}, 3));
}

TEST_CASE("the newest items are cached, but no longer than they are valid", "[search]") {
  const TemporaryFolder folder;
  Settings settings;
  settings.search.index = folder / "index";
  const bool ahead = GENERATE(false, true);  // are there items dated after kNow?
  RandomItems random(11);
  const auto next = [&] {
    items::Item made = random.next();
    if (!ahead) made.published_at = std::min(made.published_at, kNow);
    return made;
  };
  std::vector<items::Item> known(300);
  for (items::Item& each : known) each = next();
  write_index(settings, known);
  const auto index = open_index(settings);
  feed::BlockingRecall recall(settings);
  UnixSeconds now = kNow;
  const auto step = [&] { return seconds{static_cast<std::int64_t>(random.below(400000))}; };
  for (int round = 0; round < 200; ++round) {
    switch (random.below(6)) {
      case 0:
        known.push_back(next());
        if (ahead && random.below(2) == 0) known.back().published_at = now + step();
        require_ok(index->put(known.back()));
        break;
      case 1:
        require_ok(index->remove(known[random.below(known.size())].id));
        break;
      case 2:
        now += step();
        break;
      case 3:
        now -= step();
        break;
      default:
        break;
    }
    require_ok(index->commit());
    const feed::RecallQuery query{{}, {}, now, 1 + random.below(400)};
    feed::BlockingRecall fresh(settings);
    const feed::RecallResult got = run_search(recall, query), is = run_search(fresh, query);
    INFO("round " << round << ", size " << query.size);
    REQUIRE(ids(got) == ids(is));
    REQUIRE(got.exhausted == is.exhausted);
  }
}

TEST_CASE("results for interests are the same with and without cached newest items", "[search]") {
  const TemporaryFolder folder;
  Settings settings;
  settings.search.index = folder / "index";
  RandomItems random(12);
  std::vector<items::Item> items(400);
  for (items::Item& each : items) each = random.next();
  write_index(settings, items);
  const auto source = feed::make_search_source(settings.search);
  const feed::GaussDecay decay(settings.recall);
  feed::NewestItems newest;
  for (int round = 0; round < 100; ++round) {
    const Xapian::Query terms(random.below(3) == 0 ? "nowhere" : "w" + std::to_string(random.below(9)));
    const std::size_t size = 1 + random.below(450);
    const auto searched = [&](feed::NewestItems* known) {
      return feed::ExactTop(source->database(), {terms, false}, decay, kNow, size, nullptr, known).search();
    };
    const feed::RecallResult got = searched(&newest), is = searched(nullptr);
    INFO("round " << round << ", size " << size);
    REQUIRE(ids(got) == ids(is));
    REQUIRE(got.exhausted == is.exhausted);
  }
  // The cache is used instead of another search.
  REQUIRE(newest.items.size() > 20);
  newest.items.front().item = ItemId::trusted("remembered");
  const auto best = feed::ExactTop(source->database(), {}, decay, kNow, 10, nullptr, &newest).search();
  CHECK(best.candidates.front().item.str() == "remembered");
}
