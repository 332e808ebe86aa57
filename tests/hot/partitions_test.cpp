// Invariant of partitions: sixteen partitions return the same results as one, and as brute force,
// for every query.
#include <fmt/format.h>

#include <algorithm>
#include <map>
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

// The same articles under two key prefixes, one with one partition and one with sixteen.
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

  // Few dates and few counts, so that many scores are equal.
  void fill(int articles) {
    for (int i = 0; i < articles; ++i) {
      const std::string id = "art-" + std::to_string(i);
      ids_.push_back(id);
      items::Item item = one_.item(id, now_ - seconds(3600 * random_int(1, 4) - 1800));
      for (int t = 0; t < 3; ++t) {
        if (random_int(0, 1) == 0) item.tags.push_back(TagName::trusted("t" + std::to_string(t)));
      }
      const bool is_embargoed = random_int(0, 9) == 0;
      if (is_embargoed) item.published_at = now_ + seconds(86400);
      item.hidden = random_int(0, 9) == 0;
      // An embargoed article's decay begins when it is counted, which may be at different seconds.
      const int readers = is_embargoed ? 0 : random_int(0, 2), viewers = is_embargoed ? 0 : random_int(0, 2);
      for_both([&](Fixture& fixture) {
        fixture.put(item);
        for (int r = 0; r < readers; ++r) {
          auto read = Fixture::track_event(id, "v" + std::to_string(r), 1000);
          read.occurred_at = now_ - seconds(60);
          fixture.track(read);
        }
        for (int v = 0; v < viewers; ++v) {
          auto seen = Fixture::view_event(id, "f" + std::to_string(v));
          seen.occurred_at = now_ - seconds(60);
          fixture.view(seen);
        }
      });
    }
  }

  // The list's JSON for each limit.
  std::map<std::size_t, std::string> list(Fixture& fixture, const hot::ListQuery& query) {
    items::CardCache cards(*fixture.items, 1 << 24);
    hot::HotLists lists(*fixture.hot, cards, fixture.settings);
    auto served = run_sync(lists.build_at(query, now_));
    REQUIRE(served);
    std::map<std::size_t, std::string> out;
    for (const std::size_t limit : {1U, 7U, 20U, 100U}) out[limit] = served->list->first(limit);
    return out;
  }
  // Only the ids: the scores depend on the current time.
  std::vector<std::string> preview_ids(Fixture& fixture, const hot::ListQuery& query) {
    items::CardCache cards(*fixture.items, 1 << 24);
    std::vector<Settings> variants(1, fixture.settings);
    variants[0].engagement.uv_weight = 7;
    auto lists = run_sync(hot::preview(*fixture.hot, cards, variants, query, now_));
    REQUIRE(lists);
    std::vector<std::string> out;
    const std::string json = lists->front()->first(100);
    for (std::size_t at = json.find("\"id\""); at != json.npos; at = json.find("\"id\"", at + 1))
      out.push_back(json.substr(at, json.find(',', at) - at));
    return out;
  }
  struct Stored {
    hot::Article article;
    items::Item item;
  };
  std::vector<Stored> read_articles() {
    redis::Pipeline read;
    for (const std::string& id : ids_) {
      hot::append_article_read(read, one_.keys(), id);
      items::append_item_read(read, one_.keys(), ItemId::trusted(id));
    }
    auto replies = one_.redis.call(read);
    REQUIRE(replies);
    std::vector<Stored> out;
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      auto item = items::parse_item(ItemId::trusted(ids_[i]), (*replies)[2 * i + 1]);
      out.push_back({hot::parse_article((*replies)[2 * i], now_, one_.settings), std::move(*item)});
    }
    return out;
  }
  // Every article in the model's rank that matches the query's filters, highest first.
  std::vector<hot::ScoredItem> brute_force(const std::vector<Stored>& articles, const hot::ListQuery& query) {
    std::vector<hot::ScoredItem> out;
    for (const auto& [article, item] : articles) {
      std::optional<double> score = hot::rank_score(article, *query.model, one_.settings);
      if (query.mode == hot::ViewsMode::kCurrent) {
        score.reset();
        if (article.views_total > 0 && is_rankable(article))
          score = hot::view_score(article.views_total, *article.published, now_, one_.settings.views);
      }
      const bool recent = query.window.count() == 0 || *article.published >= now_ - query.window;
      const bool tagged = query.tag.empty() || std::ranges::count(item.tags, query.tag) > 0;
      if (score && recent && tagged && *article.published <= now_) out.push_back({item.id, *score});
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
      if (model.is_computed() && mode == hot::ViewsMode::kCurrent) continue;
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

// The scores in all partitions of a model's rank.
std::map<std::string, double> rank_members(Fixture& fixture, const hot::Model& model) {
  std::map<std::string, double> out;
  const redis::Keys keys = fixture.keys();
  for (unsigned i = 0; i < keys.partition_count(); ++i) {
    redis::Pipeline read;
    read.add("ZRANGE", keys.partition(i).rank(model), 0, -1, "WITHSCORES");
    const auto replies = fixture.redis.call(read);
    REQUIRE(replies);
    const redis::Reply& members = replies->front();
    for (std::size_t at = 0; at + 1 < members.size(); at += 2)
      out.emplace(redis::string_at(members, at),
                  redis::parse<double>(redis::string_at(members, at + 1)).value());
  }
  return out;
}

std::vector<std::string> top_members(Fixture& fixture, std::int64_t count,
                                     redis::PartitionedTopN::KeyName name,
                                     std::optional<std::int64_t> from = {}) {
  const redis::Keys keys = fixture.keys();
  std::array lists{redis::PartitionedTopN(keys, count, name, from)};
  REQUIRE(run_sync(redis::read_remaining(fixture.redis, lists)));
  return lists.front().members();
}

}  // namespace

TEST_CASE_METHOD(PartitionPair,
                 "sixteen partitions return the lists that one returns, and that brute force returns",
                 "[partitions][property]") {
  fill(300);
  for (const bool rebuilt : {false, true}) {
    if (rebuilt) {
      for_both([](Fixture& fixture) { fixture.settings.engagement.pv_weight = 2; });
      reopen();
      for_both([](Fixture& fixture) {
        REQUIRE(run_sync(hot::rebuild_ranks(fixture.redis, fixture.settings, fixture.keys())));
      });
    }
    const std::vector<Stored> articles = read_articles();
    for (const hot::ListQuery& query : all_queries()) {
      INFO(query.model->name << " " << static_cast<int>(query.mode) << " " << query.window.count() << " "
                             << query.tag.view());
      const auto served_lists = list(many_, query);
      REQUIRE(served_lists == list(one_, query));
      const auto expected = brute_force(articles, query);
      if (query.tag.empty() && query.window.count() == 0) CHECK(expected.size() > 100);
      if (query.mode == hot::ViewsMode::kAccumulate) {
        const auto served = many_.scan_rank(query, 37);
        REQUIRE(served.size() == expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) {
          REQUIRE(served[i].item == expected[i].item);
          REQUIRE(served[i].score == expected[i].score);
        }
        if (query.model->is_computed()) REQUIRE(preview_ids(many_, query) == preview_ids(one_, query));
      } else {
        const std::string& json = served_lists.at(100);
        std::size_t at = 0;
        for (std::size_t i = 0; i < std::min<std::size_t>(100, expected.size()); ++i) {
          at = json.find("\"id\":\"" + expected[i].item.str() + "\"", at);
          REQUIRE(at != json.npos);
        }
      }
    }
    for (const hot::Model& model : hot::kModels) {
      const auto in_one = rank_members(one_, model), in_many = rank_members(many_, model);
      for (const auto& [id, score] : in_one) {
        INFO(id << " in " << model.name);
        REQUIRE(in_many.contains(id));
        INFO(fmt::format("{:.17g} {:.17g}", score, in_many.at(id)));
        REQUIRE(score == in_many.at(id));
      }
      REQUIRE(in_many.size() == in_one.size());
    }
    for (const std::string& id : ids_) {
      const auto first = one_.stats(id), second = many_.stats(id);
      for (const hot::Model& model : hot::kModels) {
        const hot::RankPosition &one = first.position(model), &many = second.position(model);
        INFO(id << " in " << model.name << ": rank " << one.rank.value_or(0) << " and "
                << many.rank.value_or(0) << ", score " << one.score.value_or(0) << " and "
                << many.score.value_or(0));
        REQUIRE(one.score == many.score);
        REQUIRE(one.rank == many.rank);
      }
    }
    for (const std::int64_t count : {1, 20, 100, 250}) {
      const auto views = [](const redis::PartitionKeys& partition) {
        return partition.rank(hot::kViewsModel);
      };
      const auto newest = [](const redis::PartitionKeys& partition) { return partition.newest(); };
      REQUIRE(top_members(many_, count, views) == top_members(one_, count, views));
      REQUIRE(top_members(many_, count, newest) == top_members(one_, count, newest));
      REQUIRE(top_members(many_, count, newest, unix_s(now_)) ==
              top_members(one_, count, newest, unix_s(now_)));
    }
  }
}

TEST_CASE_METHOD(PartitionPair, "a partition that holds nearly all of the top articles returns them all",
                 "[partitions]") {
  const redis::Keys keys = many_.keys();
  redis::Pipeline fill;
  std::vector<std::pair<double, std::string>> expected;
  for (int i = 0; i < 4000; ++i) {
    const std::string id = "art-" + std::to_string(i);
    const bool high = keys.partition_of(id) == 5;
    const double score = (high ? 1000 : 0) + i % 50;  // many ties
    fill.add("ZADD", keys.partition_for(id).rank(hot::kEngagementModel), score, id);
    if (i % 2 == 0) fill.add("SADD", keys.partition_for(id).tagged_items("t"), id);
    expected.emplace_back(score, id);
  }
  REQUIRE(many_.redis.call(fill));
  std::ranges::sort(expected, std::greater());
  const auto rank = [](const redis::PartitionKeys& partition) {
    return partition.rank(hot::kEngagementModel);
  };
  const auto best = top_members(many_, 300, rank);
  REQUIRE(best.size() == 300);
  for (std::size_t i = 0; i < best.size(); ++i) REQUIRE(best[i] == expected[i].second);
  for (const std::int64_t page : {10, 100, 500}) {
    const auto all = many_.scan_rank(engagement_query(), page);
    REQUIRE(all.size() == expected.size());
    for (std::size_t i = 0; i < all.size(); ++i) REQUIRE(all[i].item.view() == expected[i].second);
    const auto tagged = many_.scan_rank(engagement_query(seconds{0}, "t"), page);
    CHECK(tagged.size() == 2000);
    CHECK(std::ranges::is_sorted(tagged, [](const auto& a, const auto& b) {
      return a.score != b.score ? a.score > b.score : a.item > b.item;
    }));
  }
}

TEST_CASE_METHOD(PartitionPair, "every shared key is in the partition of its articles", "[partitions]") {
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
  for (const redis::PartitionKeys& partition : keys.partitions()) {
    for (const std::string& key : {partition.rank(hot::kEngagementModel), partition.rank(hot::kViewsModel),
                                   partition.published(), partition.hidden(), partition.newest()}) {
      const auto members = many_.command("ZRANGE", key, 0, -1);
      for (std::size_t i = 0; i < members.size(); ++i)
        CHECK(keys.partition_for(redis::string_at(members, i)).hidden() == partition.hidden());
    }
  }
  CHECK(tags.size() > 10);
}
