// Exclusions, demotions and caps.
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "core/base/fingerprint.h"
#include "tests/recommend/fakes.h"

using namespace freshet;
using namespace freshet::test;
using recommend::Eligibility;
using recommend::ExclusionMode;

namespace {

const UnixSeconds kNow{seconds{1'790'000'000}};

recommend::SelectionSettings settings() { return recommend::SelectionSettings::from(Settings{}); }
readers::ViewedItem viewed(const std::string& id, seconds ago = seconds{0}) {
  return {ItemId::trusted(id), kNow - ago};
}
readers::InteractionRecord done(const std::string& id,
                                readers::Interaction kind = readers::Interaction::kLike) {
  return {ItemId::trusted(id), kind, kNow};
}
bool always_visible(const recommend::SelectionCandidate&) { return true; }

std::vector<std::string> ids(const recommend::Selection& selection, std::size_t limit = 100) {
  std::vector<std::string> out;
  for (const std::size_t each : selection.select(limit, always_visible))
    out.emplace_back(selection.id(selection.candidates()[each]));
  return out;
}

// Five articles of one author and tag, then two of others.
FakeCandidateSet crowd() {
  std::vector<FakeCandidate> all;
  for (int i = 0; i < 5; ++i) all.push_back({"a" + std::to_string(i), 10.0 - i, 1, "ann", {"news"}, kNow});
  all.push_back({"b", 1, 1, "bob", {"sport"}, kNow});
  all.push_back({"c", 0.5, 1, "", {}, kNow});
  return FakeCandidateSet(all);
}

}  // namespace

TEST_CASE("archived items are excluded by fingerprint and counted once", "[recommend]") {
  const FakeCandidateSet all({{"old"}, {"again"}, {"x"}});
  readers::ReaderState state;
  state.interactions = {done("again"), done("lately")};
  state.archived = std::make_shared<const std::unordered_set<std::uint64_t>>(
      std::unordered_set<std::uint64_t>{fingerprint("old"), fingerprint("again"), fingerprint("elsewhere")});
  const auto with = settings();
  for (const ExclusionMode exclude : {ExclusionMode::kHard, ExclusionMode::kSoft}) {
    const recommend::Selection selection(all, state, exclude, with, kNow);
    CHECK(ids(selection) == std::vector<std::string>{"x"});
    CHECK(selection.excluded().interacted == 4);
    CHECK(selection.eligibility("elsewhere") == Eligibility::kInteracted);
  }
  CHECK(ids(recommend::Selection(all, state, ExclusionMode::kOff, with, kNow)).size() == 3);
}

TEST_CASE("viewed, interacted and dismissed items are excluded and counted by distinct id", "[recommend]") {
  const FakeCandidateSet all({{"v"}, {"r"}, {"i"}, {"d"}, {"x"}});
  readers::ReaderState state;
  state.topic_views = {viewed("v"), viewed("elsewhere")};
  state.reply_views = {viewed("r"), viewed("v")};
  state.interactions = {done("i"), done("i", readers::Interaction::kPost),
                        done("x", readers::Interaction::kView)};
  state.dismissals = {viewed("d")};
  const auto with = settings();
  const recommend::Selection hard(all, state, ExclusionMode::kHard, with, kNow);
  CHECK(ids(hard) == std::vector<std::string>{"x"});
  CHECK(hard.excluded().viewed == 3);
  CHECK(hard.excluded().interacted == 1);
  CHECK(hard.excluded().not_interested == 1);

  const recommend::Selection off(all, state, ExclusionMode::kOff, with, kNow);
  CHECK(ids(off) == std::vector<std::string>{"v", "r", "i", "x"});
  CHECK(off.excluded().viewed == 0);
  CHECK(off.excluded().interacted == 0);
  CHECK(off.excluded().not_interested == 1);
}

TEST_CASE("softly excluded items return as the view ages", "[recommend]") {
  CHECK(recommend::soft_exclusion_factor(seconds{0}, seconds{86400}) == 0);
  CHECK(recommend::soft_exclusion_factor(seconds{-5}, seconds{86400}) == 0);
  CHECK(recommend::soft_exclusion_factor(seconds{86400}, seconds{86400}) == Approx(0.5));
  CHECK(recommend::soft_exclusion_factor(seconds{2 * 86400}, seconds{86400}) == Approx(0.75));

  const FakeCandidateSet all({{"now", 8}, {"yesterday", 8}, {"last week", 8}, {"never", 5}, {"done", 9}});
  readers::ReaderState state;
  state.topic_views = {viewed("now"), viewed("yesterday", seconds{86400}),
                       viewed("last week", seconds{7 * 86400})};
  state.interactions = {done("done")};
  const auto with = settings();
  const recommend::Selection soft(all, state, ExclusionMode::kSoft, with, kNow);
  CHECK(ids(soft) == std::vector<std::string>{"last week", "never", "yesterday", "now"});
  CHECK(soft.excluded().viewed == 0);
  CHECK(soft.excluded().interacted == 1);
}

TEST_CASE("a dismissal demotes the author and the tags", "[recommend]") {
  const FakeCandidateSet all({{"dismissed", 9, 1, "ann", {"news"}, kNow},
                              {"same author", 4, 1, "ann", {}, kNow},
                              {"same tag", 4, 1, "bob", {"x", "news"}, kNow},
                              {"both", 4, 1, "ann", {"news"}, kNow},
                              {"other", 3.5, 1, "", {"y"}, kNow}});
  readers::ReaderState state;
  state.dismissals = {viewed("dismissed"), viewed("not a candidate")};
  const auto with = settings();
  const recommend::Selection selection(all, state, ExclusionMode::kHard, with, kNow);
  CHECK(ids(selection) == std::vector<std::string>{"other", "same tag", "same author", "both"});
  CHECK(selection.candidates()[2].factor == Approx(with.feedback.tag_factor));
  CHECK(selection.candidates()[4].factor == Approx(with.feedback.tag_factor * with.feedback.author_factor));
}

TEST_CASE("a dismissal of an embargoed item demotes nothing", "[recommend]") {
  const FakeCandidateSet all({{"embargoed", 9, 1, "ann", {"news"}, kNow + seconds{1}},
                              {"alike", 4, 1, "ann", {"news"}, kNow},
                              {"other", 3.5, 1, "", {"y"}, kNow}});
  readers::ReaderState state;
  state.dismissals = {viewed("embargoed")};
  const auto with = settings();
  const recommend::Selection selection(all, state, ExclusionMode::kHard, with, kNow);
  CHECK(ids(selection) == std::vector<std::string>{"alike", "other"});
}

TEST_CASE("a dismissal demotes the author and the tags however they are written", "[recommend]") {
  const FakeCandidateSet all({{"dismissed", 9, 1, "Ann Lee", {"Machine Learning"}, kNow},
                              {"same author", 4, 1, "ANN LEE", {}, kNow},
                              {"same tag", 4, 1, "bob", {"machine learning"}, kNow}});
  readers::ReaderState state;
  state.dismissals = {viewed("dismissed")};
  const auto with = settings();
  const recommend::Selection selection(all, state, ExclusionMode::kHard, with, kNow);
  std::map<std::string_view, double> factors;
  for (const auto& each : selection.candidates()) factors[all.id(each.ranked->item)] = each.factor;
  CHECK(factors["same author"] == Approx(with.feedback.author_factor));
  CHECK(factors["same tag"] == Approx(with.feedback.tag_factor));
}

TEST_CASE("an author and a tag stay within their caps while there are other items", "[recommend]") {
  const FakeCandidateSet all = crowd();
  const readers::ReaderState anonymous;
  auto with = settings();
  with.per_author = 2;
  const recommend::Selection selection(all, anonymous, ExclusionMode::kHard, with, kNow);
  CHECK(ids(selection, 4) == std::vector<std::string>{"a0", "a1", "b", "c"});
  // … and exceed them rather than leave the page short.
  CHECK(ids(selection, 6) == std::vector<std::string>{"a0", "a1", "b", "c", "a2", "a3"});
  with.per_author = 0;
  with.per_tag = 3;
  const recommend::Selection by_tag(all, anonymous, ExclusionMode::kHard, with, kNow);
  CHECK(ids(by_tag, 4) == std::vector<std::string>{"a0", "a1", "a2", "b"});
  with.per_tag = 0;
  const recommend::Selection uncapped(all, anonymous, ExclusionMode::kHard, with, kNow);
  CHECK(ids(uncapped, 3) == std::vector<std::string>{"a0", "a1", "a2"});
}

TEST_CASE("no excluded item is selected, none twice, and the page is as full as possible",
          "[recommend][property]") {
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto below = [&](int n) { return std::uniform_int_distribution<>(0, n - 1)(random); };
  for (int run = 0; run < 2000; ++run) {
    std::vector<FakeCandidate> candidates;
    const int items = below(40);
    for (int i = 0; i < items; ++i) {
      candidates.push_back({"i" + std::to_string(i),
                            double(below(10)),
                            1,
                            std::string(1, char('a' + below(3))),
                            {std::string(1, char('x' + below(3)))},
                            kNow});
    }
    const FakeCandidateSet all(candidates);
    readers::ReaderState state;
    std::set<std::string> out;
    const auto some = [&] { return "i" + std::to_string(below(50)); };
    for (int i = below(10); i > 0; --i) state.topic_views.push_back(viewed(*out.insert(some()).first));
    for (int i = below(10); i > 0; --i) state.reply_views.push_back(viewed(*out.insert(some()).first));
    for (int i = below(10); i > 0; --i) state.interactions.push_back(done(*out.insert(some()).first));
    for (int i = below(10); i > 0; --i) state.dismissals.push_back(viewed(*out.insert(some()).first));
    auto with = settings();
    with.per_author = below(4);
    with.per_tag = below(4);
    const recommend::Selection selection(all, state, ExclusionMode::kHard, with, kNow);
    const auto limit = static_cast<std::size_t>(1 + below(20));
    const auto picked = ids(selection, limit);
    const std::set<std::string> distinct(picked.begin(), picked.end());
    REQUIRE(distinct.size() == picked.size());
    std::size_t left = 0;
    for (const FakeCandidate& each : candidates) left += out.contains(each.id) ? 0U : 1U;
    REQUIRE(picked.size() == std::min(limit, left));
    for (const std::string& each : picked) REQUIRE_FALSE(out.contains(each));
  }
}
