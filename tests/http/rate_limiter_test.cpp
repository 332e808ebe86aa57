#include "fcgi/http/rate_limiter.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace freshet;
using namespace freshet::http;

namespace {

constexpr std::int64_t kSecond = 1'000'000;
constexpr RouteCost kTrack{"track", &LimitSettings::track, true};
constexpr RouteCost kFeed{"feed", &LimitSettings::feed};

// Visitors 2/s and 10 at once, networks ten times that.
LimitSettings settings() {
  LimitSettings limits;
  limits.network_factor = 10;
  limits.track = {2, 10};
  limits.feed = {2, 10};
  limits.anonymous = {0, 1};
  return limits;
}

struct Fixture {
  explicit Fixture(const LimitSettings& given = settings()) : limit_settings(given), limits(table, limit_settings) {}
  RateLimitSubject subject_at(std::string_view address, std::string_view agent = "UA", const AuthResult& verified = {}) {
    Request request;
    request.remote_addr = address;
    request.user_agent = agent;
    return limits.subject_for(request, verified);
  }
  // How many of `times` are granted.
  int count_granted(const RateLimitSubject& subject, int times, std::int64_t now = 0, const RouteCost& cost = kTrack) {
    int count = 0;
    for (int i = 0; i < times; ++i) {
      const auto allowance = limits.try_consume(cost, subject, now);
      REQUIRE(allowance);
      count += allowance->granted ? 1 : 0;
    }
    return count;
  }

  TokenBucketTable table{1 << 20};
  const LimitSettings limit_settings;
  RateLimiter limits;
};

AuthResult reader(const std::string& id) { return {ReaderId::trusted(id), std::nullopt}; }
AuthResult cookie(const std::string& id) { return {{}, VisitorId::trusted(id)}; }

TEST_CASE("a visitor is who is signed in, else the cookie, else the address and the agent", "[limits]") {
  Fixture fixture;
  std::set<std::uint64_t> different;
  for (const RateLimitSubject& each :
       {fixture.subject_at("192.0.2.1"), fixture.subject_at("192.0.2.2"), fixture.subject_at("192.0.2.1", "other"),
        fixture.subject_at("192.0.2.1", "UA", cookie("cX")), fixture.subject_at("192.0.2.1", "UA", reader("X")),
        fixture.subject_at("192.0.2.1", "UA", reader("cX"))})
    different.insert(each.visitor);
  CHECK(different.size() == 6);
  CHECK(fixture.subject_at("192.0.2.1", "a", reader("X")).visitor == fixture.subject_at("::1", "b", reader("X")).visitor);
  CHECK(fixture.subject_at("192.0.2.1", "a", cookie("cX")).visitor ==
        fixture.subject_at("::1", "b", cookie("cX")).visitor);
  CHECK(fixture.subject_at("2001:db8:1:2::1").visitor == fixture.subject_at("2001:db8:1:2:3::").visitor);
  CHECK(fixture.subject_at("2001:db8:1:2::1").visitor != fixture.subject_at("2001:db8:1:3::1").visitor);
}

TEST_CASE("a network is a /24 or a /48, an address mapped into IPv6 that of its IPv4", "[limits]") {
  Fixture fixture;
  const auto network = [&](std::string_view address) { return fixture.subject_at(address).network; };
  CHECK(network("192.0.2.1") == network("192.0.2.254"));
  CHECK(network("192.0.2.1") == network("::ffff:192.0.2.9"));
  CHECK(network("192.0.2.1") != network("192.0.3.1"));
  CHECK(network("2001:db8:1:2::1") == network("2001:db8:1:ffff::9"));
  CHECK(network("2001:db8:1::1") != network("2001:db8:2::1"));
  CHECK(network("unix:") == network("unix:"));
}

TEST_CASE("a visitor has the rate and the burst of the route, each endpoint apart", "[limits]") {
  Fixture fixture;
  const RateLimitSubject payer = fixture.subject_at("192.0.2.1");
  CHECK(fixture.count_granted(payer, 50) == 10);
  CHECK(fixture.count_granted(payer, 50, 0, kFeed) == 10);
  CHECK(fixture.count_granted(payer, 50, 3 * kSecond) == 6);
  CHECK(fixture.count_granted(fixture.subject_at("192.0.2.2"), 50) == 10);
}

TEST_CASE("the visitors of a network have so many times one's tokens together, whatever they call themselves",
          "[limits]") {
  Fixture fixture;
  int given = 0;
  for (int i = 0; i < 1000; ++i)
    given +=
        fixture.count_granted(fixture.subject_at("192.0.2." + std::to_string(i % 250), "agent " + std::to_string(i)), 3);
  CHECK(given == 100);
  CHECK(fixture.count_granted(fixture.subject_at("192.0.2.1", "UA", cookie("cX")), 1) == 0);
  CHECK(fixture.count_granted(fixture.subject_at("192.0.2.1", "UA", reader("X")), 50) == 10);  // is signed in
  CHECK(fixture.count_granted(fixture.subject_at("192.0.3.1"), 50) == 10);
  CHECK(fixture.count_granted(fixture.subject_at("192.0.2.77", "new"), 50, kSecond) == 10);
  CHECK(fixture.count_granted(fixture.subject_at("192.0.2.78", "new"), 50, kSecond) == 10);
  CHECK(fixture.count_granted(fixture.subject_at("192.0.2.79", "new"), 50, kSecond) == 0);  // 20 a second
}

TEST_CASE("what makes keys takes from the service's bucket when nobody is signed in", "[limits]") {
  LimitSettings limits = settings();
  limits.anonymous = {1, 15};
  Fixture fixture(limits);
  int given = 0;
  for (int i = 0; i < 30; ++i) given += fixture.count_granted(fixture.subject_at("10.0." + std::to_string(i) + ".1"), 1);
  CHECK(given == 15);
  const auto refused = fixture.limits.try_consume(kTrack, fixture.subject_at("10.1.0.1"), 0);
  REQUIRE(refused);
  CHECK_FALSE(refused->granted);
  CHECK(refused->kind == BucketKind::kService);
  CHECK(refused->retry_after == seconds{1});
  CHECK(fixture.count_granted(fixture.subject_at("10.1.0.2"), 1, 0, kFeed) == 1);
  CHECK(fixture.count_granted(fixture.subject_at("10.1.0.2", "UA", reader("X")), 1) == 1);
}

TEST_CASE("a share is so many at once and so many a day, of each network and article", "[limits]") {
  LimitSettings limits = settings();
  limits.uv_per_network = 500;
  Fixture fixture(limits);
  constexpr std::int64_t kDay = 86400 * kSecond;
  const auto used_up = [&](Quota share, std::string_view whose, std::string_view of, std::int64_t now) {
    int used = 0;
    for (; used < 5000 && fixture.limits.has_quota(share, whose, of, now); ++used)
      fixture.limits.consume_quota(share, whose, of, now);
    return used;
  };
  CHECK(used_up(Quota::kArticleVisitors, "n", "a", 0) == 500);
  CHECK(used_up(Quota::kArticleVisitors, "n", "b", 0) == 500);
  CHECK(used_up(Quota::kArticleVisitors, "m", "a", 0) == 500);
  CHECK(used_up(Quota::kArticleVisitors, "n", "a", kDay / 2) == Approx(250).margin(1));
  CHECK(used_up(Quota::kArticleVisitors, "n", "a", kDay) == Approx(250).margin(1));
  CHECK(used_up(Quota::kUnverifiedArticles, "n", {}, 0) == kUnverifiedArticlesPerDay);
  CHECK(used_up(Quota::kUnattributedReports, "n", {}, 0) == 20);
  limits.uv_per_network = 0;
  Fixture unbounded(limits);
  for (int i = 0; i < 2000; ++i) unbounded.limits.consume_quota(Quota::kArticleVisitors, "n", "a", 0);
  CHECK(unbounded.limits.has_quota(Quota::kArticleVisitors, "n", "a", 0));
}

// A network asks so often a second, each time as somebody else.
struct NetworkLoad {
  std::string network;
  int per_second;
  int granted = 0;
};

TEST_CASE("when all ask for more than the service gives, the heaviest networks are refused first",
          "[limits]") {
  LimitSettings limits = settings();
  limits.track = {10, 20};  // a network: 100 a second
  limits.anonymous = {100, 200};
  Fixture fixture(limits);
  std::vector<NetworkLoad> crowds{
      {"10.0.0.", 90}, {"10.0.1.", 90}, {"10.0.2.", 90}, {"10.0.3.", 60}, {"10.0.4.", 5}};
  constexpr int kTicks = 1000;  // a second
  constexpr int kWarmUp = 60, kSeconds = 120;
  for (int tick = 0; tick < kSeconds * kTicks; ++tick) {
    for (NetworkLoad& crowd : crowds) {
      if (tick * crowd.per_second / kTicks == (tick + 1) * crowd.per_second / kTicks) continue;
      const RateLimitSubject payer = fixture.subject_at(crowd.network + std::to_string(tick % 250), std::to_string(tick));
      const auto allowance = fixture.limits.try_consume(kTrack, payer, tick * (kSecond / kTicks));
      if (tick >= kWarmUp * kTicks) crowd.granted += allowance->granted ? 1 : 0;
    }
  }
  const int of_seconds = kSeconds - kWarmUp;
  CHECK(crowds[4].granted == 5 * of_seconds);  // who asks little does not notice
  int sum = 0;
  for (const NetworkLoad& crowd : crowds) sum += crowd.granted;
  CHECK(sum <= 100 * of_seconds + 200);
  CHECK(sum >= 95 * of_seconds);
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(i, crowds[i].granted / of_seconds);
    CHECK(crowds[i].granted >= 20 * of_seconds);
    CHECK(crowds[i].granted <= 28 * of_seconds);
  }
}

TEST_CASE("a reply tells of the bucket that has the fewest tokens left", "[limits]") {
  LimitSettings limits = settings();
  limits.network_factor = 1;
  Fixture fixture(limits);
  auto told = fixture.limits.try_consume(kTrack, fixture.subject_at("192.0.2.1"), 0);
  REQUIRE(told);
  CHECK(told->limit == 10);
  CHECK(told->remaining == 9);
  CHECK(told->reset == seconds{1});
  CHECK(told->kind == BucketKind::kVisitor);
  CHECK(fixture.count_granted(fixture.subject_at("192.0.2.2"), 5) == 5);
  told = fixture.limits.try_consume(kTrack, fixture.subject_at("192.0.2.1"), 0);
  CHECK(told->kind == BucketKind::kNetwork);
  CHECK(told->remaining == 3);
  Response response;
  add_rate_limit_headers(response, *told);
  CHECK(response.headers == "RateLimit-Limit: 10\r\nRateLimit-Remaining: 3\r\nRateLimit-Reset: 4\r\n");
  CHECK(fixture.count_granted(fixture.subject_at("192.0.2.3"), 5) == 3);
  told = fixture.limits.try_consume(kTrack, fixture.subject_at("192.0.2.1"), 0);
  CHECK_FALSE(told->granted);
  CHECK(told->remaining == 0);
  CHECK(told->retry_after == seconds{1});
}

TEST_CASE("a rate of 0 limits nothing, and a route without a cost takes nothing", "[limits]") {
  LimitSettings limits = settings();
  limits.track.rate = 0;
  Fixture fixture(limits);
  for (int i = 0; i < 1000; ++i) CHECK_FALSE(fixture.limits.try_consume(kTrack, fixture.subject_at("192.0.2.1"), 0));
  CHECK_FALSE(fixture.limits.try_consume(RouteCost{}, fixture.subject_at("192.0.2.1"), 0));
  limits = settings();
  limits.network_factor = 0;
  Fixture without(limits);
  for (int i = 0; i < 500; ++i) CHECK(without.count_granted(without.subject_at("192.0.2.1", std::to_string(i)), 2) == 2);
}

TEST_CASE("what is charged afterwards is owed by the visitor and the network", "[limits]") {
  Fixture fixture;
  const RateLimitSubject payer = fixture.subject_at("192.0.2.1");
  const auto told = fixture.limits.charge(kTrack, payer, kSearchTimePerToken * 11 / 2, {}, 0);
  CHECK(told->limit == 10);
  CHECK(told->remaining == 5);
  CHECK(fixture.count_granted(payer, 50) == 5);
  CHECK(fixture.limits.charge(kTrack, payer, seconds{5000}, told, 0)->remaining == 0);
  CHECK(fixture.limits.try_consume(kTrack, payer, 0)->retry_after == seconds{6});  // owes 10, and 1 more
  CHECK(fixture.count_granted(fixture.subject_at("192.0.2.2"), 1) == 0);
  CHECK(fixture.count_granted(fixture.subject_at("192.0.3.2"), 1) == 1);
  CHECK(fixture.count_granted(fixture.subject_at("192.0.3.2", "UA", reader("X")), 1) == 1);
}

TEST_CASE("a search that a token pays for is charged no more", "[limits]") {
  Fixture fixture;
  const RateLimitSubject payer = fixture.subject_at("192.0.2.1");
  const auto before = fixture.limits.try_consume(kFeed, payer, 0);
  CHECK(fixture.limits.charge(kFeed, payer, kSearchTimePerToken, before, 0)->remaining == before->remaining);
  CHECK(fixture.count_granted(payer, 50, 0, kFeed) == 9);
  CHECK_FALSE(fixture.limits.charge(RouteCost{}, payer, seconds{1}, {}, 0));
}

TEST_CASE("workers that share a table have one limit, and its keys are another's elsewhere", "[limits]") {
  Fixture fixture;
  RateLimiter sibling(fixture.table, fixture.limit_settings);
  const RateLimitSubject payer = fixture.subject_at("192.0.2.1");
  CHECK(fixture.count_granted(payer, 6) == 6);
  int more = 0;
  for (int i = 0; i < 10; ++i) more += sibling.try_consume(kTrack, payer, 0)->granted ? 1 : 0;
  CHECK(more == 4);
  Fixture elsewhere;
  CHECK(elsewhere.subject_at("192.0.2.1").visitor != payer.visitor);
}

}  // namespace
