#include "core/hot/threshold_top_k.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "core/hot/views.h"

using namespace freshet;
using hot::CurrentMember;

namespace {

const ViewsSettings kDefaults;
const UnixSeconds kNow{seconds{1770000000}};

std::int64_t hour_of(UnixSeconds at) { return at.time_since_epoch().count() / 3600; }

// Simulates Redis: each bucket by total, highest first, with a bound that may be too high but never
// too low.
struct FakeBuckets {
  std::map<std::int64_t, std::vector<CurrentMember>> buckets;
  std::vector<hot::BucketUpperBound> bounds;

  FakeBuckets(const std::vector<CurrentMember>& all, double slack) {
    for (const auto& each : all) buckets[hour_of(each.published)].push_back(each);
    for (auto& [hour, members] : buckets) {
      std::sort(members.begin(), members.end(),
                [](const auto& a, const auto& b) { return a.total > b.total; });
      bounds.push_back({{hour}, members.front().total * slack});
    }
  }
  std::vector<CurrentMember> read(const hot::ThresholdTopK::Read& request) const {
    std::vector<CurrentMember> out;
    for (const auto& [hour, partition] : request.buckets) {
      const auto& members = buckets.at(hour);
      for (auto i = request.offset; i < request.offset + request.count && i < std::ssize(members); ++i)
        out.push_back(members[static_cast<std::size_t>(i)]);
    }
    return out;
  }
};

std::vector<hot::CurrentScore> run(const FakeBuckets& fake, hot::ThresholdTopK& top_k) {
  while (const auto read = top_k.next_read()) top_k.add_members(*read, fake.read(*read));
  return top_k.top();
}

std::vector<CurrentMember> random_members(std::mt19937& random, int n, int max_total, std::int64_t span_s) {
  std::vector<CurrentMember> all;
  for (int i = 0; i < n; ++i) {
    const auto age = std::uniform_int_distribution<std::int64_t>(-7200, span_s)(random);
    all.push_back({ItemId::trusted("a" + std::to_string(i)),
                   static_cast<double>(std::uniform_int_distribution(1, max_total)(random)),
                   kNow - seconds{age}, std::uniform_int_distribution(0, 9)(random) != 0});
  }
  return all;
}

std::vector<hot::CurrentScore> brute_force(const std::vector<CurrentMember>& members, std::size_t k,
                                           std::optional<UnixSeconds> from) {
  std::vector<hot::CurrentScore> out;
  for (const auto& each : members)
    if (each.eligible && (!from || each.published >= *from))
      out.push_back(
          {each.item, hot::view_score(each.total, each.published, kNow, kDefaults), each.published});
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return a.score != b.score ? a.score > b.score : a.item > b.item;
  });
  if (out.size() > k) out.resize(k);
  return out;
}

}  // namespace

TEST_CASE("the threshold algorithm equals brute force in thousands of random cases", "[rank]") {
  std::mt19937 random(20260306);
  for (int round = 0; round < 4000; ++round) {
    const int n = std::uniform_int_distribution(0, 300)(random);
    // Few totals in few hours produce many ties; long spans produce many buckets.
    const int max_total = round % 3 == 0 ? 3 : 1000;
    const std::int64_t span = round % 2 == 0 ? 20 * 3600 : 60 * 86400;
    const auto all = random_members(random, n, max_total, span);
    const auto k = static_cast<std::size_t>(std::uniform_int_distribution(1, 100)(random));
    std::optional<UnixSeconds> from;
    if (round % 4 == 1) from = kNow - seconds{std::uniform_int_distribution<std::int64_t>(0, span)(random)};
    const FakeBuckets fake(all, round % 5 == 0 ? 3.0 : 1.0);
    hot::ThresholdTopK top_k(fake.bounds, k, kNow, kDefaults, from);
    const auto actual = run(fake, top_k);
    const auto expected = brute_force(all, k, from);
    REQUIRE(actual.size() == expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      REQUIRE(actual[i].item == expected[i].item);
      REQUIRE(actual[i].score == expected[i].score);
    }
  }
}

TEST_CASE("the top twenty of twenty thousand articles needs few reads", "[rank]") {
  std::mt19937 random(7);
  std::vector<CurrentMember> all;
  std::lognormal_distribution<double> popularity(2.0, 1.5);
  for (int i = 0; i < 20000; ++i)
    all.push_back({ItemId::trusted(std::to_string(i)), popularity(random),
                   kNow - seconds{std::uniform_int_distribution<std::int64_t>(0, 30 * 86400)(random)}});
  const FakeBuckets fake(all, 1.0);
  hot::ThresholdTopK top_k(fake.bounds, 20, kNow, kDefaults);
  const auto actual = run(fake, top_k);
  REQUIRE(actual.size() == 20);
  CHECK(actual.front().item == brute_force(all, 1, std::nullopt).front().item);
  CHECK(top_k.members_read() < 500);
}

TEST_CASE("ties are broken by the greater id first, like ZREVRANGE", "[rank]") {
  const std::vector<CurrentMember> all{{ItemId::trusted("a"), 3, kNow}, {ItemId::trusted("b"), 3, kNow}};
  const FakeBuckets fake(all, 1.0);
  hot::ThresholdTopK top_k(fake.bounds, 1, kNow, kDefaults);
  CHECK(run(fake, top_k).front().item.str() == "b");
}

TEST_CASE("no buckets give an empty list", "[rank]") {
  hot::ThresholdTopK top_k({}, 20, kNow, kDefaults);
  CHECK_FALSE(top_k.next_read());
  CHECK(top_k.top().empty());
}
