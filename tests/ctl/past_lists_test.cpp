#include "scripts/ctl/replay/past_lists.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>

#include "scripts/ctl/replay/replay.h"

using namespace freshet;
using namespace freshet::ctl;

namespace {

constexpr std::int64_t kDay = 86400;
constexpr std::int64_t kStart = 1500000000;

UnixSeconds at(std::int64_t s) { return UnixSeconds{seconds{s}}; }

LogEvent visit(std::int64_t t, std::string item, std::string user, std::string session = "",
               std::int64_t dwell = 0) {
  return {at(t), "view", std::move(item), std::move(user), std::move(session), "", dwell};
}

std::map<std::string, double> scores(const std::vector<PastScore>& list) {
  std::map<std::string, double> out;
  for (const PastScore& each : list) out[each.item] = each.score;
  return out;
}

// A few days of a few readers, items and sessions: too short for a counter to expire.
EventLog random_log() {
  EventLog log;
  const auto size = *rc::gen::inRange<std::size_t>(1, 120);
  for (std::size_t i = 0; i < size; ++i) {
    log.events.push_back(
        visit(kStart + *rc::gen::inRange<std::int64_t>(0, 3 * kDay), std::to_string(*rc::gen::inRange(0, 4)),
              std::to_string(*rc::gen::inRange(0, 5)), *rc::gen::element<std::string>("", "s1", "s2"),
              *rc::gen::inRange<std::int64_t>(0, 200000)));
  }
  std::stable_sort(log.events.begin(), log.events.end(),
                   [](const LogEvent& a, const LogEvent& b) { return a.at < b.at; });
  if (*rc::gen::arbitrary<bool>())
    log.items["1"] = {at(kStart - *rc::gen::inRange<std::int64_t>(-kDay, kDay)), "one"};
  return log;
}

// Engagement score of one item from the raw events, each term in a separate pass.
double brute_force_engagement(const EventLog& log, const std::string& item, UnixSeconds now) {
  std::map<std::string, std::vector<LogEvent>> sessions;
  std::set<std::string> readers;
  std::int64_t first = -1, last = 0;
  for (const LogEvent& each : log.events) {
    if (each.item != item || each.at > now) continue;
    sessions[each.session.empty() ? each.user : each.session].push_back(each);
    readers.insert(each.user);
    const auto t = each.at.time_since_epoch().count();
    if (first < 0) first = t;
    last = t;
  }
  double pv = 0, sum = 0;
  for (const auto& [name, events] : sessions) {
    for (std::size_t begin = 0; begin < events.size();) {
      std::size_t end = begin + 1;
      while (end < events.size() && events[end].at - events[end - 1].at < seconds{1800}) ++end;
      std::int64_t longest = 0;
      for (std::size_t i = begin; i < end; ++i) {
        longest = std::max(longest, std::min<std::int64_t>(events[i].dwell_ms, 180000));
      }
      pv += 1;
      sum += static_cast<double>(longest);
      begin = end;
    }
  }
  if (log.items.contains(item)) {
    first = std::min(log.items.at(item).published.time_since_epoch().count(), last);
  }
  const double base = pv + 3 * static_cast<double>(readers.size()) + 0.002 * sum / pv;
  return base * std::exp2(-static_cast<double>(now.time_since_epoch().count() - first) / kDay);
}

// Views score of one item from the raw events.
double brute_force_views(const EventLog& log, const std::string& item, UnixSeconds now, PastMode mode) {
  std::map<std::string, std::int64_t> counted;
  std::set<std::pair<std::string, std::int64_t>> days;
  double total = 0, score = 0, published = -1;
  if (log.items.contains(item))
    published = static_cast<double>(log.items.at(item).published.time_since_epoch().count());
  const auto divisor = [&](std::int64_t t) {
    return std::pow(std::max(0.0, (static_cast<double>(t) - published) / 3600) + 2, 1.5);
  };
  for (const LogEvent& each : log.events) {
    if (each.item != item || each.at > now) continue;
    const auto t = each.at.time_since_epoch().count();
    if (counted.contains(each.user) && t - counted[each.user] < 600) continue;
    counted[each.user] = t;
    if (published < 0) published = static_cast<double>(t);
    const double worth = days.insert({each.user, t / kDay}).second ? 3 : 1;
    total += worth;
    score += worth / divisor(t);
  }
  return mode == PastMode::kAccumulate ? score : total / divisor(now.time_since_epoch().count());
}

template <class ByHand>
void check_list(const std::vector<PastScore>& list, const EventLog& log, UnixSeconds now, ByHand by_hand) {
  std::set<std::string> items;
  for (const LogEvent& each : log.events) {
    if (each.at <= now) items.insert(each.item);
  }
  RC_ASSERT(list.size() == items.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const double wanted = by_hand(list[i].item);
    RC_ASSERT(std::abs(list[i].score - wanted) <= 1e-9 * wanted);
    if (i > 0) RC_ASSERT(list[i - 1].score >= list[i].score);
  }
}

UnixSeconds random_moment() { return at(kStart + *rc::gen::inRange<std::int64_t>(0, 5 * kDay)); }

}  // namespace

TEST_CASE("the engagement list of any past moment matches brute force over the raw events", "[ctl]") {
  CHECK(rc::check("engagement", [] {
    const EventLog log = random_log();
    const UnixSeconds now = random_moment();
    check_list(engagement_list_at(log, now, Settings(), 100), log, now,
               [&](const std::string& item) { return brute_force_engagement(log, item, now); });
  }));
}

TEST_CASE("the views lists of any past moment match brute force over the raw events", "[ctl]") {
  CHECK(rc::check("views", [](bool current) {
    const EventLog log = random_log();
    const UnixSeconds now = random_moment();
    const PastMode mode = current ? PastMode::kCurrent : PastMode::kAccumulate;
    check_list(views_list_at(log, now, mode, Settings(), 100), log, now,
               [&](const std::string& item) { return brute_force_views(log, item, now, mode); });
  }));
}

TEST_CASE("later events do not count and the list respects its limit", "[ctl]") {
  EventLog log;
  log.events = {visit(kStart, "a", "1"), visit(kStart + 5, "b", "1"), visit(kStart + 6, "b", "2"),
                visit(kStart + 99, "a", "2")};
  const auto list = engagement_list_at(log, at(kStart + 6), Settings(), 1);
  REQUIRE(list.size() == 1);
  CHECK(list[0].item == "b");
  CHECK(list[0].pv == 2);
  CHECK(list[0].uv == 2);
  CHECK(list[0].score == Approx(8 * std::exp2(-1.0 / kDay)).epsilon(1e-12));
}

TEST_CASE("counters that are not renewed for thirty days start again from zero", "[ctl]") {
  EventLog log;
  log.items["a"] = {at(kStart), ""};
  for (int i = 0; i < 5; ++i) log.events.push_back(visit(kStart + i, "a", std::to_string(i)));
  SECTION("a visit before the expiry adds to them") {
    Settings settings;
    settings.list.min_score = 0;
    log.events.push_back(visit(kStart + 20 * kDay, "a", "x"));
    log.events.push_back(visit(kStart + 40 * kDay, "a", "y"));
    CHECK(engagement_list_at(log, at(kStart + 40 * kDay), settings, 9).front().pv == 7);
    CHECK(views_list_at(log, at(kStart + 40 * kDay), PastMode::kCurrent, Settings(), 9).front().pv == 7);
  }
  SECTION("a visit after the expiry is the first") {
    log.events.push_back(visit(kStart + 31 * kDay, "a", "x"));
    const auto list = engagement_list_at(log, at(kStart + 31 * kDay), Settings(), 9);
    REQUIRE(list.size() == 1);
    CHECK(list[0].pv == 1);
    CHECK(list[0].score == Approx(4 * std::exp2(-31.0)).epsilon(1e-9));
    const auto views = views_list_at(log, at(kStart + 31 * kDay), PastMode::kCurrent, Settings(), 9);
    CHECK(views.front().score == Approx(3 / std::pow(31 * 24 + 2, 1.5)).epsilon(1e-12));
  }
  SECTION("the accumulated score remains") {
    const auto before = scores(views_list_at(log, at(kStart + 10), PastMode::kAccumulate, Settings(), 9));
    const auto after =
        scores(views_list_at(log, at(kStart + 31 * kDay), PastMode::kAccumulate, Settings(), 9));
    CHECK(before == after);
    CHECK(views_list_at(log, at(kStart + 31 * kDay), PastMode::kCurrent, Settings(), 9).empty());
  }
}

TEST_CASE("an article below the minimum score is in no engagement list", "[ctl]") {
  EventLog log;
  log.events = {visit(kStart, "a", "1")};
  CHECK(engagement_list_at(log, at(kStart + 31 * kDay), Settings(), 9).size() == 1);
  CHECK(engagement_list_at(log, at(kStart + 33 * kDay), Settings(), 9).empty());
}
