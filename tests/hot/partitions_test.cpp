// Laws of groups: sixteen of them give what one does, and what brute force does, whatever is asked.
#include <algorithm>
#include <random>

#include "core/base/redis_clock.h"
#include "core/hot/hot_lists.h"
#include "core/hot/item_stats.h"
#include "core/hot/preview.h"
#include "core/hot/views.h"
#include "core/items/card_cache.h"
#include "core/redis/partitions/partitioned_top_n.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

// The same articles under one prefix in one group, and under another in sixteen.
class PartitionPair {
 public:
  PartitionPair() {
    one_.settings.redis.key_prefix = "one:";
    many_.settings.redis.key_prefix = "many:";
    many_.partitions = 16;
    reopen();
    now_ = one_.now();
  }
  void reopen() {
    one_.open();
    many_.open();
  }
  template <class What>
  void for_both(const What& action) {
    action(one_);
    action(many_);
  }
  int random_int(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }

  // Few dates and few counts, so that many have equal scores.
  void fill(int articles) {
    for (int i = 0; i < articles; ++i) {
      const std::string id = "art-" + std::to_string(i);
      ids_.push_back(id);
      items::Item item = one_.item(id, now_ - seconds(3600 * random_int(1, 4) - 1800));
      for (int t = 0; t < 3; ++t) {
        if (random_int(0, 1) == 0) item.tags.push_back(TagName::trusted("t" + std::to_string(t)));
      }
      if (random_int(0, 9) == 0) item.published_at = now_ + seconds(86400);
      item.hidden = random_int(0, 9) == 0;
      const int readers = random_int(0, 2), viewers = random_int(0, 2);
      for_both([&](Fixture& of) {
        of.put(item);
        for (int r = 0; r < readers; ++r) of.track(Fixture::track_event(id, "v" + std::to_string(r), 1000));
        for (int v = 0; v < viewers; ++v) {
          auto seen = Fixture::view_event(id, "f" + std::to_string(v));
          seen.occurred_at = now_ - seconds(60);
          of.view(seen);
        }
      });
    }
  }

  std::string list(Fixture& of, const hot::ListQuery& query, std::size_t limit) {
    items::CardCache cards(*of.items, 1 << 24);
    hot::HotLists lists(*of.hot, cards, of.settings);
    auto served = run_sync(lists.build_at(query, now_));
    REQUIRE(served);
    return served->list->first(limit);
  }
  // Ids: scores are of the moment.
  std::vector<std::string> preview_ids(Fixture& of, const hot::ListQuery& query) {
    items::CardCache cards(*of.items, 1 << 24);
    Settings tried = of.settings;
    tried.engagement.uv_weight = 7;
    auto served = run_sync(hot::preview(*of.hot, cards, tried, query, now_));
    REQUIRE(served);
    std::vector<std::string> out;
    const std::string json = served->list->first(100);
    for (std::size_t at = json.find("\"id\""); at != json.npos; at = json.find("\"id\"", at + 1))
      out.push_back(json.substr(at, json.find(',', at) - at));
    return out;
  }
  // Every article with a place in the model's rank that the query's filters leave, highest first.
  std::vector<hot::ScoredItem> brute_force(const hot::ListQuery& query) {
    std::vector<hot::ScoredItem> out;
    for (const std::string& id : ids_) {
      redis::Pipeline read;
      hot::append_article_read(read, one_.keys(), id);
      items::append_item_read(read, one_.keys(), ItemId::trusted(id));
      auto replies = one_.redis.call(read);
      REQUIRE(replies);
      const hot::Article article = hot::parse_article((*replies)[0], now_, one_.settings);
      const auto item = items::parse_item(ItemId::trusted(id), (*replies)[1]);
      std::optional<double> score = hot::rank_score(article, *query.model, one_.settings);
      if (query.mode == hot::ViewsMode::kCurrent) {
        score.reset();
        if (article.views_total > 0 && is_rankable(article))
          score = hot::view_score(article.views_total, *article.published, now_, one_.settings.views);
      }
      const bool recent = query.window.count() == 0 || *article.published >= now_ - query.window;
      const bool tagged = query.tag.empty() || std::ranges::count(item->tags, query.tag) > 0;
      if (score && recent && tagged && *article.published <= now_) out.push_back({item->id, *score});
    }
    std::ranges::sort(out, [](const auto& a, const auto& b) {
      return a.score != b.score ? a.score > b.score : a.item > b.item;
    });
    return out;
  }

  std::vector<std::string> ids_;
  Fixture one_, many_;
  UnixSeconds now_;
  std::mt19937 random_{7};
};

std::vector<hot::ListQuery> all_queries() {
  std::vector<hot::ListQuery> out;
  for (const hot::Model& model : hot::kModels) {
    for (const auto mode : {hot::ViewsMode::kAccumulate, hot::ViewsMode::kCurrent}) {
      if (model.base != nullptr && mode == hot::ViewsMode::kCurrent) continue;
      for (const int hours : {0, 2, 3}) {
        for (const char* const tag : {"", "t0", "t1", "nothing"}) {
          hot::ListQuery query;
          query.model = &model;
          query.mode = mode;
          query.window = seconds(3600 * hours);
          query.tag = TagName::trusted(tag);
          out.push_back(query);
        }
      }
    }
  }
  return out;
}

std::vector<std::string> top_members(Fixture& of, std::int64_t count, redis::PartitionedTopN::KeyName name,
                               std::optional<std::int64_t> from = {}) {
  const redis::Keys keys = of.keys();
  std::array lists{redis::PartitionedTopN(keys, count, name, from)};
  REQUIRE(run_sync(redis::read_remaining(of.redis, lists)));
  return lists.front().members();
}

}  // namespace

TEST_CASE_METHOD(PartitionPair, "sixteen groups give the lists that one gives, and brute force",
                 "[groups][property]") {
  fill(300);
  for (const bool rebuilt : {false, true}) {
    if (rebuilt) {
      for_both([](Fixture& of) { of.settings.engagement.pv_weight = 2; });
      reopen();
      for_both([](Fixture& of) { REQUIRE(run_sync(hot::rebuild_ranks(of.redis, of.settings, of.keys()))); });
    }
    for (const hot::ListQuery& query : all_queries()) {
      INFO(query.model->name << " " << static_cast<int>(query.mode) << " " << query.window.count() << " "
                             << query.tag.view());
      for (const std::size_t limit : {1U, 7U, 20U, 100U})
        REQUIRE(list(many_, query, limit) == list(one_, query, limit));
      const auto truth = brute_force(query);
      if (query.tag.empty() && query.window.count() == 0) CHECK(truth.size() > 100);
      if (query.mode == hot::ViewsMode::kAccumulate) {
        const auto served = many_.scan_rank(query, 37);
        REQUIRE(served.size() == truth.size());
        for (std::size_t i = 0; i < truth.size(); ++i) {
          REQUIRE(served[i].item == truth[i].item);
          REQUIRE(served[i].score == truth[i].score);
        }
        if (query.model->base != nullptr) REQUIRE(preview_ids(many_, query) == preview_ids(one_, query));
      } else {
        const std::string json = list(many_, query, 100);
        std::size_t at = 0;
        for (std::size_t i = 0; i < std::min<std::size_t>(100, truth.size()); ++i) {
          at = json.find("\"id\":\"" + truth[i].item.str() + "\"", at);
          REQUIRE(at != json.npos);
        }
      }
    }
    for (const std::string& id : ids_) {
      const auto first = one_.stats(id), second = many_.stats(id);
      for (const hot::Model& model : hot::kModels) {
        REQUIRE(first.position(model).rank == second.position(model).rank);
        REQUIRE(first.position(model).score == second.position(model).score);
      }
    }
    for (const std::int64_t count : {1, 20, 100, 250}) {
      const auto views = [](const redis::PartitionKeys& of) { return of.rank(hot::kViewsModel); };
      const auto newest = [](const redis::PartitionKeys& of) { return of.newest(); };
      REQUIRE(top_members(many_, count, views) == top_members(one_, count, views));
      REQUIRE(top_members(many_, count, newest) == top_members(one_, count, newest));
      REQUIRE(top_members(many_, count, newest, unix_s(now_)) == top_members(one_, count, newest, unix_s(now_)));
    }
  }
}

TEST_CASE_METHOD(PartitionPair, "a group that has nearly all of the best gives them all", "[groups]") {
  const redis::Keys keys = many_.keys();
  redis::Pipeline fill;
  std::vector<std::pair<double, std::string>> truth;
  for (int i = 0; i < 4000; ++i) {
    const std::string id = "art-" + std::to_string(i);
    const bool high = keys.partition_of(id) == 5;
    const double score = (high ? 1000 : 0) + i % 50;  // many are equal
    fill.add("ZADD", keys.partition_for(id).rank(hot::kEngagementModel), score, id);
    if (i % 2 == 0) fill.add("SADD", keys.partition_for(id).tagged_items("t"), id);
    truth.emplace_back(score, id);
  }
  REQUIRE(many_.redis.call(fill));
  std::ranges::sort(truth, std::greater());
  const auto rank = [](const redis::PartitionKeys& of) { return of.rank(hot::kEngagementModel); };
  const auto best = top_members(many_, 300, rank);
  REQUIRE(best.size() == 300);
  for (std::size_t i = 0; i < best.size(); ++i) REQUIRE(best[i] == truth[i].second);
  for (const std::int64_t page : {10, 100, 500}) {
    const auto all = many_.scan_rank(engagement_query(), page);
    REQUIRE(all.size() == truth.size());
    for (std::size_t i = 0; i < all.size(); ++i) REQUIRE(all[i].item.view() == truth[i].second);
    const auto tagged = many_.scan_rank(engagement_query(seconds{0}, "t"), page);
    CHECK(tagged.size() == 2000);
    CHECK(std::ranges::is_sorted(tagged, [](const auto& a, const auto& b) {
      return a.score != b.score ? a.score > b.score : a.item > b.item;
    }));
  }
}

TEST_CASE_METHOD(PartitionPair, "what articles share is in the group of each", "[groups]") {
  fill(60);
  REQUIRE(run_sync(hot::run_rank_maintenance(many_.redis, many_.settings, many_.keys())));
  const redis::Keys keys = many_.keys();
  std::set<std::string> plain, tags;
  for (const std::string& key : many_.all_keys()) {
    if (!key.starts_with("many:")) continue;
    INFO(key);
    const redis::KeyPattern* const row = keys.pattern_of(key);
    REQUIRE(row);
    if (row->pattern.find('{') != row->pattern.npos || *keys.strip_prefix(key) == row->pattern) continue;
    tags.insert(key.substr(key.rfind(':')));
  }
  for (const redis::PartitionKeys& group : keys.partitions()) {
    for (const std::string& key : {group.rank(hot::kEngagementModel), group.rank(hot::kViewsModel),
                                   group.published(), group.hidden(), group.newest()}) {
      const auto members = many_.command("ZRANGE", key, 0, -1);
      for (std::size_t i = 0; i < members.size(); ++i)
        CHECK(keys.partition_for(redis::string_at(members, i)).hidden() == group.hidden());
    }
  }
  CHECK(tags.size() > 10);
}
