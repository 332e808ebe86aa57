#include "core/recommend/similar_mix.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "tests/feed/fakes.h"

using namespace freshet;
using namespace freshet::test;
using recommend::SimilarItem;
using Source = SimilarItem::Source;

namespace {

// "id source" of each.
std::string text_of(const std::vector<SimilarItem>& items) {
  std::string out;
  for (const SimilarItem& each : items)
    out += each.item.str() + (each.source == Source::kCovisits ? " read, "
                              : each.source == Source::kTrend  ? " trend, "
                                                               : " content, ");
  return out;
}

recommend::SharedItems share(std::vector<SimilarItem> items) {
  return std::make_shared<const std::vector<SimilarItem>>(std::move(items));
}

// 0 to `size` - 1 items of 30 in random order, scores descending with ties.
std::vector<SimilarItem> random_list(std::mt19937& random, std::size_t size) {
  std::vector<int> numbers(30);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::shuffle(numbers.begin(), numbers.end(), random);
  std::vector<SimilarItem> out;
  double score = 1000;
  for (std::size_t i = 0; i < random() % size; ++i)
    out.push_back({item(numbers[i]), score -= static_cast<double>(random() % 3)});
  return out;
}

}  // namespace

TEST_CASE("without reads after an item, the content stays as it is, and without content the trend",
          "[recommend][similar]") {
  const recommend::SimilarSources content{
      {}, {{item(1), 3}, {item(2), 2}, {item(0), 1}}, share({{item(9), 100}})};
  const auto found = mix_similar(content, item(0), 5);
  CHECK(text_of(found) == "i1 content, i2 content, ");
  CHECK(found[0].score == 3);
  CHECK(text_of(mix_similar(content, item(0), 1)) == "i1 content, ");
  const recommend::SimilarSources trend{{}, {}, share({{item(9), 100}, {item(0), 90}, {item(8), 50}})};
  CHECK(text_of(mix_similar(trend, item(0), 5)) == "i9 trend, i8 trend, ");
  CHECK(recommend::mix_similar({}, item(0), 5).empty());
}

TEST_CASE("reads after an item are mixed with the trend and the content", "[recommend][similar]") {
  // 20 reads weigh as much as the prior: alpha is 1/2.
  const recommend::SimilarSources sources{
      {{item(1), 12}, {item(2), 8}}, {{item(3), 3}, {item(1), 1}}, share({{item(2), 30}, {item(4), 10}})};
  const auto found = mix_similar(sources, item(0), 5);
  CHECK(text_of(found) == "i3 content, i2 read, i1 read, i4 trend, ");
  REQUIRE(found.size() == 4);
  CHECK(found[0].score == Approx(.5 * 3 / 4));
  CHECK(found[1].score == Approx(.5 * (8 + 20 * .75) / 40));
  CHECK(found[2].score == Approx(.5 * 12 / 40 + .5 / 4));
  CHECK(found[3].score == Approx(.5 * 20 * .25 / 40));
  // Few reads change little, many decide.
  recommend::SimilarSources few = sources, many = sources;
  for (auto& each : few.covisits) each.score *= .05;
  for (auto& each : many.covisits) each.score *= 20;
  CHECK(text_of(mix_similar(few, item(0), 2)) == "i3 content, i1 read, ");
  CHECK(text_of(mix_similar(many, item(0), 2)) == "i1 read, i2 read, ");
}

TEST_CASE("a limit returns the first items of the whole mix", "[recommend][similar]") {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const recommend::SimilarSources sources{random_list(random, 8), random_list(random, 8),
                                            share(random_list(random, 30))};
    const auto whole = mix_similar(sources, item(0), 100);
    for (const std::size_t limit : {1U, 3U, 10U}) {
      const auto first = mix_similar(sources, item(0), limit);
      REQUIRE(first.size() == std::min(limit, whole.size()));
      for (std::size_t i = 0; i < first.size(); ++i) {
        REQUIRE(first[i].item == whole[i].item);
        REQUIRE(first[i].score == whole[i].score);
        REQUIRE(first[i].source == whole[i].source);
      }
    }
  }
}
