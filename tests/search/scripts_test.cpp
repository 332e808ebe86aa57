// Search in scripts other than Latin: what is found, and in which order.
#include <string>
#include <vector>

#include "tests/search/corpus.h"

using namespace freshet;
using namespace freshet::test;
using Ids = std::vector<std::string>;

namespace {

struct Fixture : IndexFixture {
  Ids found(const std::string& query) const { return search_ids(settings, query); }
};

std::string best(const Ids& found) { return found.empty() ? "nothing" : found.front(); }

}  // namespace

TEST_CASE_METHOD(Fixture,
                 "a query written without spaces finds titles with some of its words, better ones first",
                 "[search]") {
  write_index(settings, {item("today", "北京今日天气"), item("other", "上海新闻"), item("both", "北京天气"),
                         item("tokyo", "東京の天気予報"), item("korea", "한국 시장 전망"),
                         item("mate", "华为Mate90发布会")});
  CHECK(found("北京天气") == Ids{"both", "today"});
  CHECK(found("北京天气预报").size() == 2);
  CHECK(best(found("東京天気")) == "tokyo");
  CHECK(found("한국시장") == Ids{"korea"});
  CHECK(found("华为发布会") == Ids{"mate"});
  CHECK(found("北京天气怎么样") == Ids{"both", "today"});
  CHECK(found("京").size() == 3);
}

TEST_CASE_METHOD(Fixture, "an item with the characters of a run together ranks above one with them scattered",
                 "[search]") {
  items::Item together = item("together", "通知", kNow - kDay), scattered = item("scattered", "通知", kNow);
  together.text = "关于春节放假安排的说明和其他事项";
  scattered.text = "春节快乐。节放。放假。假安。安排。排的事项";
  write_index(settings, {together, scattered, item("other", "天气")});
  CHECK(found("春节放假安排") == Ids{"together", "scattered"});
}

TEST_CASE_METHOD(Fixture, "operators hold where scripts alternate", "[search]") {
  write_index(settings, {item("temp", "東京 求人 派遣 Python"), item("full", "東京 求人 正社員 Python")});
  CHECK(found("東京 Python 求人 Django -派遣") == Ids{"full"});
  CHECK(found("+派遣 東京") == Ids{"temp"});
  CHECK(found("\"求人 正社員\"") == Ids{"full"});
  CHECK(found("\"正社員Python\"") == Ids{"full"});
  CHECK(found("\"求人 Python\"").empty());
  CHECK(found("-派遣 +東京") == Ids{"full"});
}

TEST_CASE_METHOD(Fixture, "a character's width and compatibility forms do not matter", "[search]") {
  write_index(settings,
              {item("shares", "Ａ股三大指数收涨"), item("usb", "ＵＳＢ hub"), item("data", "ﾃﾞｰﾀ分析"),
               item("money", "ﬁnance"), item("nfd", "cafe\u0301"), item("computer", "電腦組裝")});
  for (const char* query : {"Ａ股", "A股", "a股"}) CHECK(found(query) == Ids{"shares"});
  CHECK(found("USB") == Ids{"usb"});
  CHECK(found("データ") == Ids{"data"});
  CHECK(found("finance") == Ids{"money"});
  CHECK(found("caf\u00e9") == Ids{"nfd"});
  CHECK(found("电脑") == Ids{"computer"});
}

TEST_CASE_METHOD(Fixture, "other spellings of a word are found after the exact one, in both directions",
                 "[search]") {
  const std::vector<std::pair<std::string, std::string>> spellings{
      {"München", "munchen"}, {"phở", "pho"},         {"élection", "election"},    {"ёж", "еж"},
      {"οδός", "οδος"},       {"ısırgan", "isirgan"}, {"smørrebrød", "smorrebrod"}};
  for (const auto& [accented, plain] : spellings) {
    INFO(accented);
    Settings own;
    const TemporaryFolder own_folder;
    own.search.index = own_folder / "index";
    // The newer one would come first if both weighed the same.
    write_index(own,
                {item("accented", accented, kNow - seconds{10}), item("plain", plain), item("x", "other")});
    CHECK(search_ids(own, accented) == Ids{"accented", "plain"});
    write_index(own, {item("accented", accented), item("plain", plain, kNow - seconds{10})});
    CHECK(search_ids(own, plain) == Ids{"plain", "accented"});
    CHECK(search_ids(own, "+" + plain + " zzz").size() == 2);
  }
  write_index(settings, {item("sz", "Große Straße"), item("sigma", "ΟΔΟΣ"), item("summer", "L'été indien"),
                         item("peace", "שָׁלוֹם עולם"), item("prayer", "صـــلاة"), item("book", "كِتَاب جديد")});
  CHECK(found("strasse") == Ids{"sz"});
  CHECK(found("οδος") == Ids{"sigma"});
  CHECK(found("été") == Ids{"summer"});
  CHECK(found("ete") == Ids{"summer"});
  CHECK(found("l’été") == Ids{"summer"});
  CHECK(found("שלום") == Ids{"peace"});
  CHECK(found("صلاة") == Ids{"prayer"});
  CHECK(found("كتاب") == Ids{"book"});
}

TEST_CASE_METHOD(Fixture, "the exact spelling comes first however frequent it is", "[search]") {
  std::vector<items::Item> items{item("accented", "élan vital")};
  for (int i = 0; i < 300; ++i)
    items.push_back(item("plain" + std::to_string(i), "elan vital", kNow - seconds{i}));
  for (int i = 0; i < 300; ++i) items.push_back(item("other" + std::to_string(i), "something else"));
  write_index(settings, items);
  feed::BlockingRecall recall(settings);
  const Ids all = ids(run_search(recall, {"elan", {}, kNow, 400}));
  REQUIRE(all.size() == 301);
  CHECK(all.back() == "accented");
}

TEST_CASE_METHOD(Fixture,
                 "words inside Thai, Lao, Khmer and Burmese text are found, and a long title by itself",
                 "[search]") {
  const std::string title = "กรุงเทพมหานครเปิดให้บริการรถไฟฟ้าสายใหม่ล่าสุดแล้ววันนี้";
  write_index(settings, {item("thai", title), item("lao", "ຂ້ອຍມັກອ່ານຫນັງສືພິມ"), item("khmer", "ខ្ញុំចូលចិត្តអានសៀវភៅ"),
                         item("burmese", "ကျွန်တော်စာအုပ်ဖတ်နေသည်"), item("other", "ฉันชอบแมว")});
  CHECK(best(found(title)) == "thai");
  CHECK(found("รถไฟฟ้า") == Ids{"thai"});
  CHECK(found("บริการ") == Ids{"thai"});
  CHECK(found("ອ່ານ") == Ids{"lao"});
  CHECK(found("សៀវភៅ") == Ids{"khmer"});
  CHECK(found("စာအုပ်") == Ids{"burmese"});
  // No word of the dictionary, but part of the text.
  CHECK(found("งเทพมหานค") == Ids{"thai"});
}

TEST_CASE_METHOD(Fixture, "tags, authors and emoji are found, titles first", "[search]") {
  items::Item text = item("text", "a"), author = item("author", "b"),
              tag = item("tag", "c", kNow, {"New York"}), title = item("title", "york");
  text.text = "york";
  author.author = "York";
  write_index(settings,
              {text, author, tag, title, item("party", "Party 🎉"), item("tagged", "d", kNow, {"天气"})});
  CHECK(found("york") == Ids{"title", "tag", "author", "text"});
  CHECK(found("\"new york\"") == Ids{"tag"});
  CHECK(found("🎉") == Ids{"party"});
  CHECK(found("天气") == Ids{"tagged"});
}

TEST_CASE_METHOD(Fixture, "interests in any script find similar items", "[search]") {
  write_index(settings,
              {item("liked", "電腦組裝教學", kNow - 5 * kDay), item("similar", "组装电脑", kNow - 9 * kDay),
               item("thai", "ภาษาไทย", kNow), item("other", "天气", kNow)});
  feed::BlockingRecall recall(settings);
  const auto found = run_search(recall, {{}, {{ItemId::trusted("liked"), 1.0}}, kNow, 10});
  CHECK(ids(found)[1] == "similar");
}

TEST_CASE_METHOD(Fixture,
                 "256 KiB of one script, of marks or of overrides is indexed, and a full query answered",
                 "[search]") {
  std::vector<items::Item> items;
  for (const std::string unit : {"北", "ภาษา", "\u0301", "\u202E", "a北", "'", "😀", "က"}) {
    items.push_back(item("i" + std::to_string(items.size()), "title"));
    while (items.back().text.size() + unit.size() <= 256 * 1024) items.back().text += unit;
  }
  write_index(settings, items);
  for (const std::string unit :
       {"北", "ภ", "ภาษา", "\u0301", "+", "-", "\"", "a北", "\"a ", "+北 -a ", "😀"}) {
    std::string query;
    while (query.size() + unit.size() <= 512) query += unit;
    feed::BlockingRecall recall(settings);
    INFO(query);
    const auto found = recall.search({query, {}, kNow, 500});
    CHECK((found || found.error().reason == "search_timeout"));
  }
}
