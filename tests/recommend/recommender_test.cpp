// Reads trending and new items from a real Redis and ranks them with a real model file.
#include "core/recommend/recommender.h"

#include <filesystem>
#include <random>

#include "core/base/fingerprint.h"
#include "core/readers/interaction.h"
#include "core/training/train.h"
#include "tests/support/error_of.h"
#include "tests/support/store_fixture.h"
#include "tests/support/unix_socket.h"

using namespace freshet;
using namespace freshet::test;

namespace {

ItemId id(const std::string& text) { return ItemId::trusted(text); }

// Readers who like either roses or chess; half a dozen items of each.
training::TrainedModel two_tastes(UnixSeconds now, const std::vector<training::TrainingItem>& more = {}) {
  training::TrainingData data;
  data.now = now;
  for (int i = 0; i < 12; ++i) {
    const std::string taste = i < 6 ? "roses" : "chess";
    data.items.push_back(
        {taste + std::to_string(i % 6), "all about " + taste, {}, "ann", {taste}, now, false});
  }
  data.items.insert(data.items.end(), more.begin(), more.end());
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
  std::optional<recommend::TrendSource> trend_source;
  std::optional<model::ActiveModel> active_model;
  std::optional<recommend::MappedRecommender> recommender;

  Site() {
    settings.recommend.trend_refresh = milliseconds{0};  // every request refreshes
    restart();
  }
  void restart() {
    open();
    recommender.reset();
    trend_source.emplace(redis, settings, keys());
    active_model.emplace();
    active_model->open(path);
    recommender.emplace(*trend_source, *active_model, settings);
  }
  void train() {
    REQUIRE(training::write_model(two_tastes(now()), path));
    CHECK(active_model->open(path));
  }
  std::shared_ptr<const recommend::CandidateSet> candidates_for(
      std::vector<readers::InteractionRecord> done = {}, std::vector<ItemId> dismissed = {}) {
    auto out =
        run_sync(recommender->find_candidates({std::move(done), std::move(dismissed), nullptr}, now()));
    REQUIRE(out);
    return *out;
  }
  std::vector<std::string> ids(const recommend::CandidateSet& candidates) {
    std::vector<std::string> out;
    for (const recommend::RankedCandidate& each : candidates.candidates())
      out.emplace_back(candidates.id(each.item));
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
  readers::InteractionRecord interaction(const std::string& what,
                                         readers::Interaction kind = readers::Interaction::kLike) {
    return {id(what), kind, now()};
  }
};

}  // namespace

TEST_CASE_METHOD(Site, "a new reader gets trending and new items with their points", "[recommender]") {
  for (const char* each : {"a", "b", "c"}) put(item(each, now() - seconds{3600}));
  for (int i = 0; i < 5; ++i) view(view_event("b", "f" + std::to_string(i)));
  track(track_event("c", "v", 1000));
  view(view_event("unknown", "f"));
  const auto candidates = candidates_for();
  CHECK(ids(*candidates) == std::vector<std::string>{"b", "c", "a"});
  CHECK(candidates->candidates()[0].points == 15);  // a view and a first visit of the day: 3 each
  CHECK(candidates->candidates()[1].points == 3);   // a view that a report counted
  CHECK(candidates->candidates()[2].source == recommend::CandidateSource::kNewest);
  CHECK(candidates->metadata(candidates->candidates()[0].item).title == "Title of b");
  CHECK(recommender->model_name() == "none");
}

TEST_CASE_METHOD(Site, "what trends is a candidate with its decayed views", "[recommender]") {
  settings.recommend.trend_items = 1;
  settings.recommend.newest_items = 1;
  restart();
  put(item("old", now() - seconds{30 * 86400}));  // trends, but is the first of no other list
  put(item("hit", now() - seconds{4 * 3600}));
  put(item("new", now()));
  for (int i = 0; i < 6; ++i) {
    auto earlier = view_event("hit", "f" + std::to_string(i));
    earlier.occurred_at = now() - seconds{3 * 3600};
    view(earlier);
  }
  for (int i = 0; i < 3; ++i) view(view_event("old", "f" + std::to_string(i)));
  const auto candidates = candidates_for();
  bool found = false;
  for (const recommend::RankedCandidate& each : candidates->candidates()) {
    if (candidates->id(each.item) != "old") continue;
    found = true;
    CHECK(each.decayed_views[1] == Approx(3).epsilon(.01));
    CHECK(each.decayed_views[4] == Approx(3).epsilon(.01));
  }
  CHECK(found);
}

TEST_CASE_METHOD(Site, "items come with their page views and impressions", "[recommender]") {
  put(item("a", now() - seconds{3600}));
  put(item("b", now() - seconds{3600}));
  for (int i = 0; i < 3; ++i) track(track_event("a", "v" + std::to_string(i), 1000));
  redis::Pipeline shown;
  shown.add("HINCRBY", keys().article("a"), "shown", 40);
  REQUIRE(run_sync(redis::run_one(redis, shown)));
  const auto read = run_sync(trend_source->read(nullptr));
  REQUIRE(read);
  for (const recommend::LiveItem& each : *read) {
    INFO(each.id);
    CHECK(each.exposure.clicks == (each.id == "a" ? 3 : 0));
    CHECK(each.exposure.impressions == (each.id == "a" ? 40 : 0));
    CHECK(each.exposure.click_through() == (each.id == "a" ? 4.0 / 60 : 1.0 / 20));
  }
}

TEST_CASE_METHOD(Site,
                 "hidden items are not candidates; a site without registered items gets the counted ones",
                 "[recommender]") {
  view(view_event("x", "f"));
  view(view_event("y", "f"));
  CHECK(candidates_for()->candidates().size() == 2);
  put(item("a", now()));
  put(item("b", now()));
  CHECK(candidates_for()->candidates().size() == 2);  // x and y were never registered
  auto gone = item("a", now());
  gone.hidden = true;
  put(gone);
  CHECK(ids(*candidates_for()) == std::vector<std::string>{"b"});
  remove("b");
  CHECK(candidates_for()->candidates().size() == 2);  // no item is registered any more, so x and y are back
}

TEST_CASE_METHOD(Site, "a profile brings related items and attributes each to an event", "[recommender]") {
  put_both_tastes();
  train();
  const auto candidates =
      candidates_for({interaction("roses1"), interaction("roses2", readers::Interaction::kView)});
  REQUIRE(candidates->candidates().size() == 12);
  std::vector<std::uint32_t> first, last;
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(candidates->id(candidates->candidates()[i].item).starts_with("roses"));
    first.push_back(candidates->candidates()[i].item);
    last.push_back(candidates->candidates()[6 + i].item);
  }
  for (const auto& each : candidates->find_attributions(first)) {
    REQUIRE(each);
    CHECK((each->item == id("roses1") || each->item == id("roses2")));
    CHECK(each->share > 0);
    CHECK(each->share <= 1);
  }
  // If an item has two events, the stronger one is named.
  const auto twice = candidates_for({interaction("roses1", readers::Interaction::kView),
                                     interaction("roses1", readers::Interaction::kPost)});
  const std::vector<std::uint32_t> other{twice->find("roses0").value()};
  const auto attributions = twice->find_attributions(other);
  REQUIRE(attributions.front());
  CHECK(attributions.front()->kind == readers::Interaction::kPost);
  CHECK(attributions.front()->share == Approx(1));
  CHECK(recommender->model_name() ==
        std::string(active_model->current()->algorithm()) + "@" +
            std::to_string(active_model->current()->trained_at().time_since_epoch().count()));
}

TEST_CASE_METHOD(Site, "archived items take no candidate's position", "[recommender]") {
  train();
  put(item("other", now()));
  recommend::Profile profile{{interaction("roses1")}, {id("roses2")}, nullptr};
  profile.archived = std::make_shared<const std::unordered_set<std::uint64_t>>(
      std::unordered_set<std::uint64_t>{fingerprint("roses0"), fingerprint("roses3"), fingerprint("other")});
  const auto candidates = run_sync(recommender->find_candidates(profile, now()));
  REQUIRE(candidates);
  auto names = ids(**candidates);
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"other", "roses4", "roses5"});
}

TEST_CASE_METHOD(Site, "attribution shares match a sum over all relations", "[recommender]") {
  put_both_tastes();
  train();
  std::mt19937 random(7);
  for (int run = 0; run < 20; ++run) {
    std::vector<readers::InteractionRecord> profile;
    for (int i = 0; i < 4; ++i)
      profile.push_back(interaction((random() % 2 ? "roses" : "chess") + std::to_string(random() % 6)));
    const auto candidates = candidates_for(profile);
    std::vector<std::uint32_t> all;
    for (const auto& each : candidates->candidates()) all.push_back(each.item);
    const auto attributions = candidates->find_attributions(all);
    const model::Model& model = *active_model->current();
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::map<std::string, double> contributions;
      for (const readers::InteractionRecord& each : profile) {
        if (each.item.view() == candidates->id(candidates->candidates()[i].item)) continue;
        for (const auto relation :
             {model::Relation::kCf, model::Relation::kContent, model::Relation::kColdStart}) {
          for (const auto& neighbour : model.row(relation, *model.find(each.item.view()))) {
            if (model.id(neighbour.item) == candidates->id(candidates->candidates()[i].item))
              contributions[each.item.str()] +=
                  double{model.blend_weights().by_relation[static_cast<std::size_t>(relation)]} *
                  double{neighbour.weight};
          }
        }
      }
      double sum = 0, max_contribution = 0;
      for (const auto& [item, contribution] : contributions) {
        if (contribution <= 0) continue;
        sum += contribution;
        max_contribution = std::max(max_contribution, contribution);
      }
      REQUIRE(attributions[i].has_value() == (sum > 0));
      if (sum > 0) CHECK(attributions[i]->share == Approx(max_contribution / sum).epsilon(1e-4));
    }
  }
}

TEST_CASE_METHOD(Site, "an item newer than the model is compared by its content", "[recommender]") {
  put_both_tastes();
  train();
  auto fresh = item("fresh", now() - seconds{3600});
  fresh.title = "more about roses";
  fresh.tags = {TagName::trusted("roses")};
  put(fresh);
  auto other = item("other", now() - seconds{3600});
  other.title = "a concert";
  put(other);
  const auto candidates = candidates_for({interaction("roses1")});
  std::map<std::string, recommend::RankedCandidate> by_id;
  for (const auto& each : candidates->candidates()) by_id.emplace(candidates->id(each.item), each);
  CHECK(by_id.at("fresh").content > 0);
  CHECK(by_id.at("fresh").score > by_id.at("other").score);
  const std::vector<std::uint32_t> one{by_id.at("fresh").item};
  REQUIRE(candidates->find_attributions(one).front());
  CHECK(candidates->find_attributions(one).front()->item == id("roses1"));
}

TEST_CASE_METHOD(Site, "the content of an item newer than the model is its readable text", "[recommender]") {
  put_both_tastes();
  train();
  const auto put_text = [&](const std::string& name, const std::string& text, items::TextFormat format) {
    auto fresh = item(name, now() - seconds{3600});
    fresh.title = "concert";
    fresh.text = text;
    fresh.text_format = format;
    put(fresh);
  };
  put_text("markup", "<p class='roses'>music</p>", items::TextFormat::kHtml);
  put_text("html", "<p>ro<b>ses</b></p>", items::TextFormat::kHtml);
  put_text("markdown", "ro**ses**", items::TextFormat::kMarkdown);
  const auto candidates = candidates_for({interaction("roses1")});
  std::map<std::string, float> content;
  for (const auto& each : candidates->candidates()) content.emplace(candidates->id(each.item), each.content);
  CHECK(content.at("html") > 0);
  CHECK(content.at("markdown") == content.at("html"));
  CHECK(content.at("markup") == 0);
}

TEST_CASE_METHOD(Site, "similar items come from the model; unknown items have none", "[recommender]") {
  train();
  const auto similar = recommender->similar(id("chess0"), 5);
  REQUIRE(similar);
  REQUIRE(similar->size() == 5);
  for (const auto& each : *similar) CHECK(each.item.view().starts_with("chess"));
  CHECK(std::is_sorted(similar->begin(), similar->end(),
                       [](const auto& a, const auto& b) { return a.score > b.score; }));
  CHECK(recommender->similar(id("chess0"), 2)->size() == 2);
  CHECK_FALSE(recommender->similar(id("never"), 5));
}

TEST_CASE_METHOD(Site, "while Redis is unavailable, the last copy is used; without one there is an error",
                 "[recommender]") {
  CHECK(recommender->find_stale_candidates({}, now()) == nullptr);
  RedisServer other;
  redis::BlockingRedis lost(other.endpoint(), milliseconds{5000}, redis::kAllScripts);
  recommend::TrendSource reader(lost, settings, keys());
  recommend::MappedRecommender recommender_of_other(reader, *active_model, settings);
  redis::Pipeline put_one;
  put_one.add("ZADD", keys().partition(0).newest(), 1, "a")
      .add("HSET", keys().item("a"), "published_at", 1, "title", "A");
  REQUIRE(lost.call(put_one));
  REQUIRE(run_sync(recommender_of_other.find_candidates({}, now())));
  other.stop();
  const auto last = run_sync(recommender_of_other.find_candidates({}, now()));
  REQUIRE(last);
  CHECK((*last)->candidates().size() == 1);
  recommend::MappedRecommender fresh(reader, *active_model, settings);
  const auto none = run_sync(fresh.find_candidates({}, now()));
  REQUIRE_FALSE(none);
  CHECK(error_of(none).code == ErrorCode::kUnavailable);
}

TEST_CASE_METHOD(Site,
                 "an item dated in the future becomes a candidate on its date, known to the model or not",
                 "[recommender]") {
  restart();
  const auto date = now() + seconds{2};
  put(item("a", now() - seconds{60}));
  put(item("ahead", date));
  put(item("read", date));
  view(view_event("read", "f"));
  track(track_event("read", "v", 1000));
  CHECK(ids(*candidates_for()) == std::vector<std::string>{"a"});
  wait_for(date);
  CHECK(ids(*candidates_for()).size() == 3);
}

TEST_CASE_METHOD(Site, "items dated in the future take no position among the newest", "[recommender]") {
  settings.recommend.newest_items = 2;
  restart();
  put(item("a", now() - seconds{60}));
  for (const char* const each : {"b", "c", "d"}) put(item(each, now() + seconds{3600}));
  CHECK(ids(*candidates_for()) == std::vector<std::string>{"a"});
}

TEST_CASE_METHOD(Site, "an item that the model dates in the future is not a candidate", "[recommender]") {
  REQUIRE(training::write_model(two_tastes(now() + seconds{3600}), path));
  REQUIRE(active_model->open(path));
  CHECK(ids(*candidates_for({interaction("roses0")})).empty());
  put_both_tastes();  // the item store takes precedence
  CHECK_FALSE(ids(*candidates_for({interaction("roses0")})).empty());
}

TEST_CASE_METHOD(Site, "the trend has decayed views, and what was read after an item its decayed reads",
                 "[recommender]") {
  for (const char* each : {"a", "b", "c"}) put(item(each, now() - seconds{3600}));
  for (int i = 0; i < 3; ++i) view(view_event("b", "f" + std::to_string(i)));
  view(view_event("a", "f"));
  settings.recommend.trend_refresh = milliseconds{60'000};
  restart();
  const UnixSeconds at = now();
  const auto shared = run_sync(recommender->trending(at));
  REQUIRE(shared);
  const std::vector<recommend::SimilarItem>* const trend = shared->get();
  REQUIRE(trend->size() == 2);
  CHECK(run_sync(recommender->trending(at))->get() == trend);  // sorted once
  CHECK(trend->at(0).item == id("b"));
  CHECK(trend->at(1).item == id("a"));
  // With a birth view an hour ago, of which half is left.
  CHECK(trend->at(0).score == Approx(3 + .5 * settings.trending.birth_views).epsilon(.01));
  const auto later = run_sync(recommender->trending(now() + settings.trending.half_life));
  CHECK((*later)->at(0).score == Approx(trend->at(0).score / 2).epsilon(.01));

  CHECK(run_sync(recommender->covisits(id("a"), now()))->empty());
  const double hours = static_cast<double>(unix_s(now())) / 3600;
  const std::vector<items::Covisit> written{{id("b"), std::log2(8) + hours}, {id("c"), std::log2(3) + hours}};
  command("SET", keys().covisits("a"), items::encode_covisits(written));
  const auto read = run_sync(recommender->covisits(id("a"), now()));
  REQUIRE(read);
  REQUIRE(read->size() == 2);
  CHECK(read->at(0).item == id("b"));
  CHECK(read->at(0).score == Approx(8).epsilon(.01));
  CHECK(read->at(1).score == Approx(3).epsilon(.01));
}

TEST_CASE_METHOD(Site, "an embargoed item that a reader names is like an unknown one", "[recommender]") {
  put_both_tastes();
  training::TrainingItem embargoed{"embargoed", "all about roses", {}, "ann", {"roses"}, now() + seconds{60}};
  const bool is_public = GENERATE(false, true);
  if (is_public) embargoed.published = now() - seconds{60};
  REQUIRE(training::write_model(two_tastes(now(), {embargoed}), path));
  REQUIRE(active_model->open(path));
  const auto candidates = candidates_for({interaction("embargoed")});
  bool has_affinity = false;
  for (const recommend::RankedCandidate& each : candidates->candidates())
    has_affinity = has_affinity || each.affinity > 0;
  CHECK(has_affinity == is_public);
}
