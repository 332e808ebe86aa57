// What is trending and new, read from a real Redis, and what is suggested from that and a real
// model file.
#include "core/recommend/recommender.h"

#include <filesystem>
#include <random>

#include "core/base/fingerprint.h"
#include "core/readers/interaction.h"
#include "core/training/train.h"
#include "tests/support/store_fixture.h"
#include "tests/support/unix_socket.h"

using namespace freshet;
using namespace freshet::test;

namespace {

ItemId id(const std::string& text) { return ItemId::trusted(text); }

// Readers who like either roses or chess; half a dozen items of each.
training::TrainedModel two_tastes(UnixSeconds now) {
  training::TrainingData data;
  data.now = now;
  for (int i = 0; i < 12; ++i) {
    const std::string taste = i < 6 ? "roses" : "chess";
    data.items.push_back(
        {taste + std::to_string(i % 6), "all about " + taste, {}, "ann", {taste}, now, false});
  }
  for (std::uint32_t reader = 0; reader < 20; ++reader) {
    for (std::uint32_t i = 0; i < 6; ++i) {
      if ((i + reader) % 3 != 0)
        data.events.push_back({reader, i + (reader % 2) * 6, readers::Interaction::kLike, now - seconds{60}});
    }
  }
  auto trained = training::train(data, {}, [](std::string_view, double) {});
  REQUIRE(trained);
  return std::move(*trained);
}

struct Site : Fixture {
  TemporaryDirectory folder;
  std::string path = folder.path() / "freshet.model";
  std::optional<recommend::TrendSource> trend;
  std::optional<model::ActiveModel> served;
  std::optional<recommend::MappedRecommender> recommender;

  Site() {
    settings.recommend.trend_refresh = milliseconds{0};  // each request reads anew
    restart();
  }
  void restart() {
    open();
    recommender.reset();
    trend.emplace(redis, settings, keys());
    served.emplace();
    served->open(path);
    recommender.emplace(*trend, *served, settings);
  }
  void learn() {
    REQUIRE(training::write_model(two_tastes(now()), path));
    CHECK(served->open(path));
  }
  std::shared_ptr<const recommend::CandidateSet> suggest(std::vector<readers::InteractionRecord> done = {},
                                                        std::vector<ItemId> unwanted = {}) {
    auto out = run_sync(recommender->find_candidates({std::move(done), std::move(unwanted), nullptr}, now()));
    REQUIRE(out);
    return *out;
  }
  std::vector<std::string> ids(const recommend::CandidateSet& suggestions) {
    std::vector<std::string> out;
    for (const recommend::RankedCandidate& each : suggestions.candidates()) out.emplace_back(suggestions.id(each.item));
    return out;
  }
  void put_both_tastes() {
    for (int i = 0; i < 12; ++i) {
      const std::string taste = i < 6 ? "roses" : "chess";
      auto one = item(taste + std::to_string(i % 6), now() - seconds{3600});
      one.title = "all about " + taste;
      one.tags = {TagName::trusted(taste)};
      put(one);
    }
  }
  readers::InteractionRecord did(const std::string& what, readers::Interaction kind = readers::Interaction::kLike) {
    return {id(what), kind, now()};
  }
};

}  // namespace

TEST_CASE_METHOD(Site, "what is suggested to somebody new is what is trending and new, with its points",
                 "[recommender]") {
  for (const char* each : {"a", "b", "c"}) put(item(each, now() - seconds{3600}));
  for (int i = 0; i < 5; ++i) view(view_event("b", "f" + std::to_string(i)));
  track(track_event("c", "v", 1000));
  view(view_event("unknown", "f"));
  const auto suggested = suggest();
  CHECK(ids(*suggested) == std::vector<std::string>{"b", "c", "a"});
  CHECK(suggested->candidates()[0].points == 15);  // a view and a first visit of the day: 3 each
  CHECK(suggested->candidates()[1].points == 1);   // counted by track only
  CHECK(suggested->candidates()[2].source == recommend::CandidateSource::kNewest);
  CHECK(suggested->metadata(suggested->candidates()[0].item).title == "Title of b");
  CHECK(recommender->model_name() == "none");
}

TEST_CASE_METHOD(Site, "hidden items are no candidates, and a site that puts no items gets those it counts",
                 "[recommender]") {
  view(view_event("x", "f"));
  view(view_event("y", "f"));
  CHECK(suggest()->candidates().size() == 2);
  put(item("a", now()));
  put(item("b", now()));
  CHECK(suggest()->candidates().size() == 2);  // x and y were never put
  auto gone = item("a", now());
  gone.hidden = true;
  put(gone);
  CHECK(ids(*suggest()) == std::vector<std::string>{"b"});
  remove("b");
  CHECK(suggest()->candidates().size() == 2);  // nothing is put any more: x and y
}

TEST_CASE_METHOD(Site, "a profile brings what its likes like, and says which event speaks for it",
                 "[recommender]") {
  put_both_tastes();
  learn();
  const auto suggested = suggest({did("roses1"), did("roses2", readers::Interaction::kView)});
  REQUIRE(suggested->candidates().size() == 12);
  std::vector<std::uint32_t> first, last;
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(suggested->id(suggested->candidates()[i].item).starts_with("roses"));
    first.push_back(suggested->candidates()[i].item);
    last.push_back(suggested->candidates()[6 + i].item);
  }
  for (const auto& each : suggested->find_attributions(first)) {
    REQUIRE(each);
    CHECK((each->item == id("roses1") || each->item == id("roses2")));
    CHECK(each->share > 0);
    CHECK(each->share <= 1);
  }
  // Of two events of one item the stronger is named.
  const auto twice =
      suggest({did("roses1", readers::Interaction::kView), did("roses1", readers::Interaction::kPost)});
  const std::vector<std::uint32_t> other{twice->find("roses0").value()};
  const auto why = twice->find_attributions(other);
  REQUIRE(why.front());
  CHECK(why.front()->kind == readers::Interaction::kPost);
  CHECK(why.front()->share == Approx(1));
  CHECK(recommender->model_name() ==
        std::string(served->current()->algorithm()) + "@" +
            std::to_string(served->current()->trained_at().time_since_epoch().count()));
}

TEST_CASE_METHOD(Site, "what the reader did long ago takes no candidate's place", "[recommender]") {
  learn();
  put(item("other", now()));
  recommend::Profile profile{{did("roses1")}, {id("roses2")}, nullptr};
  profile.archived = std::make_shared<const std::unordered_set<std::uint64_t>>(
      std::unordered_set<std::uint64_t>{fingerprint("roses0"), fingerprint("roses3"), fingerprint("other")});
  const auto suggested = run_sync(recommender->find_candidates(profile, now()));
  REQUIRE(suggested);
  auto names = ids(**suggested);
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"other", "roses4", "roses5"});
}

TEST_CASE_METHOD(Site, "shares of what speaks for an item equal those of adding up every relation",
                 "[recommender]") {
  put_both_tastes();
  learn();
  std::mt19937 random(7);
  for (int run = 0; run < 20; ++run) {
    std::vector<readers::InteractionRecord> profile;
    for (int i = 0; i < 4; ++i)
      profile.push_back(did((random() % 2 ? "roses" : "chess") + std::to_string(random() % 6)));
    const auto suggested = suggest(profile);
    std::vector<std::uint32_t> all;
    for (const auto& each : suggested->candidates()) all.push_back(each.item);
    const auto why = suggested->find_attributions(all);
    const model::Model& model = *served->current();
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::map<std::string, double> voices;
      for (const readers::InteractionRecord& each : profile) {
        if (each.item.view() == suggested->id(suggested->candidates()[i].item)) continue;
        for (const auto part : {model::Relation::kCf, model::Relation::kContent, model::Relation::kColdStart}) {
          for (const auto& neighbour : model.row(part, *model.find(each.item.view()))) {
            if (model.id(neighbour.item) == suggested->id(suggested->candidates()[i].item))
              voices[each.item.str()] +=
                  double{model.blend_weights().by_relation[static_cast<std::size_t>(part)]} * double{neighbour.weight};
          }
        }
      }
      double sum = 0, most = 0;
      for (const auto& [item, voice] : voices) {
        if (voice <= 0) continue;
        sum += voice;
        most = std::max(most, voice);
      }
      REQUIRE(why[i].has_value() == (sum > 0));
      if (sum > 0) CHECK(why[i]->share == Approx(most / sum).epsilon(1e-4));
    }
  }
}

TEST_CASE_METHOD(Site, "an item newer than the model is compared by its content", "[recommender]") {
  put_both_tastes();
  learn();
  auto fresh = item("fresh", now() - seconds{3600});
  fresh.title = "more about roses";
  fresh.tags = {TagName::trusted("roses")};
  put(fresh);
  auto other = item("other", now() - seconds{3600});
  other.title = "a concert";
  put(other);
  const auto suggested = suggest({did("roses1")});
  std::map<std::string, recommend::RankedCandidate> by_id;
  for (const auto& each : suggested->candidates()) by_id.emplace(suggested->id(each.item), each);
  CHECK(by_id.at("fresh").content > 0);
  CHECK(by_id.at("fresh").score > by_id.at("other").score);
  const std::vector<std::uint32_t> one{by_id.at("fresh").item};
  REQUIRE(suggested->find_attributions(one).front());
  CHECK(suggested->find_attributions(one).front()->item == id("roses1"));
}

TEST_CASE_METHOD(Site, "similar items come from the model, and it knows what it does not know",
                 "[recommender]") {
  learn();
  const auto like = recommender->similar(id("chess0"), 5);
  REQUIRE(like);
  REQUIRE(like->size() == 5);
  for (const auto& each : *like) CHECK(each.item.view().starts_with("chess"));
  CHECK(std::is_sorted(like->begin(), like->end(),
                       [](const auto& a, const auto& b) { return a.score > b.score; }));
  CHECK(recommender->similar(id("chess0"), 2)->size() == 2);
  CHECK_FALSE(recommender->similar(id("never"), 5));
}

TEST_CASE_METHOD(Site, "while Redis is away the last copy serves, and without one there is an error",
                 "[recommender]") {
  CHECK(recommender->find_stale_candidates({}, now()) == nullptr);
  RedisServer other;
  redis::BlockingRedis lost(other.endpoint(), milliseconds{5000}, redis::kAllScripts);
  recommend::TrendSource reader(lost, settings, keys());
  recommend::MappedRecommender mine(reader, *served, settings);
  redis::Pipeline put_one;
  put_one.add("ZADD", keys().partition(0).newest(), 1, "a")
      .add("HSET", keys().item("a"), "published_at", 1, "title", "A");
  REQUIRE(lost.call(put_one));
  REQUIRE(run_sync(mine.find_candidates({}, now())));
  other.stop();
  const auto last = run_sync(mine.find_candidates({}, now()));
  REQUIRE(last);
  CHECK((*last)->candidates().size() == 1);
  recommend::MappedRecommender fresh(reader, *served, settings);
  const auto none = run_sync(fresh.find_candidates({}, now()));
  REQUIRE_FALSE(none);
  CHECK(none.error().code == ErrorCode::kUnavailable);
}

TEST_CASE_METHOD(Site, "an item that is dated ahead is suggested from its date on, known to the model or not",
                 "[recommender]") {
  restart();
  const auto date = now() + seconds{2};
  put(item("a", now() - seconds{60}));
  put(item("ahead", date));
  put(item("read", date));
  view(view_event("read", "f"));
  track(track_event("read", "v", 1000));
  CHECK(ids(*suggest()) == std::vector<std::string>{"a"});
  wait_for(date);
  CHECK(ids(*suggest()).size() == 3);
}

TEST_CASE_METHOD(Site, "items that are dated ahead take no place of the newest", "[recommender]") {
  settings.recommend.newest_items = 2;
  restart();
  put(item("a", now() - seconds{60}));
  for (const char* const each : {"b", "c", "d"}) put(item(each, now() + seconds{3600}));
  CHECK(ids(*suggest()) == std::vector<std::string>{"a"});
}

TEST_CASE_METHOD(Site, "what the model knows to be dated ahead is not suggested", "[recommender]") {
  REQUIRE(training::write_model(two_tastes(now() + seconds{3600}), path));
  REQUIRE(served->open(path));
  CHECK(ids(*suggest({did("roses0")})).empty());
  put_both_tastes();  // the item store has the last word
  CHECK_FALSE(ids(*suggest({did("roses0")})).empty());
}
