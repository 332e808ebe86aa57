#include "fcgi/http/rate_limiter.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
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

// Visitors: 2/s and a burst of 10. Networks: ten times that.
LimitSettings settings() {
  LimitSettings limits;
  limits.network_factor = 10;
  limits.track = {2, 10};
  limits.feed = {2, 10};
  limits.anonymous = {0, 1};
  return limits;
}

struct Fixture {
  explicit Fixture(const LimitSettings& initial = settings())
      : limit_settings(initial), limits(tables, limit_settings) {}
  RateLimitSubject subject_at(std::string_view address, std::string_view agent = "UA",
                              const AuthResult& verified = {}) {
    Request request;
    request.remote_addr = address;
    request.user_agent = agent;
    return limits.subject_for(request, verified);
  }
  // The number of requests granted out of `times`.
  int count_granted(const RateLimitSubject& subject, int times, std::int64_t now = 0,
                    const RouteCost& cost = kTrack) {
    int count = 0;
    for (int i = 0; i < times; ++i) {
      const auto status = limits.try_consume(cost, subject, now);
      REQUIRE(status);
      count += status->granted ? 1 : 0;
    }
    return count;
  }

  LimitTables tables{TokenBucketTable(1 << 20), DailyCountTable(1 << 18)};
  const LimitSettings limit_settings;
  RateLimiter limits;
};

AuthResult reader(const std::string& id) { return {ReaderId::trusted(id), std::nullopt}; }
AuthResult cookie(const std::string& id) { return {{}, VisitorId::trusted(id)}; }

TEST_CASE(
    "the visitor bucket belongs to the signed-in reader, otherwise the cookie, otherwise address and agent",
    "[limits]") {
  Fixture fixture;
  std::set<std::uint64_t> different;
  for (const RateLimitSubject& each :
       {fixture.subject_at("192.0.2.1"), fixture.subject_at("192.0.2.2"),
        fixture.subject_at("192.0.2.1", "other"), fixture.subject_at("192.0.2.1", "UA", cookie("cX")),
        fixture.subject_at("192.0.2.1", "UA", reader("X")),
        fixture.subject_at("192.0.2.1", "UA", reader("cX"))})
    different.insert(each.visitor);
  CHECK(different.size() == 6);
  CHECK(fixture.subject_at("192.0.2.1", "a", reader("X")).visitor ==
        fixture.subject_at("::1", "b", reader("X")).visitor);
  CHECK(fixture.subject_at("192.0.2.1", "a", cookie("cX")).visitor ==
        fixture.subject_at("::1", "b", cookie("cX")).visitor);
  CHECK(fixture.subject_at("2001:db8:1:2::1").visitor == fixture.subject_at("2001:db8:1:2:3::").visitor);
  CHECK(fixture.subject_at("2001:db8:1:2::1").visitor != fixture.subject_at("2001:db8:1:3::1").visitor);
}

TEST_CASE("a network is a /24 or a /48, and a mapped IPv4 address belongs to its IPv4 network", "[limits]") {
  Fixture fixture;
  const auto network = [&](std::string_view address) { return fixture.subject_at(address).network; };
  CHECK(network("192.0.2.1") == network("192.0.2.254"));
  CHECK(network("192.0.2.1") == network("::ffff:192.0.2.9"));
  CHECK(network("192.0.2.1") != network("192.0.3.1"));
  CHECK(network("2001:db8:1:2::1") == network("2001:db8:1:ffff::9"));
  CHECK(network("2001:db8:1::1") != network("2001:db8:2::1"));
  CHECK(network("unix:") == network("unix:"));
}

TEST_CASE("a visitor has the route's rate and burst, for each endpoint separately", "[limits]") {
  Fixture fixture;
  const RateLimitSubject subject = fixture.subject_at("192.0.2.1");
  CHECK(fixture.count_granted(subject, 50) == 10);
  CHECK(fixture.count_granted(subject, 50, 0, kFeed) == 10);
  CHECK(fixture.count_granted(subject, 50, 3 * kSecond) == 6);
  CHECK(fixture.count_granted(fixture.subject_at("192.0.2.2"), 50) == 10);
}

TEST_CASE("all visitors of a network share a multiple of one visitor's tokens, whatever they call themselves",
          "[limits]") {
  Fixture fixture;
  int granted = 0;
  for (int i = 0; i < 1000; ++i)
    granted += fixture.count_granted(
        fixture.subject_at("192.0.2." + std::to_string(i % 250), "agent " + std::to_string(i)), 3);
  CHECK(granted == 100);
  CHECK(fixture.count_granted(fixture.subject_at("192.0.2.1", "UA", cookie("cX")), 1) == 0);
  CHECK(fixture.count_granted(fixture.subject_at("192.0.2.1", "UA", reader("X")), 50) == 10);  // signed in
  CHECK(fixture.count_granted(fixture.subject_at("192.0.3.1"), 50) == 10);
  CHECK(fixture.count_granted(fixture.subject_at("192.0.2.77", "new"), 50, kSecond) == 10);
  CHECK(fixture.count_granted(fixture.subject_at("192.0.2.78", "new"), 50, kSecond) == 10);
  // The network's rate is 20/s.
  CHECK(fixture.count_granted(fixture.subject_at("192.0.2.79", "new"), 50, kSecond) == 0);
}

TEST_CASE("anonymous requests that create keys are charged to the service bucket", "[limits]") {
  LimitSettings limits = settings();
  limits.anonymous = {1, 15};
  Fixture fixture(limits);
  int granted = 0;
  for (int i = 0; i < 30; ++i)
    granted += fixture.count_granted(fixture.subject_at("10.0." + std::to_string(i) + ".1"), 1);
  CHECK(granted == 15);
  const auto refused = fixture.limits.try_consume(kTrack, fixture.subject_at("10.1.0.1"), 0);
  REQUIRE(refused);
  CHECK_FALSE(refused->granted);
  CHECK(refused->kind == BucketKind::kService);
  CHECK(refused->retry_after == seconds{1});
  CHECK(fixture.count_granted(fixture.subject_at("10.1.0.2"), 1, 0, kFeed) == 1);
  CHECK(fixture.count_granted(fixture.subject_at("10.1.0.2", "UA", reader("X")), 1) == 1);
}

TEST_CASE("a network may create a hundred unverified articles at once, and as many in a day", "[limits]") {
  Fixture fixture;
  constexpr std::int64_t kDay = 86400 * kSecond;
  const auto consume_all = [&](std::string_view owner, std::int64_t now) {
    int count = 0;
    for (; count < 5000 && fixture.limits.may_create_article(owner, now); ++count)
      fixture.limits.count_created_article(owner, now);
    return count;
  };
  for (const char* owner : {"n", "m"}) CHECK(consume_all(owner, 0) == kUnverifiedArticlesPerDay);
  CHECK(consume_all("n", kDay / 2) == Approx(kUnverifiedArticlesPerDay / 2).margin(1));
  CHECK(consume_all("n", kDay) == Approx(kUnverifiedArticlesPerDay / 2).margin(1));
}

constexpr UnixSeconds kMidnight{std::chrono::days{20'000}};

// How many of `times` page views in a row may count.
int count_page_views(RateLimiter& limits, int times, std::string_view network = "n",
                     std::string_view article = "a", UnixSeconds now = kMidnight) {
  int count = 0;
  for (int i = 0; i < times; ++i)
    count += limits.number_page_view("track", network, article, now).within_quota ? 1 : 0;
  return count;
}

TEST_CASE("a network's first 50 page views of an article and day count, then each square", "[limits]") {
  Fixture fixture;
  CHECK(count_page_views(fixture.limits, 50) == 50);
  CHECK(count_page_views(fixture.limits, 13) == 0);
  CHECK(count_page_views(fixture.limits, 1) == 1);  // the 64th
  CHECK(count_page_views(fixture.limits, 10'000 - 64) == 143 - 51);
  CHECK(count_page_views(fixture.limits, 10'000, "m") == 143);
  CHECK(count_page_views(fixture.limits, 10'000, "n", "b") == 143);
  CHECK(fixture.limits.number_page_view("views", "n", "a", kMidnight).number == 1);
  CHECK(count_page_views(fixture.limits, 100, "n", "a", kMidnight + seconds{86399}) == 0);
  CHECK(count_page_views(fixture.limits, 10'000, "n", "a", kMidnight + seconds{86400}) == 143);
  LimitSettings limits = settings();
  limits.pv_per_network = 0;
  Fixture unbounded(limits);
  CHECK(count_page_views(unbounded.limits, 10'000) == 10'000);
}

TEST_CASE("a source's contributions to an article are recorded from its 21st of the day on", "[limits]") {
  LimitSettings limits = settings();
  const bool limited = GENERATE(true, false);
  CAPTURE(limited);
  if (!limited) limits.pv_per_network = 0;
  Fixture fixture(limits);
  const auto count_recorded = [&](const char* source, const char* article, UnixSeconds now) {
    int count = 0;
    for (int i = 0; i < 100; ++i)
      count += fixture.limits.number_page_view("track", source, article, now).should_record;
    return count;
  };
  for (const char* article : {"a", "b"}) {
    CHECK(count_recorded("n", article, kMidnight) == 80);
    CHECK(count_recorded("m", article, kMidnight) == 80);
    CHECK(count_recorded("n", article, kMidnight) == 100);
    CHECK(count_recorded("n", article, kMidnight + seconds{86400}) == 80);
  }
  limits.contribution_after = 0;
  Fixture all(limits);
  CHECK(all.limits.number_page_view("track", "n", "a", kMidnight).should_record);
}

TEST_CASE("numbers of events that added nothing are given back", "[limits]") {
  Fixture fixture;
  for (int i = 0; i < 1000; ++i)
    fixture.limits.give_back(fixture.limits.number_page_view("track", "n", "a", kMidnight));
  CHECK(count_page_views(fixture.limits, 50) == 50);
  for (int i = 0; i < 1000; ++i)
    fixture.limits.give_back(fixture.limits.number_page_view("track", "n", "a", kMidnight));
  CHECK(count_page_views(fixture.limits, 10'000 - 50) == 93);
}

TEST_CASE("events that are given back late do not let others count twice", "[limits]") {
  Fixture fixture;
  count_page_views(fixture.limits, 60);
  int counted = 0;
  for (int i = 0; i < 200; ++i) {
    // Reports of known sessions shift the number of a new one to the next square.
    std::vector<PageViewNumber> pending;
    for (;;) {
      const PageViewNumber number = fixture.limits.number_page_view("track", "n", "a", kMidnight);
      const bool is_square = number.within_quota;
      pending.push_back(number);
      if (is_square) break;
    }
    ++counted;
    pending.pop_back();  // the new one is counted
    for (const PageViewNumber& each : pending) fixture.limits.give_back(each);
  }
  const std::uint32_t last = fixture.limits.number_page_view("track", "n", "a", kMidnight).number;
  CHECK(static_cast<double>(counted) <= std::sqrt(last));
}

TEST_CASE("a network has so many new anonymous readers a day, and knows them for a week", "[limits]") {
  LimitSettings limits = settings();
  limits.anonymous_per_network = 3;
  Fixture fixture(limits);
  const auto may_store = [&](const char* reader, int day, std::string_view address = "192.0.2.1") {
    return fixture.limits.may_store_anonymous(reader, address, kMidnight + std::chrono::days(day));
  };
  for (const char* reader : {"a", "b", "c"}) CHECK(may_store(reader, 0));
  CHECK_FALSE(may_store("d", 0));
  CHECK_FALSE(may_store("d", 0, "192.0.2.254"));
  CHECK(may_store("e", 0, "192.0.3.1"));
  for (const int day : {0, 1, 7}) {
    CHECK(may_store("a", day));
    CHECK(may_store("a", day, "198.51.100.1"));
  }
  for (const char* reader : {"d", "f", "g"}) CHECK(may_store(reader, 1));  // the known ones did not count
  CHECK_FALSE(may_store("h", 1));
  for (const char* reader : {"i", "j", "k"}) CHECK(may_store(reader, 8));
  CHECK_FALSE(may_store("a", 8));  // new again
  limits.anonymous_per_network = 0;
  Fixture unbounded(limits);
  for (int i = 0; i < 1000; ++i)
    CHECK(unbounded.limits.may_store_anonymous(std::to_string(i), "192.0.2.1", kMidnight));
}

TEST_CASE("a busy site does not forget an anonymous reader who returns", "[limits]") {
  LimitSettings limits = settings();
  limits.anonymous_per_network = 1;
  Fixture fixture(limits);
  const auto may_store = [&](const char* reader, int day, std::string_view address) {
    return fixture.limits.may_store_anonymous(reader, address, kMidnight + std::chrono::days(day));
  };
  REQUIRE(may_store("a", 0, "192.0.2.1"));
  for (const int day : {1, 3, 7}) {
    REQUIRE(may_store("a", day, "192.0.2.1"));
    // More counters of that day than the table holds.
    for (int i = 0; i < 300'000; ++i)
      fixture.limits.number_page_view("track", "n", std::to_string(i), kMidnight + std::chrono::days(day));
    const std::string address = "198.51." + std::to_string(day) + ".1";
    REQUIRE(may_store("b", day, address));  // the network's one
    CHECK(may_store("a", day, address));
  }
}

TEST_CASE("the searches of a network's anonymous readers may use 100 ms of CPU a second", "[limits]") {
  constexpr RouteCost kSearch{"feed", &LimitSettings::feed, true, {}, true};
  Fixture fixture;
  int readers = 0;
  // Requests of 4 ms, each by another reader, which the other buckets grant.
  const auto searches_granted = [&](std::int64_t now, bool limits_searches, const RouteCost& cost) {
    int count = 0;
    for (int i = 0; i < 1000; ++i) {
      auto subject = fixture.subject_at("192.0.2.1", "UA", cookie("c" + std::to_string(++readers)));
      subject.network += limits_searches ? 0 : 1;
      subject.limits_searches = limits_searches;
      const auto status = fixture.limits.try_consume(cost, subject, now);
      if (!status->granted) break;
      fixture.limits.charge(cost, subject, std::chrono::milliseconds(4), status, now);
      ++count;
    }
    return count;
  };
  const LimitSettings& limits = fixture.limit_settings;
  const int by_requests = limits.network_factor * limits.feed.burst;
  CHECK(searches_granted(0, false, kSearch) == by_requests);
  CHECK(searches_granted(0, true, kFeed) == by_requests);
  LimitSettings many = settings();
  many.feed = {1000, 1000};
  Fixture unlimited(many);
  const auto by_time = [&](std::int64_t now) {
    int count = 0;
    for (; count < 5000; ++count) {
      auto subject = unlimited.subject_at("192.0.2.1", "UA", cookie("c" + std::to_string(++readers)));
      subject.limits_searches = true;
      const auto status = unlimited.limits.try_consume(kSearch, subject, now);
      if (!status->granted) break;
      unlimited.limits.charge(kSearch, subject, std::chrono::milliseconds(4), status, now);
    }
    return count;
  };
  CHECK(by_time(0) == Approx(250).margin(1));           // a second
  CHECK(by_time(3 * kSecond) == Approx(75).margin(1));  // 300 ms
}

// A network that sends this many requests a second, each as a new visitor.
struct NetworkLoad {
  std::string network;
  int per_second;
  int granted = 0;
};

TEST_CASE("when all networks together exceed the service's rate, the heaviest are refused first",
          "[limits]") {
  LimitSettings limits = settings();
  limits.track = {10, 20};  // 100/s for a network
  limits.anonymous = {100, 200};
  Fixture fixture(limits);
  std::vector<NetworkLoad> networks{
      {"10.0.0.", 90}, {"10.0.1.", 90}, {"10.0.2.", 90}, {"10.0.3.", 60}, {"10.0.4.", 5}};
  constexpr int kTicks = 1000;  // per second
  constexpr int kWarmUp = 60, kSeconds = 120;
  for (int tick = 0; tick < kSeconds * kTicks; ++tick) {
    for (NetworkLoad& load : networks) {
      if (tick * load.per_second / kTicks == (tick + 1) * load.per_second / kTicks) continue;
      const RateLimitSubject subject =
          fixture.subject_at(load.network + std::to_string(tick % 250), std::to_string(tick));
      const auto status = fixture.limits.try_consume(kTrack, subject, tick * (kSecond / kTicks));
      if (tick >= kWarmUp * kTicks) load.granted += status->granted ? 1 : 0;
    }
  }
  const int measured_seconds = kSeconds - kWarmUp;
  CHECK(networks[4].granted == 5 * measured_seconds);  // light networks are not affected
  int sum = 0;
  for (const NetworkLoad& load : networks) sum += load.granted;
  CHECK(sum <= 100 * measured_seconds + 200);
  CHECK(sum >= 95 * measured_seconds);
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(i, networks[i].granted / measured_seconds);
    CHECK(networks[i].granted >= 20 * measured_seconds);
    CHECK(networks[i].granted <= 28 * measured_seconds);
  }
}

TEST_CASE("a request costs its network more only while the service bucket is less than half full",
          "[limits]") {
  LimitSettings limits = settings();
  limits.track = {1, 8};  // a network has 80 tokens
  limits.anonymous = {1, 10'000};
  Fixture fixture(limits);
  int networks = 0, left = 10'000;
  const auto next_network = [&] {
    ++networks;
    return "10." + std::to_string(networks / 250) + "." + std::to_string(networks % 250) + ".";
  };
  // Granted requests of one network while the service bucket holds about that many tokens.
  const auto granted_at = [&](int tokens) {
    for (; left > tokens; --left)
      REQUIRE(fixture.count_granted(fixture.subject_at(next_network() + "1"), 1) == 1);
    const std::string network = next_network();
    int granted = 0;
    for (int i = 0; i < 100; ++i)
      granted += fixture.count_granted(fixture.subject_at(network + std::to_string(i)), 1);
    left -= granted;
    return granted;
  };
  CHECK(granted_at(7'500) == 80);
  CHECK(granted_at(5'100) == 80);
  CHECK(granted_at(3'750) == 24);  // 3.25 tokens each
  CHECK(granted_at(2'500) == 14);  // 5.5
  CHECK(granted_at(1'000) == 9);   // 8.2
}

// Granted requests of a network that sends every 10 ms, each as a new visitor.
int count_granted_writes(Fixture& fixture, double write_cost, int per_100_s, const RouteCost& cost = kTrack,
                         const AuthResult& verified = {}) {
  int granted = 0;
  for (int i = 0; i < per_100_s; ++i) {
    const std::int64_t now = 100 * kSecond / per_100_s * i;
    const auto status = fixture.limits.try_consume(
        cost, fixture.subject_at("192.0.2.1", std::to_string(i), verified), now, write_cost);
    granted += status->granted ? 1 : 0;
    if (!status->granted && verified.reader.empty()) CHECK(status->kind == BucketKind::kNetwork);
  }
  return granted;
}

TEST_CASE("while memory is scarce, a write costs its network more, and light networks do not notice",
          "[limits]") {
  // A network has 100 tokens and gets 20 a second.
  for (const auto& [write_cost, granted] :
       std::map<double, int>{{1, 2100}, {4, 525}, {9, 233}, {100, 21}, {1e6, 21}}) {
    CAPTURE(write_cost);
    Fixture heavy;
    CHECK(count_granted_writes(heavy, write_cost, 10'000) == Approx(granted).margin(1));
  }
  Fixture light;
  CHECK(count_granted_writes(light, 9, 200) == 200);
  constexpr double kWholeBucket = std::numeric_limits<double>::infinity();
  Fixture full;
  CHECK(count_granted_writes(full, kWholeBucket, 20) == 20);  // every five seconds
  const auto refused =
      full.limits.try_consume(kTrack, full.subject_at("192.0.2.2"), 96 * kSecond, kWholeBucket);
  CHECK_FALSE(refused->granted);
  CHECK(refused->retry_after == seconds{4});
}

TEST_CASE("the cost of writes applies neither to reads, nor to signed-in readers, nor without network limits",
          "[limits]") {
  Fixture reads;
  CHECK(count_granted_writes(reads, 1e6, 2000, kFeed) == 2000);
  Fixture readers;
  CHECK(count_granted_writes(readers, 1e6, 200, kTrack, reader("X")) == 200);
  LimitSettings limits = settings();
  limits.network_factor = 0;
  Fixture unlimited(limits);
  CHECK(count_granted_writes(unlimited, 1e6, 2000) == 2000);
}

TEST_CASE("memory and congestion do not add up: the higher cost applies", "[limits]") {
  LimitSettings limits = settings();
  limits.anonymous = {1, 10};
  Fixture fixture(limits);
  for (int i = 0; i < 8; ++i)
    REQUIRE(fixture.count_granted(fixture.subject_at("10.0." + std::to_string(i) + ".1"), 1) == 1);
  // Two of the service's tokens are left, so congestion makes a request cost 6.4 of the network's
  // 100. The network has 5 left after this one, more than the service.
  const auto status = fixture.limits.try_consume(kTrack, fixture.subject_at("10.1.0.1"), 0, 95);
  CHECK(status->kind == BucketKind::kService);
  CHECK(status->remaining == 1);
}

TEST_CASE("half of a network's event ids may be kept at once, and half in the course of a day", "[limits]") {
  Fixture fixture;
  constexpr std::int64_t kDay = 86400 * kSecond;
  const auto keep_all = [](RateLimiter& limits, std::string_view address, std::int64_t now) {
    int count = 0;
    for (; count < 5000 && limits.may_keep_event_id(address, 600, now); ++count) {
    }
    return count;
  };
  CHECK(keep_all(fixture.limits, "192.0.2.1", 0) == 300);
  CHECK(keep_all(fixture.limits, "192.0.2.254", 0) == 0);
  CHECK(keep_all(fixture.limits, "192.0.3.1", 0) == 300);
  CHECK(keep_all(fixture.limits, "192.0.2.1", kDay / 2) == Approx(150).margin(1));
  CHECK(keep_all(fixture.limits, "2001:db8:1:2::1", 0) == 300);
  CHECK(keep_all(fixture.limits, "2001:db8:1:3::1", 0) == 0);
  CHECK(fixture.count_granted(fixture.subject_at("192.0.2.1"), 10) == 10);  // a bucket of its own
  for (int i = 0; i < 1000; ++i) CHECK(fixture.limits.may_keep_event_id("192.0.2.1", 0, 0));
  LimitSettings limits = settings();
  limits.network_factor = 0;
  Fixture unlimited(limits);
  CHECK(keep_all(unlimited.limits, "192.0.2.1", 0) == 5000);
}

TEST_CASE("a reply describes the bucket with the fewest tokens left", "[limits]") {
  LimitSettings limits = settings();
  limits.network_factor = 1;
  Fixture fixture(limits);
  auto status = fixture.limits.try_consume(kTrack, fixture.subject_at("192.0.2.1"), 0);
  REQUIRE(status);
  CHECK(status->limit == 10);
  CHECK(status->remaining == 9);
  CHECK(status->reset == seconds{1});
  CHECK(status->kind == BucketKind::kVisitor);
  CHECK(fixture.count_granted(fixture.subject_at("192.0.2.2"), 5) == 5);
  status = fixture.limits.try_consume(kTrack, fixture.subject_at("192.0.2.1"), 0);
  CHECK(status->kind == BucketKind::kNetwork);
  CHECK(status->remaining == 3);
  Response response;
  add_rate_limit_headers(response, *status);
  CHECK(response.headers == "RateLimit-Limit: 10\r\nRateLimit-Remaining: 3\r\nRateLimit-Reset: 4\r\n");
  CHECK(fixture.count_granted(fixture.subject_at("192.0.2.3"), 5) == 3);
  status = fixture.limits.try_consume(kTrack, fixture.subject_at("192.0.2.1"), 0);
  CHECK_FALSE(status->granted);
  CHECK(status->remaining == 0);
  CHECK(status->retry_after == seconds{1});
}

TEST_CASE("a rate of 0 means no limit, and a route without a cost is free", "[limits]") {
  LimitSettings limits = settings();
  limits.track.rate = 0;
  Fixture fixture(limits);
  for (int i = 0; i < 1000; ++i)
    CHECK_FALSE(fixture.limits.try_consume(kTrack, fixture.subject_at("192.0.2.1"), 0));
  CHECK_FALSE(fixture.limits.try_consume(RouteCost{}, fixture.subject_at("192.0.2.1"), 0));
  limits = settings();
  limits.network_factor = 0;
  Fixture without(limits);
  for (int i = 0; i < 500; ++i)
    CHECK(without.count_granted(without.subject_at("192.0.2.1", std::to_string(i)), 2) == 2);
}

TEST_CASE("a later charge puts the visitor and the network in debt", "[limits]") {
  Fixture fixture;
  const RateLimitSubject subject = fixture.subject_at("192.0.2.1");
  const auto status = fixture.limits.charge(kTrack, subject, kSearchTimePerToken * 11 / 2, {}, 0);
  CHECK(status->limit == 10);
  CHECK(status->remaining == 5);
  CHECK(fixture.count_granted(subject, 50) == 5);
  CHECK(fixture.limits.charge(kTrack, subject, seconds{5000}, status, 0)->remaining == 0);
  CHECK(fixture.limits.try_consume(kTrack, subject, 0)->retry_after ==
        seconds{6});  // a debt of 10, and 1 more
  CHECK(fixture.count_granted(fixture.subject_at("192.0.2.2"), 1) == 0);
  CHECK(fixture.count_granted(fixture.subject_at("192.0.3.2"), 1) == 1);
  CHECK(fixture.count_granted(fixture.subject_at("192.0.3.2", "UA", reader("X")), 1) == 1);
}

TEST_CASE("a search that a token covers costs nothing more", "[limits]") {
  Fixture fixture;
  const RateLimitSubject subject = fixture.subject_at("192.0.2.1");
  const auto before = fixture.limits.try_consume(kFeed, subject, 0);
  CHECK(fixture.limits.charge(kFeed, subject, kSearchTimePerToken, before, 0)->remaining ==
        before->remaining);
  CHECK(fixture.count_granted(subject, 50, 0, kFeed) == 9);
  CHECK_FALSE(fixture.limits.charge(RouteCost{}, subject, seconds{1}, {}, 0));
}

TEST_CASE("workers that share a table share limits, and another table has other keys", "[limits]") {
  Fixture fixture;
  RateLimiter sibling(fixture.tables, fixture.limit_settings);
  const RateLimitSubject subject = fixture.subject_at("192.0.2.1");
  CHECK(fixture.count_granted(subject, 6) == 6);
  int more = 0;
  for (int i = 0; i < 10; ++i) more += sibling.try_consume(kTrack, subject, 0)->granted ? 1 : 0;
  CHECK(more == 4);
  Fixture elsewhere;
  CHECK(elsewhere.subject_at("192.0.2.1").visitor != subject.visitor);
}

}  // namespace
