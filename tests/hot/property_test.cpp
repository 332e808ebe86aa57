// Invariants after any traffic: the served order equals brute force over the raw events, the terms
// add up to the served score, and no temporary key is left without a TTL.
#include <algorithm>
#include <cmath>
#include <random>

#include "core/hot/engagement.h"
#include "core/hot/threshold_top_k.h"
#include "core/hot/views.h"
#include "tests/support/repeat_count.h"
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

class TrafficFixture : public Fixture {
 public:
  explicit TrafficFixture(std::mt19937& random, int n_articles) : random_(random) {
    const UnixSeconds today = now();
    for (int i = 0; i < n_articles; ++i) {
      Article a;
      a.first = today - seconds{number(0, 10 * 86400)};
      if (number(0, 2) == 0)
        put(item(name(i), a.first));  // some items are known to the store, others only by the client's date
      articles.push_back(a);
    }
  }
  static std::string name(int i) { return "art-" + std::to_string(i); }
  std::int64_t number(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  // Sends the events and records them for comparison.
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
    "time",
    "[property][long]") {
  std::mt19937 random(1);
  const int rounds = repeat_count(8, 40);
  int orders = 0;
  for (int round = 0; round < rounds; ++round) {
    TrafficFixture fixture(random, static_cast<int>(std::uniform_int_distribution(2, 60)(random)));
    fixture.traffic(400);
    const auto served = fixture.scan_rank(engagement_query());
    const UnixSeconds now = fixture.now();
    std::size_t touched = 0;
    for (const auto& a : fixture.articles) touched += a.pv > 0 ? 1 : 0;
    REQUIRE(served.size() == touched);
    for (int moment = 0; moment < 50; ++moment, ++orders) {
      const UnixSeconds at = now + seconds{fixture.number(0, 365 * 86400)};
      double above = std::numeric_limits<double>::infinity();
      for (const auto& each : served) {
        const auto& a = fixture.articles[std::stoul(each.item.str().substr(4))];
        const double expected = fixture.brute_score(a, at);
        REQUIRE((expected <= above || is_close(expected, above)));
        REQUIRE(is_close(hot::score_at(each.score, at, seconds{86400}), expected));
        above = expected;
      }
    }
  }
  CHECK(orders == 50 * rounds);
}

TEST_CASE("the terms in the statistics give the served score within 1e-9", "[property]") {
  std::mt19937 random(2);
  for (int round = 0; round < 5; ++round) {
    TrafficFixture fixture(random, 50);
    // Redis stores what the C++ formula computes, for any parameters.
    EngagementSettings& e = fixture.settings.engagement;
    const auto random_value = [&](std::int64_t max) {
      return static_cast<double>(fixture.number(0, max)) / 997;
    };
    e.pv_weight = 0.1 + random_value(5000);
    e.uv_weight = random_value(9000);
    e.dwell_weight = random_value(100) / 1000;
    e.dwell_prior_views = random_value(20000);
    e.dwell_prior_ms = random_value(90000000);
    e.half_life = seconds{fixture.number(600, 400 * 86400)};
    fixture.open();
    fixture.traffic(300);
    for (std::size_t i = 0; i < fixture.articles.size(); ++i) {
      if (fixture.articles[i].pv == 0) continue;
      const auto s = fixture.stats(TrafficFixture::name(static_cast<int>(i)));
      const double base = hot::base_score({s.pv, s.uv, s.dwell_sum_ms, s.dwell_count}, e);
      REQUIRE(s.position(hot::kEngagementModel).score);
      REQUIRE(is_close(hot::rank_key(base, s.decay_start, e.half_life),
                       *s.position(hot::kEngagementModel).score));
      REQUIRE(s.decay_start == fixture.articles[i].first);
      REQUIRE(s.pv == fixture.articles[i].pv);
      REQUIRE(s.position(hot::kEngagementModel).rank);
    }
  }
}

TEST_CASE("mode = current equals brute force over the raw views", "[property][long]") {
  std::mt19937 random(3);
  const int rounds = repeat_count(8, 25);
  for (int round = 0; round < rounds; ++round) {
    TrafficFixture fixture(random, static_cast<int>(std::uniform_int_distribution(1, 80)(random)));
    std::map<int, double> totals;
    std::set<std::pair<int, int>> seen_before;
    for (int i = 0; i < 400; ++i) {
      const int article = static_cast<int>(fixture.number(0, std::ssize(fixture.articles) - 1));
      const int visitor = static_cast<int>(fixture.number(0, 40));
      auto event = TrafficFixture::view_event(TrafficFixture::name(article), "f" + std::to_string(visitor));
      event.published_at = fixture.articles[static_cast<std::size_t>(article)].first;
      fixture.view(event);
      // Others are within the dedup window.
      if (seen_before.insert({article, visitor}).second) totals[article] += 3;
    }
    const auto buckets = run_sync(fixture.hot->buckets());
    REQUIRE(buckets);
    const UnixSeconds now = fixture.now();
    hot::ThresholdTopK merge(*buckets, 10, now, fixture.settings.views);
    while (const auto read = merge.next_read()) {
      const auto heads = run_sync(fixture.hot->bucket_heads(read->buckets, read->offset, read->count));
      REQUIRE(heads);
      std::vector<hot::CurrentMember> members;
      for (const auto& each : *heads)
        members.push_back({each.item, each.total, each.published, true, each.partition});
      merge.add_members(*read, members);
    }
    std::vector<std::pair<double, std::string>> expected;
    for (const auto& [article, total] : totals)
      expected.emplace_back(hot::view_score(total, fixture.articles[static_cast<std::size_t>(article)].first,
                                            now, fixture.settings.views),
                            TrafficFixture::name(article));
    std::sort(expected.rbegin(), expected.rend());
    const auto actual = merge.top();
    REQUIRE(actual.size() == std::min<std::size_t>(10, expected.size()));
    for (std::size_t i = 0; i < actual.size(); ++i) {
      REQUIRE(actual[i].item.str() == expected[i].second);
      REQUIRE(actual[i].score == expected[i].first);
    }
  }
}

TEST_CASE("after random traffic every key is known, has its type, and has a TTL unless it is permanent",
          "[property]") {
  std::mt19937 random(4);
  TrafficFixture fixture(random, 30);
  fixture.settings.redis.key_prefix = "site:";
  fixture.open();
  for (int i = 0; i < 600; ++i) {
    const std::string id = TrafficFixture::name(static_cast<int>(fixture.number(0, 29)));
    const std::string visitor = "v" + std::to_string(fixture.number(0, 9));
    auto read = TrafficFixture::track_event(id, visitor, fixture.number(0, 180000));
    auto viewing = TrafficFixture::view_event(id, visitor);
    if (fixture.number(0, 1) == 0)
      read.event_id = viewing.event_id = EventId::trusted("e" + std::to_string(i));
    switch (fixture.number(0, 6)) {
      case 0:
      case 1:
        fixture.track(read);
        break;
      case 2:
      case 3:
        fixture.view(viewing);
        break;
      case 4: {
        auto one = fixture.item(id, fixture.now() - seconds{fixture.number(-86400, 86400 * 5)});
        one.hidden = fixture.number(0, 2) == 0;
        if (fixture.number(0, 1) == 0)
          one.tags = {TagName::trusted("t" + std::to_string(fixture.number(0, 3)))};
        fixture.put(one);
        break;
      }
      case 5:
        fixture.remove(id);
        break;
      default: {
        auto list = run_sync(fixture.hot->cached_list(engagement_query()));
        REQUIRE(list);
        list->json = "[]";
        if (list->freshness == hot::CachedList::Freshness::kMustBuild)
          fixture.hot->store_list(engagement_query(), *list);
      }
    }
  }
  REQUIRE(run_sync(hot::rebuild_ranks(fixture.redis, fixture.settings, fixture.keys())));
  std::size_t ours = 0;
  for (const auto& key : fixture.all_keys()) {
    if (!key.starts_with("site:")) continue;  // written before the prefix was set
    ++ours;
    const auto* row = fixture.keys().pattern_of(key);
    INFO(key);
    REQUIRE(row);
    CHECK(fixture.text(fixture.command("TYPE", key)) == row->type);
    const bool unknown =
        row->pattern == "hot:article:{*}" && fixture.command("HEXISTS", key, "date").integer() == 0;
    if (!row->permanent || unknown) CHECK(fixture.ttl(key) > 0);
    if (row->pattern == "hot:rank" || row->pattern == "hot:score") {
      const auto reply = fixture.command("ZRANGE", key, 0, -1, "WITHSCORES");
      for (std::size_t i = 1; i < reply.size(); i += 2) CHECK(std::isfinite(reply[i].number().value_or(NAN)));
    }
  }
  CHECK(ours > 100);
}
