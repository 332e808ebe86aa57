// freshetctl import-counters: counts of another plugin.
#include "scripts/ctl/replay/import_counters.h"

#include "core/hot/engagement.h"
#include "core/hot/views.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;
using namespace freshet::ctl;

namespace {

struct ImportFixture : Fixture {
  // Imports these lines. Returns the reasons for rejected ones.
  std::vector<std::string> import(const std::string& ndjson) {
    const CounterFile file = parse_counters(ndjson);
    REQUIRE(file.rejected.empty());
    const auto rejected = import_counters(redis, settings, keys(), file.lines);
    INFO((rejected ? "" : rejected.error().detail));
    REQUIRE(rejected);
    std::vector<std::string> out;
    for (const RejectedCounterLine& each : *rejected)
      out.push_back(std::to_string(each.line) + " " + each.reason);
    return out;
  }
};

std::vector<std::string> rejections(const std::string& ndjson) {
  std::vector<std::string> out;
  for (const RejectedCounterLine& each : parse_counters(ndjson).rejected)
    out.push_back(std::to_string(each.line) + " " + each.reason);
  return out;
}

}  // namespace

TEST_CASE("lines of counts are parsed, and each bad one is rejected with its reason", "[import_counters]") {
  const CounterFile good = parse_counters(
      "{\"id\":42,\"pv\":10,\"uv\":4,\"first\":\"2019-05-01T00:00:00Z\",\"plugin\":\"x\"}\n\n  "
      "\r\n{\"id\":\"b\",\"pv\":1}");
  CHECK(good.rejected.empty());
  REQUIRE(good.lines.size() == 2);
  CHECK(good.lines[0].item.view() == "42");
  CHECK(good.lines[0].pv == 10);
  CHECK(good.lines[0].uv == 4);
  CHECK(unix_s(*good.lines[0].first) == 1556668800);
  CHECK(good.lines[1].line == 4);
  CHECK(good.lines[1].uv == 0);
  CHECK_FALSE(good.lines[1].first);
  CHECK(parse_counters("").lines.empty());

  const std::string fine = R"({"id":"fine","pv":1})";
  for (const char* bad : {"x",
                          "[]",
                          "null",
                          "42",
                          "{",
                          R"({"pv":1})",
                          R"({"id":"","pv":1})",
                          R"({"id":"a\u0001b","pv":1})",
                          R"({"id":null,"pv":1})",
                          R"({"id":"a"})",
                          R"({"id":"a","pv":0})",
                          R"({"id":"a","pv":-1})",
                          R"({"id":"a","pv":1.5})",
                          R"({"id":"a","pv":"7"})",
                          R"({"id":"a","pv":1e300})",
                          R"({"id":"a","pv":1000000000001})",
                          R"({"id":"a","pv":5,"uv":6})",
                          R"({"id":"a","pv":5,"uv":-1})",
                          R"({"id":"a","pv":200000000,"uv":100000001})",
                          R"({"id":"a","pv":5,"first":"soon"})",
                          R"({"id":"a","pv":5,"first":[]})",
                          R"({"id":"fine","pv":1})"}) {
    INFO(bad);
    const CounterFile file = parse_counters(fine + "\n" + bad + "\n" + R"({"id":"last","pv":1})");
    REQUIRE(file.rejected.size() == 1);
    CHECK(file.rejected[0].line == 2);
    CHECK(file.rejected[0].reason.size() > 5);
    CHECK(file.lines.size() == 2);
  }
  CHECK(rejections(R"({"id":"a","pv":5,"uv":6})") == std::vector<std::string>{"1 uv: is more than pv"});
  const CounterFile named = parse_counters("{\"id\":7,\"pv\":0}\n{\"id\":\"\",\"pv\":1}\nx");
  REQUIRE(named.rejected.size() == 3);
  CHECK(named.rejected[0].id == "7");
  CHECK(named.rejected[1].id.empty());
  CHECK(named.rejected[2].id.empty());
  CHECK(rejections(fine + "\n" + fine) == std::vector<std::string>{"2 id: occurs in an earlier line"});
}

TEST_CASE("dates in the future are counted", "[import_counters]") {
  const CounterFile file = parse_counters(R"({"id":"a","pv":1,"first":2000})"
                                          "\n"
                                          R"({"id":"b","pv":1,"first":1000})"
                                          "\n"
                                          R"({"id":"c","pv":1})");
  CHECK(count_future_dates(file.lines, UnixSeconds{seconds{1999}}) == 1);
  CHECK(count_future_dates(file.lines, UnixSeconds{seconds{2000}}) == 0);
}

TEST_CASE_METHOD(ImportFixture, "imported counts are added to an item's, and it is ranked by them",
                 "[import_counters]") {
  partitions = GENERATE(1U, 16U);
  open();
  put(item("a", now() - seconds{86400}));
  put(item("b", now() - seconds{86400}));
  track(track_event("a", "v", 6000));
  CHECK(import(R"({"id":"a","pv":1000,"uv":600})"
               "\n"
               R"({"id":"b","pv":90})")
            .empty());
  CHECK(stats("a").pv == 1001);
  CHECK(stats("a").uv >= 595);
  CHECK(stats("a").uv <= 607);
  CHECK(stats("a").dwell_sum_ms == 6000);
  CHECK(stats("b").pv == 90);
  CHECK(stats("b").uv == 0);
  CHECK(ids(engagement_query()) == std::vector<std::string>{"a", "b"});
  CHECK(hot::score_at(*rank_score("b"), now(), settings.engagement.half_life) == Approx(45).epsilon(1e-3));
  CHECK(has_new_ttl(keys().uv_hll("a"), 30 * 86400));
  CHECK(ttl(keys().article("a")) == -1);
  CHECK(stats("a").views_pv == 1);

  // Counting goes on: a known visitor is known, others are new.
  CHECK(track(track_event("a", "v", 0, "another")).pv == 1002);
  const std::int64_t before = stats("a").uv;
  for (int i = 0; i < 200; ++i) track(track_event("a", "new" + std::to_string(i), 0));
  CHECK(stats("a").uv >= before + 190);
  CHECK(stats("a").uv <= before + 210);
}

TEST_CASE_METHOD(ImportFixture, "an import can be repeated, and a newer file adds the difference",
                 "[import_counters]") {
  put(item("a", now()));
  track(track_event("a", "v", 0));
  const std::string file = R"({"id":"a","pv":500,"uv":300})";
  import(file);
  const auto once = stats("a");
  track(track_event("a", "w", 0));
  import(file);
  CHECK(stats("a").pv == once.pv + 1);
  CHECK(stats("a").uv >= once.uv);
  CHECK(stats("a").uv <= once.uv + 2);
  import(R"({"id":"a","pv":700,"uv":400})");
  CHECK(stats("a").pv == 702);
  CHECK(stats("a").uv >= 396);
  CHECK(stats("a").uv <= 408);
  import(R"({"id":"a","pv":600,"uv":100})");  // an error of the file: visitors stay
  CHECK(stats("a").pv == 602);
  CHECK(stats("a").uv >= 396);
}

TEST_CASE_METHOD(ImportFixture, "an article that is unknown needs a date, which is its publication date",
                 "[import_counters]") {
  const std::int64_t first = unix_s(now()) - 2 * 86400;
  CHECK(import(R"({"id":"undated","pv":5})"
               "\n"
               R"({"id":"dated","pv":8,"first":)" +
               std::to_string(first) + "}") ==
        std::vector<std::string>{"1 first: is missing, and Freshet does not know the article"});
  CHECK_FALSE(exists(keys().article("undated")));
  CHECK(unix_s(stats("dated").decay_start) == first);
  CHECK(has_new_ttl(keys().article("dated"), 30 * 86400));
  CHECK(hot::score_at(*rank_score("dated"), now(), settings.engagement.half_life) == Approx(2).epsilon(1e-3));
  CHECK(stats("dated").listed);
  // The site has dated it: no report changes that, and neither does another import.
  auto report = track_event("dated", "v", 0);
  report.published_at = now();
  track(report);
  import(R"({"id":"dated","pv":8,"first":1000000000})");
  CHECK(unix_s(stats("dated").decay_start) == first);
  // An item's own date stays.
  put(item("put", now() - seconds{3600}));
  import(R"({"id":"put","pv":8,"first":1000000000})");
  CHECK(stats("put").decay_start >= now() - seconds{3605});
  CHECK(field("put", "first").empty());
  remove("put");
  CHECK(import(R"({"id":"put","pv":8,"first":1000000000})") ==
        std::vector<std::string>{"1 id: the item was removed"});
}

TEST_CASE_METHOD(ImportFixture,
                 "the date of an import replaces a client's in all ranks, like the site's report",
                 "[import_counters]") {
  settings.items_unknown = GENERATE("list", "count");
  partitions = GENERATE(1U, 16U);
  open();
  const UnixSeconds clients = now() - seconds{86400}, sites = now() - seconds{2 * 3600};
  for (const char* const id : {"a", "reported"}) {
    auto report = track_event(id, "v", 0);
    report.admission = {.network = "network", .wide_network = "wide-network"};
    report.published_at = clients;
    track(report);
    auto view = view_event(id, "f");
    view.admission = report.admission;
    view.published_at = clients;
    this->view(view);
    REQUIRE(stats(id).decay_start == clients);
  }
  auto report = track_event("reported", "site", 0);
  report.published_at = sites;
  track(report);
  const auto line = [&](const std::string& id, UnixSeconds first) {
    return "{\"id\":\"" + id + "\",\"pv\":10,\"first\":" + std::to_string(unix_s(first)) + "}\n";
  };
  import(line("a", sites) + line("reported", clients));
  const auto rank = [&](const char* id) {
    return score(keys().partition_for(id).rank(hot::kViewsModel), id);
  };
  for (const char* const id : {"a", "reported"}) {
    INFO(id);
    CHECK(stats(id).decay_start == sites);
    CHECK(stats(id).listed);
    CHECK(field(id, "dated") == "1");
    CHECK(field(id, "increments").empty());
    CHECK(score(keys().partition_for(id).published(), id) == static_cast<double>(unix_s(sites)));
  }
  const double at_two_hours = 1 / hot::power_law(2, settings.views);
  CHECK(*rank("a") == Approx(std::stod(field("a", "total")) * at_two_hours).epsilon(1e-3));
  CHECK(rank_score("a") == score(keys().partition_for("a").rank(hot::kEngagementModel), "a"));
  // No later date of a client or an import counts.
  import(line("a", clients));
  auto later = track_event("a", "w", 0);
  later.admission = {.network = "other", .wide_network = "other-wide"};
  later.published_at = now();
  track(later);
  CHECK(stats("a").decay_start == sites);
}

TEST_CASE_METHOD(ImportFixture, "an import verifies an article that only networks have read",
                 "[import_counters]") {
  for (const char* network : {"aa", "bb", "cc"}) {
    auto report = track_event("u", network, 1000);
    report.admission = {.network = network, .wide_network = network};
    CHECK_FALSE(track(report).outcome.listed);
  }
  CHECK(command("ZCARD", keys().partition(0).unverified()).integer() == 1);
  import(R"({"id":"u","pv":100,"uv":50})");
  CHECK(stats("u").listed);
  CHECK(stats("u").pv == 103);
  CHECK(stats("u").uv == 53);
  CHECK(command("ZCARD", keys().partition(0).unverified()).integer() == 0);
  CHECK(ids(engagement_query()) == std::vector<std::string>{"u"});
  CHECK(has_new_ttl(keys().article("u"), 30 * 86400));
  CHECK(track(track_event("u", "v", 0)).uv == 54);
}

TEST_CASE_METHOD(ImportFixture, "counts that have expired are imported again", "[import_counters]") {
  put(item("a", now()));
  import(R"({"id":"a","pv":100,"uv":50})");
  for (int i = 0; i < 20; ++i) track(track_event("a", "earlier" + std::to_string(i), 0));
  const auto expire = [&] {
    command("HSET", keys().article("a"), "renewed", unix_s(now()) - 31 * 86400, "uv_correction", 7);
  };
  SECTION("by the next import") {
    expire();
    import(R"({"id":"a","pv":100,"uv":50})");
    CHECK(stats("a").pv == 100);
  }
  SECTION("after a report has started the counters over") {
    expire();
    track(track_event("a", "v", 0));
    CHECK(stats("a").pv == 1);
    import(R"({"id":"a","pv":100,"uv":50})");
    CHECK(stats("a").pv == 101);
  }
  CHECK(stats("a").uv >= 50);
  CHECK(stats("a").uv <= 51);
}

TEST_CASE_METHOD(ImportFixture, "an import that was interrupted at any step is completed by the next",
                 "[import_counters]") {
  put(item("a", now()));
  const auto lines = parse_counters(R"({"id":"a","pv":2000,"uv":1500})").lines;
  // As if it had ended after the visitors were added.
  for (int i = 0; i < 1500; ++i) command("PFADD", keys().uv_hll("a"), "\x1F" + std::to_string(i));
  REQUIRE(import_counters(redis, settings, keys(), lines));
  CHECK(stats("a").pv == 2000);
  CHECK(stats("a").uv >= 1485);
  CHECK(stats("a").uv <= 1515);
}
