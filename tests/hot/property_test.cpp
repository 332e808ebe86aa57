// Laws that hold after any traffic: the served order is brute force's over the raw events, the
// shown terms give the shown score, and no key is left to live for ever.
#include <algorithm>
#include <cmath>
#include <random>

#include "core/hot/threshold_top_k.h"
#include "core/hot/engagement.h"
#include "core/hot/views.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

struct RawEvent {
  int article;
  int visitor;
  int session;
  std::int64_t dwell;
};

struct Article {
  std::int64_t pv = 0;
  std::set<int> visitors;
  std::map<int, std::int64_t> dwell;  // by session: the maximum
  UnixSeconds first;
};

class World : public Fixture {
 public:
  explicit World(std::mt19937& random, int n_articles) : random_(random) {
    const UnixSeconds today = now();
    for (int i = 0; i < n_articles; ++i) {
      Article a;
      a.first = today - seconds{number(0, 10 * 86400)};
      if (number(0, 2) == 0)
        put(item(name(i), a.first));  // some the store knows, the others by the client's word
      articles.push_back(a);
    }
  }
  static std::string name(int i) { return "art-" + std::to_string(i); }
  std::int64_t number(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  // Sends the events in one pipeline's worth of calls and keeps the books beside it.
  void traffic(int n) {
    for (int i = 0; i < n; ++i) {
      const RawEvent e{static_cast<int>(number(0, std::ssize(articles) - 1)), static_cast<int>(number(0, 30)),
                       static_cast<int>(number(0, 3)), number(0, 180000)};
      auto event = track_event(name(e.article), "v" + std::to_string(e.visitor), e.dwell,
                          "s" + std::to_string(e.visitor) + "." + std::to_string(e.session));
      Article& a = articles[static_cast<std::size_t>(e.article)];
      event.published_at = a.first;
      track(event);
      const int session = e.visitor * 10 + e.session;
      const auto [at, added] = a.dwell.emplace(session, e.dwell);
      if (added) ++a.pv;
      at->second = std::max(at->second, e.dwell);
      a.visitors.insert(e.visitor);
    }
  }
  double brute_score(const Article& a, UnixSeconds at) const {
    std::int64_t sum = 0;
    for (const auto& [session, dwell] : a.dwell) sum += dwell;
    const double mean =
        a.dwell.empty() ? 0.0 : static_cast<double>(sum) / static_cast<double>(a.dwell.size());
    const double base =
        1.0 * static_cast<double>(a.pv) + 3.0 * static_cast<double>(a.visitors.size()) + 0.002 * mean;
    return base * std::exp(-std::log(2.0) * static_cast<double>((at - a.first).count()) / 86400.0);
  }
  std::vector<Article> articles;

 private:
  std::mt19937& random_;
};

bool is_close(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

}  // namespace

TEST_CASE(
    "after random traffic the served order equals brute force over the raw events, now and at any later "
    "moment",
    "[property]") {
  std::mt19937 random(1);
  int orders = 0;
  for (int round = 0; round < 40; ++round) {
    World world(random, static_cast<int>(std::uniform_int_distribution(2, 60)(random)));
    world.traffic(400);
    const auto served = world.scan_rank(engagement_query());
    const UnixSeconds now = world.now();
    std::size_t touched = 0;
    for (const auto& a : world.articles) touched += a.pv > 0 ? 1 : 0;
    REQUIRE(served.size() == touched);
    for (int moment = 0; moment < 50; ++moment, ++orders) {
      const UnixSeconds at = now + seconds{world.number(0, 365 * 86400)};
      double above = std::numeric_limits<double>::infinity();
      for (const auto& each : served) {
        const auto& a = world.articles[std::stoul(each.item.str().substr(4))];
        const double truth = world.brute_score(a, at);
        REQUIRE((truth <= above || is_close(truth, above)));
        REQUIRE(is_close(hot::score_at(each.score, at, seconds{86400}), truth));
        above = truth;
      }
    }
  }
  CHECK(orders == 2000);
}

TEST_CASE("the terms that stats shows give the served score within 1e-9", "[property]") {
  std::mt19937 random(2);
  for (int round = 0; round < 10; ++round) {
    World world(random, 50);
    // The formula in Redis is the rule's, whatever its parameters are.
    EngagementSettings& e = world.settings.engagement;
    const auto any = [&](std::int64_t most) { return static_cast<double>(world.number(0, most)) / 997; };
    e.pv_weight = 0.1 + any(5000);
    e.uv_weight = any(9000);
    e.dwell_weight = any(100) / 1000;
    e.dwell_prior_views = any(20000);
    e.dwell_prior_ms = any(90000000);
    e.half_life = seconds{world.number(600, 400 * 86400)};
    world.open();
    world.traffic(300);
    for (std::size_t i = 0; i < world.articles.size(); ++i) {
      if (world.articles[i].pv == 0) continue;
      const auto s = world.stats(World::name(static_cast<int>(i)));
      const double base = hot::base_score({s.pv, s.uv, s.dwell_sum_ms, s.dwell_count}, e);
      REQUIRE(s.position(hot::kEngagementModel).score);
      REQUIRE(is_close(hot::rank_key(base, s.decay_start, e.half_life), *s.position(hot::kEngagementModel).score));
      REQUIRE(s.decay_start == world.articles[i].first);
      REQUIRE(s.pv == world.articles[i].pv);
      REQUIRE(s.position(hot::kEngagementModel).rank);
    }
  }
}

TEST_CASE("mode = current equals brute force over the raw views", "[property]") {
  std::mt19937 random(3);
  for (int round = 0; round < 25; ++round) {
    World world(random, static_cast<int>(std::uniform_int_distribution(1, 80)(random)));
    std::map<int, double> totals;
    std::set<std::pair<int, int>> seen_before;
    for (int i = 0; i < 400; ++i) {
      const int article = static_cast<int>(world.number(0, std::ssize(world.articles) - 1));
      const int who = static_cast<int>(world.number(0, 40));
      auto event = World::view_event(World::name(article), "f" + std::to_string(who));
      event.published_at = world.articles[static_cast<std::size_t>(article)].first;
      world.view(event);
      if (seen_before.insert({article, who}).second) totals[article] += 3;  // the others fall into the window
    }
    const auto buckets = run_sync(world.hot->buckets());
    REQUIRE(buckets);
    const UnixSeconds now = world.now();
    hot::ThresholdTopK merge(*buckets, 10, now, world.settings.views);
    while (const auto read = merge.next_read()) {
      const auto heads = run_sync(world.hot->bucket_heads(read->buckets, read->offset, read->count));
      REQUIRE(heads);
      std::vector<hot::CurrentMember> members;
      for (const auto& each : *heads)
        members.push_back({each.item, each.total, each.published, true, each.partition});
      merge.add_members(*read, members);
    }
    std::vector<std::pair<double, std::string>> want;
    for (const auto& [article, total] : totals)
      want.emplace_back(hot::view_score(total, world.articles[static_cast<std::size_t>(article)].first, now,
                                        world.settings.views),
                        World::name(article));
    std::sort(want.rbegin(), want.rend());
    const auto got = merge.top();
    REQUIRE(got.size() == std::min<std::size_t>(10, want.size()));
    for (std::size_t i = 0; i < got.size(); ++i) {
      REQUIRE(got[i].item.str() == want[i].second);
      REQUIRE(got[i].score == want[i].first);
    }
  }
}

TEST_CASE("after random traffic every key is one of ours, of its type, and lives no longer than it may",
          "[property]") {
  std::mt19937 random(4);
  World world(random, 30);
  world.settings.redis.key_prefix = "site:";
  world.open();
  for (int i = 0; i < 600; ++i) {
    const std::string id = World::name(static_cast<int>(world.number(0, 29)));
    const std::string who = "v" + std::to_string(world.number(0, 9));
    auto read = World::track_event(id, who, world.number(0, 180000));
    auto look = World::view_event(id, who);
    if (world.number(0, 1) == 0) read.event_id = look.event_id = EventId::trusted("e" + std::to_string(i));
    switch (world.number(0, 6)) {
      case 0:
      case 1:
        world.track(read);
        break;
      case 2:
      case 3:
        world.view(look);
        break;
      case 4: {
        auto one = world.item(id, world.now() - seconds{world.number(-86400, 86400 * 5)});
        one.hidden = world.number(0, 2) == 0;
        if (world.number(0, 1) == 0) one.tags = {TagName::trusted("t" + std::to_string(world.number(0, 3)))};
        world.put(one);
        break;
      }
      case 5:
        world.remove(id);
        break;
      default: {
        auto list = run_sync(world.hot->cached_list(engagement_query()));
        REQUIRE(list);
        list->json = "[]";
        if (list->freshness == hot::CachedList::Freshness::kMustBuild) world.hot->store_list(engagement_query(), *list);
      }
    }
  }
  REQUIRE(run_sync(hot::rebuild_ranks(world.redis, world.settings, world.keys())));
  std::size_t ours = 0;
  for (const auto& key : world.all_keys()) {
    if (!key.starts_with("site:")) continue;  // what the World put before it had a prefix
    ++ours;
    const auto* row = world.keys().pattern_of(key);
    INFO(key);
    REQUIRE(row);
    CHECK(world.text(world.command("TYPE", key)) == row->type);
    const bool unknown =
        row->pattern == "hot:article:{*}" && world.command("HEXISTS", key, "date").integer() == 0;
    if (!row->permanent || unknown) CHECK(world.ttl(key) > 0);
    if (row->pattern == "hot:rank" || row->pattern == "hot:score") {
      const auto reply = world.command("ZRANGE", key, 0, -1, "WITHSCORES");
      for (std::size_t i = 1; i < reply.size(); i += 2) CHECK(std::isfinite(reply[i].number().value_or(NAN)));
    }
  }
  CHECK(ours > 100);
}
