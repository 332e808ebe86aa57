#include "core/model/content.h"

#include <algorithm>

#include "core/training/content_neighbours.h"
#include "tests/model/fixture.h"
#include "tests/support/shared_files.h"

using namespace freshet;
using namespace freshet::model;
using namespace freshet::recommend;
using namespace freshet::training;
using namespace freshet::test;

namespace {

std::vector<std::uint64_t> hashes(std::string_view title, const std::vector<std::string>& tags = {}) {
  std::vector<std::uint64_t> out;
  for (const TermCount& term : content_terms(title, "", tags)) out.push_back(term.hash);
  return out;
}

bool contains(const std::vector<std::uint64_t>& of, const std::vector<std::uint64_t>& all) {
  return std::includes(of.begin(), of.end(), all.begin(), all.end());
}

}  // namespace

TEST_CASE("words ignore case, punctuation and order", "[model]") {
  CHECK(hashes("Hello, World!") == hashes("world HELLO"));
  CHECK(hashes("ÄRGER Ωmega МИР") == hashes("ärger ωmega мир"));
  CHECK(hashes("hello") != hashes("hellos"));
  CHECK(hashes("").empty());
  CHECK(hashes("… — !? 　").empty());
  CHECK(content_terms("a b a", "A", {})[0].count + content_terms("a b a", "A", {})[1].count == 4);
}

TEST_CASE("Chinese, Japanese and Korean text becomes bigrams; an isolated character stays", "[model]") {
  CHECK(hashes("今天新闻").size() == 3);
  CHECK(contains(hashes("今天新闻"), hashes("新闻")));
  CHECK(contains(hashes("看 今天 news"), hashes("今天")));
  CHECK(contains(hashes("看 今天 news"), hashes("看")));
  CHECK_FALSE(contains(hashes("今天新闻"), hashes("闻新")));
  CHECK(contains(hashes("カタカナ"), hashes("タカ")));
  CHECK(contains(hashes("한국어"), hashes("국어")));
  CHECK(hashes("iPhone15发布").size() == 2);
}

TEST_CASE("a tag is one term, distinct from words", "[model]") {
  CHECK(hashes("", {"new york"}).size() == 1);
  CHECK(hashes("", {"new"}) != hashes("new"));
  CHECK(hashes("", {"New"}) == hashes("", {"new"}));
}

TEST_CASE("any bytes can be split into terms", "[model]") {
  CHECK(hashes(std::string(1000000, '\xFF')).empty());
  CHECK(hashes(std::string(1000, 'a')).empty());  // longer than any word
  CHECK(hashes(std::string("a\0b", 3)).size() == 2);
  if (const auto folder = shared_path("corpora/BLNS")) {
    for (const auto& path : files_in(*folder)) {
      const std::string text = read_file(path);
      for (std::size_t cut = 0; cut < std::min<std::size_t>(text.size(), 2000); cut += 7) {
        const auto terms = content_terms(std::string_view(text).substr(cut), "", {});
        CHECK(std::is_sorted(terms.begin(), terms.end(),
                             [](const TermCount& a, const TermCount& b) { return a.hash < b.hash; }));
      }
    }
  }
}

TEST_CASE("an item newer than the model gets the same vector as in training", "[model]") {
  const TrainingData data = make_training_data(60, 40);
  TemporaryDirectory directory;
  REQUIRE(write_model(train_model(data), directory.path() / "m"));
  const auto model = open_model(directory.path() / "m");
  for (std::uint32_t i = 0; i < model->items(); ++i) {
    const TrainingItem& item = data.items[i];
    const auto vector = content_vector(*model, content_terms(item.title, item.text, item.tags));
    CHECK(dot(vector, model->terms(i)) == Approx(1));
  }
  CHECK(content_vector(*model, content_terms("never seen", "", {})).empty());
}

TEST_CASE("a new item gets a weighted mean of the columns of its nearest neighbours by content", "[model]") {
  // Items 0 and 1 are donors, 2 is cold. It shares a term with each; the one shared with 1 is rarer
  // (3 has it, too).
  Content content;
  content.vocabulary = {1, 2};
  content.idf = {1, 1};
  content.terms = {{{0, 1.F}}, {{1, 1.F}}, {{0, 0.6F}, {1, 0.8F}}, {}};
  const Columns columns{{{3, 2.F}}, {{0, 1.F}, {3, 4.F}}, {}, {}};
  auto columns_out =
      cold_start_columns(content, columns, {true, true, false, true}, {false, false, true, false}, 10);
  REQUIRE(columns_out[2].size() == 2);
  if (columns_out[2][0].item == 3) std::swap(columns_out[2][0], columns_out[2][1]);
  CHECK(columns_out[2][0].item == 0);
  CHECK(columns_out[2][0].weight == Approx(0.8 / 1.4));
  CHECK(columns_out[2][1].item == 3);
  CHECK(columns_out[2][1].weight == Approx((0.6 * 2 + 0.8 * 4) / 1.4));
  CHECK(columns_out[0].empty());
}
