// Recommendations with fakes: exclusion, hidden items, degraded pages and reasons.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "tests/recommend/fakes.h"

#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;

namespace {

const UnixSeconds kNow{seconds{1'790'000'000}};

struct Site {
  FakeReaders readers;
  FakeRecommender recommender;
  FakeItems items;
  FakeRecall recall;
  Settings settings;
  UnixSeconds clock = kNow;
  items::CardCache cards{items, settings.items_cache_bytes};
  recommend::Recommendations recommendations{readers, recommender, cards,
                                             recall,  settings,    [this] { return clock; }};

  explicit Site(int count = 30) {
    std::vector<FakeCandidate> all;
    for (int i = 0; i < count; ++i) all.push_back({"i" + std::to_string(i), 100.0 - i, 1, "", {}, kNow});
    set_candidates(all);
  }
  void set_candidates(const std::vector<FakeCandidate>& all) {
    recommender.next = std::make_shared<FakeCandidateSet>(all);
  }
  recommend::RecommendPage page(std::size_t limit = 5,
                                recommend::ExclusionMode exclude = recommend::ExclusionMode::kHard,
                                ReaderId reader = kReader) {
    const recommend::RecommendRequest request{reader, limit, exclude};
    auto served = run_ready(recommendations.page(request));
    REQUIRE(served);
    return std::move(*served);
  }
  static std::vector<std::string> ids(const recommend::RecommendPage& page) {
    std::vector<std::string> out;
    for (const auto& each : page.items) out.push_back(each.id.str());
    return out;
  }
};

readers::ViewedItem viewed(int number) { return {item(number), kNow}; }

}  // namespace

TEST_CASE_METHOD(Site, "a page has the best unseen items and reads the reader's state once", "[recommend]") {
  readers.state.topic_views = {viewed(0), viewed(2)};
  readers.state.interactions = {{item(3), readers::Interaction::kPost, kNow}};
  CHECK(ids(page()) == std::vector<std::string>{"i1", "i4", "i5", "i6", "i7"});
  CHECK(readers.reads == 1);
  CHECK(items.reads == 1);
  const auto again = page();
  CHECK(items.reads == 1);  // the titles are cached now
  CHECK(again.excluded.viewed == 2);
  CHECK(again.excluded.interacted == 1);
  CHECK(again.model == "fake@1");
  CHECK_FALSE(again.degraded);
}

TEST_CASE_METHOD(Site,
                 "the profile has the reader's interactions and views, newest first, without dismissed items",
                 "[recommend]") {
  readers.state.topic_views = {{item(1), kNow}, {item(9), kNow - seconds{50}}};
  readers.state.interactions = {{item(2), readers::Interaction::kLike, kNow - seconds{10}},
                                {item(3), readers::Interaction::kPost, kNow - seconds{90}}};
  readers.state.dismissals = {viewed(9), viewed(3)};
  page();
  CHECK(recommender.dismissed == std::vector<ItemId>{item(9), item(3)});
  REQUIRE(recommender.profile.size() == 2);
  CHECK(recommender.profile[0].item == item(1));
  CHECK(recommender.profile[0].kind == readers::Interaction::kView);
  CHECK(recommender.profile[1].item == item(2));
}

TEST_CASE_METHOD(Site, "hidden, deleted and unknown items are replaced by the next ones", "[recommend]") {
  items.hidden = {item(0), item(2)};
  items.unknown = {item(3)};
  CHECK(ids(page()) == std::vector<std::string>{"i1", "i4", "i5", "i6", "i7"});
  for (int i = 0; i < 25; ++i) items.hidden.insert(item(i));
  cards.invalidate_all();
  CHECK(ids(page()) == std::vector<std::string>{"i25", "i26", "i27", "i28", "i29"});
  // The page has every item that is still visible.
  for (int i = 25; i < 29; ++i) items.hidden.insert(item(i));
  cards.invalidate_all();
  CHECK(ids(page()) == std::vector<std::string>{"i29"});
}

TEST_CASE_METHOD(Site, "an item dated in the future is not recommended, similar or named before its date",
                 "[recommend]") {
  items.dates = {{item(0), kNow + seconds{1}}, {item(2), kNow}};
  CHECK(ids(page(3)) == std::vector<std::string>{"i1", "i2", "i3"});
  recommender.similar_items["i1"] = {{item(0), 3}, {item(2), 2}};
  CHECK(run_ready(recommendations.similar(item(1), {}, 5))->items.size() == 1);
  recommender.similar_items["i0"] = {{item(2), 2}};
  CHECK(error_of(run_ready(recommendations.similar(item(0), {}, 5))).reason == "unknown_item");
  recommender.next->attributions[1] = {item(0), readers::Interaction::kLike, 1};
  CHECK(page(1).items.front().reason.kind != readers::Reason::Kind::kLike);
  clock = kNow + seconds{1};  // with cached cards
  CHECK(ids(page(3)) == std::vector<std::string>{"i0", "i1", "i2"});
  CHECK(page(2).items[1].reason.kind == readers::Reason::Kind::kLike);
}

TEST_CASE_METHOD(Site, "readers are not recommended their own items, wherever these come from",
                 "[recommend]") {
  std::vector<FakeCandidate> all;
  for (int i = 0; i < 40; ++i) all.push_back({"i" + std::to_string(i), 100.0 - i, 1, "Ann", {}, kNow});
  all.push_back({"i40", 1, 1, "bob", {}, kNow});
  all.push_back({"i41", 1, 1, "", {}, kNow});
  set_candidates(all);
  items.authors = {{item(42), "aNN"}};
  recall.index = {item(42), item(43)};
  const ReaderId ann = ReaderId::trusted("ann");
  const auto hard = recommend::ExclusionMode::kHard;
  CHECK(ids(page(5, hard, ann)) == std::vector<std::string>{"i40", "i41", "i43"});
  CHECK(ids(page(5, recommend::ExclusionMode::kOff, ann)).front() == "i40");
  CHECK(ids(page(2, hard, ReaderId::trusted("bob"))) == std::vector<std::string>{"i0", "i1"});
  CHECK(ids(page(2, hard, {})) == std::vector<std::string>{"i0", "i1"});
  recommender.is_unavailable = true;
  CHECK(ids(page(5, hard, ann)) == std::vector<std::string>{"i40", "i41"});
}

TEST_CASE("a page is filled from the index until no visible item is left", "[recommend][fill]") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
    const int count = 1 + below(500), candidates = below(count + 1);
    Site site(candidates);
    for (int i = 0; i < count; ++i) site.recall.index.push_back(item(i));
    std::shuffle(site.recall.index.begin(), site.recall.index.end(), random);
    std::set<ItemId> out;
    const int most = below(count + 1);
    for (int i = 0; i < most; ++i) {
      const ItemId each = item(below(count));
      out.insert(each);
      switch (below(5)) {
        case 0:
          site.readers.state.dismissals.push_back({each, kNow});
          break;
        case 1:
          site.readers.state.interactions.push_back({each, readers::Interaction::kReply, kNow});
          break;
        case 2:
          site.readers.state.topic_views.push_back({each, kNow});
          break;
        case 3:
          site.items.dates.emplace(each, kNow + seconds{1});
          break;
        default:
          site.items.hidden.insert(each);
      }
    }
    const std::size_t left = static_cast<std::size_t>(count) - out.size();
    const auto limit = static_cast<std::size_t>(1 + below(100));
    const auto served = Site::ids(site.page(limit));
    INFO("seed " << seed << ": " << count << " items, " << candidates << " candidates, " << out.size()
                 << " out, limit " << limit);
    CHECK(served.size() == std::min(limit, left));
    const std::set<std::string> distinct(served.begin(), served.end());
    CHECK(distinct.size() == served.size());
    for (const ItemId& each : out) CHECK_FALSE(distinct.contains(each.str()));
  }
}

TEST_CASE_METHOD(Site, "items that fill up a page come last, have no score and get a fitting reason",
                 "[recommend][fill][reason]") {
  set_candidates({{"i0", 9, 1, "ann", {}, kNow}});
  readers.state.interactions = {{item(0), readers::Interaction::kLike, kNow}};
  recall.scores = {{item(3), 0}, {item(4), 0}};
  for (const int each : {0, 2, 3, 4}) recall.index.push_back(item(each));
  recall.published[item(3)] = kNow - seconds{3600};
  const auto served = page(3);
  REQUIRE(ids(served) == std::vector<std::string>{"i2", "i3", "i4"});
  CHECK(readers::reason_text(served.items[0].reason) == "matches what you like");
  CHECK(readers::reason_text(served.items[1].reason) == "new");
  CHECK(readers::reason_text(served.items[2].reason) == "more to read");
  CHECK(served.items[0].score == 0);
  REQUIRE(recall.queries.size() == 1);
  REQUIRE(recall.queries.front().interests.size() == 1);
  CHECK(recall.queries.front().interests.front().item == item(0));
  recall.unavailable = true;
  CHECK(page(3).items.empty());  // short, but no error
}

TEST_CASE_METHOD(Site, "a full page does not search the index", "[recommend][fill]") {
  recall.index = {item(50)};
  CHECK(page(30).items.size() == 30);
  CHECK(recall.queries.empty());
  CHECK(page(31).items.size() == 31);
}

TEST_CASE_METHOD(Site, "the index is not scanned to its end if Redis has lost its items",
                 "[recommend][fill]") {
  for (int i = 0; i < 5000; ++i) {
    recall.index.push_back(item(i));
    if (i >= 30) items.unknown.insert(item(i));
  }
  CHECK(page(100).items.size() == 30);
  CHECK(items.reads == 2);
}

TEST_CASE_METHOD(Site, "a cached card is reloaded after its item changed", "[recommend]") {
  CHECK(ids(page()).front() == "i0");
  items.hidden = {item(0)};
  CHECK(ids(page()).front() == "i0");  // the change was not announced yet
  cards.invalidate_all();
  CHECK(ids(page()).front() == "i1");
}

TEST_CASE_METHOD(Site, "a page has ids only if the item store knows none of them", "[recommend]") {
  for (int i = 0; i < 30; ++i) items.unknown.insert(item(i));
  CHECK(ids(page(3)) == std::vector<std::string>{"i0", "i1", "i2"});
}

TEST_CASE_METHOD(Site, "without Redis, the last trend is served, unfiltered and marked as degraded",
                 "[recommend]") {
  readers.state.topic_views = {viewed(0)};
  readers.is_unavailable = true;
  const auto served = page(3);
  CHECK(served.degraded);
  CHECK(ids(served) == std::vector<std::string>{"i0", "i1", "i2"});
  CHECK(served.excluded.viewed == 0);
  CHECK(served.items.front().card->title == "i0");
  CHECK(items.reads == 0);
  recommender.next = nullptr;
  CHECK(page(3).items.empty());
}

TEST_CASE_METHOD(Site, "an anonymous reader gets the trend without a read of any state", "[recommend]") {
  CHECK(ids(page(2, recommend::ExclusionMode::kHard, ReaderId())) == std::vector<std::string>{"i0", "i1"});
  CHECK(readers.reads == 0);
}

TEST_CASE_METHOD(Site, "each item has a reason that fits the reader", "[recommend][reason]") {
  set_candidates({{"liked", 0.1, 1, "ann", {"news"}, kNow},
                  {"like", 9, 1, "", {}, kNow},
                  {"author", 8, 1, "ann", {}, kNow - seconds{86400 * 3}},
                  {"tag", 7, 0, "", {"x", "news"}, kNow - seconds{3600}},
                  {"old tag", 6, 3, "", {"news"}, kNow - seconds{86400 * 3}},
                  {"nobody", 5, 0, "", {}, kNow}});
  recommender.next->attributions[1] = {ItemId::trusted("liked"), readers::Interaction::kFavorite, 0.8};
  recommender.next->attributions[4] = {ItemId::trusted("liked"), readers::Interaction::kFavorite, 0.01};
  readers.state.interactions = {{ItemId::trusted("liked"), readers::Interaction::kFavorite, kNow}};
  const auto served = page();
  REQUIRE(served.items.size() == 5);
  const auto reason = [&](int at) { return served.items[static_cast<std::size_t>(at)].reason; };
  CHECK(readers::reason_text(reason(0)) == "like “title of liked”, which you favourited");
  CHECK(reason(0).item == ItemId::trusted("liked"));
  CHECK(items.reads == 1);  // its title was loaded with the others
  CHECK(readers::reason_text(reason(1)) == "by ann, whose work you liked");
  CHECK(readers::reason_text(reason(2)) == "new in news");
  CHECK(readers::reason_text(reason(3)) == "rising now");
  CHECK(readers::reason_text(reason(4)) == "new");
}

TEST_CASE_METHOD(Site, "an item that is listed for its affinity is not explained as rising",
                 "[recommend][reason]") {
  constexpr auto kTrend = recommend::CandidateSource::kTrend,
                 kAffinity = recommend::CandidateSource::kAffinity;
  set_candidates({{"hot", 9, 5, "", {}, kNow, 7, 0.1, kTrend},
                  {"raised", 8, 5, "", {}, kNow, 2, 0.9, kTrend},
                  {"found", 7, 5, "", {}, kNow, 0.1, 0.8, kAffinity},
                  {"passed over", 1, 5, "", {}, kNow, 6, 0, kTrend},
                  {"too", 1, 5, "", {}, kNow, 5, 0, kTrend}});
  // Ten equal events, each with a share below a tenth.
  for (const std::uint32_t each : {0U, 1U, 2U})
    recommender.next->attributions[each] = {ItemId::trusted("liked"), readers::Interaction::kLike, 0.0999};
  const auto texts = [&] {
    std::vector<std::string> out;
    for (const auto& each : page(3).items) out.push_back(readers::reason_text(each.reason));
    return out;
  };
  const std::string like = "like “title of liked”, which you liked";
  CHECK(texts() == std::vector<std::string>{"rising now", like, like});
  items.hidden = {ItemId::trusted("liked")};
  cards.invalidate_all();
  CHECK(texts() == std::vector<std::string>{"rising now", "matches what you like", "matches what you like"});
}

TEST_CASE_METHOD(Site, "an item on a position for new items is explained as new here",
                 "[recommend][reason]") {
  set_candidates({{"a", 2, 5, "", {}, kNow}, {"b", 1, 0, "", {}, kNow}});
  CHECK(page(2).items[1].reason.kind == readers::Reason::Kind::kNew);
  set_candidates({{.id = "a", .score = 2, .points = 5}, {.id = "b", .points = 0, .exploration = true}});
  const auto reason = page(2).items[1].reason;
  CHECK(readers::reason_name(reason.kind) == "new_here");
  CHECK(readers::reason_text(reason) == "new here");
}

TEST_CASE_METHOD(Site, "the items of a page are reported as shown, but not those of a degraded page",
                 "[recommend]") {
  std::vector<ItemId> shown;
  recommendations.on_impressions([&](std::span<const ItemId> page_items) {
    shown.insert(shown.end(), page_items.begin(), page_items.end());
  });
  const auto first = ids(page(3));
  CHECK(std::ranges::equal(shown, first, {}, &ItemId::str));
  page(4);  // a reload and one item more
  CHECK(shown.size() == 4);
  readers.is_unavailable = true;
  CHECK(page(3).degraded);
  CHECK(shown.size() == 4);
}

TEST_CASE_METHOD(Site, "a reason never names a hidden item", "[recommend][reason]") {
  recommender.next->attributions[0] = {ItemId::trusted("secret"), readers::Interaction::kLike, 1};
  CHECK(page().items.front().reason.kind == readers::Reason::Kind::kLike);
  items.hidden = {ItemId::trusted("secret")};
  cards.invalidate_all();
  const auto served = page();
  CHECK(served.items.front().reason.kind == readers::Reason::Kind::kRising);
  CHECK(served.items.front().reason.title.empty());
}

TEST_CASE_METHOD(Site, "similar items come from the model, for newer items from the index",
                 "[recommend][similar]") {
  recommender.similar_items["i1"] = {{item(2), 3}, {item(3), 2}, {item(4), 1}};
  items.hidden = {item(3)};
  const auto known = run_ready(recommendations.similar(item(1), {}, 5));
  REQUIRE(known);
  REQUIRE(known->items.size() == 2);
  CHECK(known->items[0].id == item(2));
  CHECK(known->items[1].id == item(4));
  CHECK(known->model == "fake@1");
  readers.dismissed = {item(2)};
  CHECK(run_ready(recommendations.similar(item(1), {}, 5))->items.size() == 2);
  const auto rest = run_ready(recommendations.similar(item(1), ReaderId::trusted("r"), 5));
  REQUIRE(rest->items.size() == 1);
  CHECK(rest->items[0].id == item(4));

  recall.index = {item(7), item(8)};
  const auto fresh = run_ready(recommendations.similar(item(7), {}, 5));
  REQUIRE(fresh);
  REQUIRE(fresh->items.size() == 1);
  CHECK(fresh->items[0].id == item(8));
  CHECK(fresh->model == "search");
  CHECK(recall.queries.front().interests.front().item == item(7));

  recall.unavailable = true;
  const auto alone = run_ready(recommendations.similar(item(7), {}, 5));
  REQUIRE(alone);
  CHECK(alone->items.empty());
  items.unknown = {item(7)};
  cards.invalidate_all();
  CHECK(error_of(run_ready(recommendations.similar(item(7), {}, 5))).reason == "unknown_item");
  items.hidden = {item(1)};
  cards.invalidate_all();
  CHECK(error_of(run_ready(recommendations.similar(item(1), {}, 5))).reason == "unknown_item");
}

TEST_CASE_METHOD(Site, "without Redis, similar items come from the last copy, marked as degraded",
                 "[recommend][similar]") {
  set_candidates({{"i2", 1, 1, "ann", {"t"}, kNow},
                  {"i4", 1, 1, "", {}, kNow},
                  {"i5", 1, 1, "", {}, kNow + seconds{1}}});
  recommender.similar_items["i1"] = {{item(5), 4}, {item(2), 3}, {item(3), 2}, {item(4), 1}};
  items.unavailable = true;
  const auto known = run_ready(recommendations.similar(item(1), {}, 5));
  REQUIRE(known);
  CHECK(known->degraded);
  REQUIRE(known->items.size() == 2);
  CHECK(known->items[0].id == item(2));
  CHECK(known->items[0].card->author == "ann");
  CHECK(known->items[1].id == item(4));
  CHECK(run_ready(recommendations.similar(item(1), {}, 1))->items.size() == 1);
  recommender.next = nullptr;  // nothing was ever loaded
  const auto nothing = run_ready(recommendations.similar(item(1), {}, 5));
  REQUIRE(nothing);
  CHECK(nothing->degraded);
  CHECK(nothing->items.empty());
}

TEST_CASE_METHOD(Site, "what was read after an item comes with its reason, and is never hidden or dismissed",
                 "[recommend][similar]") {
  using Kind = readers::Reason::Kind;
  recommender.similar_items["i1"] = {{item(2), 3}, {item(3), 2}};
  recommender.covisited["i1"] = {{item(4), 60}, {item(5), 50}, {item(6), 40}};
  recommender.trend = {{item(7), 9}};
  items.hidden = {item(5)};
  readers.dismissed = {item(6)};
  const auto page = run_ready(recommendations.similar(item(1), ReaderId::trusted("r"), 5));
  REQUIRE(page);
  REQUIRE(page->items.size() == 4);
  std::map<std::string, Kind> reasons;
  for (const auto& each : page->items) reasons[each.id.str()] = each.reason.kind;
  CHECK(page->items[0].id == item(4));
  CHECK(reasons ==
        std::map<std::string, Kind>{
            {"i2", Kind::kSimilar}, {"i3", Kind::kSimilar}, {"i4", Kind::kAlsoRead}, {"i7", Kind::kRising}});

  // An unknown item has no similar ones, whatever is trending.
  items.unknown = {item(8)};
  CHECK(error_of(run_ready(recommendations.similar(item(8), {}, 5))).reason == "unknown_item");
  const auto trending = run_ready(recommendations.similar(item(9), {}, 5));
  REQUIRE(trending);
  REQUIRE(trending->items.size() == 1);
  CHECK(trending->items[0].id == item(7));

  recommender.is_unavailable = true;  // the content is left
  const auto content = run_ready(recommendations.similar(item(1), {}, 5));
  REQUIRE(content);
  REQUIRE(content->items.size() == 2);
  CHECK(content->items[0].id == item(2));
}
