// Timelines on a real Redis, with and without a prefix.
#include <iostream>

#include "tests/timeline/fixture.h"

using namespace freshet;
using namespace freshet::test;

TEST_CASE("the seed's walk: the newest page, down to what came since, up to what is older", "[waterfall]") {
  Waterfall site(any_mode());
  CHECK(site.push(count(100, 115)).pushed == 16);
  const auto first = site.first();
  CHECK(ids_of(first) == count(115, 111));
  CHECK(first.has_more);
  CHECK(first.newer == 0);
  CHECK(site.push(count(116, 124)).pushed == 9);
  const auto down = site.down(first.drop);
  CHECK(ids_of(down) == count(120, 116));
  CHECK(down.has_more);
  CHECK(down.newer == 4);
  const auto up = site.up(first.up);
  CHECK(ids_of(up) == count(110, 106));
  CHECK(up.has_more);
  CHECK(up.newer == 14);
  const auto down_again = site.down(down.drop);
  CHECK(ids_of(down_again) == count(124, 121));
  CHECK_FALSE(down_again.has_more);
  CHECK(down_again.newer == 0);
  CHECK(ids_of(site.up(up.up)) == count(105, 101));
  for (const auto& page : {first, down, up, down_again}) {
    CHECK(page.drop == page.items.front().score);
    CHECK(page.up == page.items.back().score);
    CHECK_FALSE(page.trimmed);
  }
}

TEST_CASE("an empty page returns the cursor it got, an empty first page none", "[waterfall]") {
  Waterfall site(any_mode());
  const auto none = site.first();
  CHECK((none.drop == 0 && none.up == 0 && none.items.empty() && !none.has_more && !none.trimmed));
  CHECK_FALSE(site.exists(site.timeline()));
  CHECK(ids_of(site.down(0)).empty());
  CHECK_FALSE(site.down(0).trimmed);
  site.push(count(1, 3));
  CHECK(ids_of(site.up(0)).empty());
  const auto down = site.down(none.drop, 2);
  CHECK(ids_of(down) == Ids{"2", "1"});
  CHECK((down.has_more && down.newer == 1));
  const auto newest = site.first().drop;
  for (const auto score : {newest, newest + 7, timeline::kScoreEnd - 1}) {
    const auto empty = site.down(score);
    CHECK((empty.items.empty() && empty.drop == score && empty.up == score && !empty.has_more));
    CHECK(empty.newer == 0);
  }
  const auto oldest = site.first().up;
  const auto end = site.up(oldest);
  CHECK((end.items.empty() && end.drop == oldest && end.up == oldest && !end.has_more && !end.trimmed));
  CHECK(end.newer == 2);
}

TEST_CASE("a limit is a limit, and there is more exactly when another item would be shown", "[waterfall]") {
  Waterfall site(any_mode());
  site.settings.timeline.max_items = 200;
  site.renew();
  site.push(count(1, 100));
  for (const int limit : {1, 2, 5, 99, 100}) {
    CAPTURE(limit);
    const auto first = site.first(limit), down = site.down(0, limit),
               up = site.up(timeline::kScoreEnd - 1, limit);
    CHECK(ids_of(first) == count(100, 101 - limit));
    CHECK(ids_of(up) == count(100, 101 - limit));
    CHECK(ids_of(down) == count(limit, 1));
    for (const auto& page : {first, down, up}) CHECK(page.has_more == (limit < 100));
    CHECK(down.newer == 100 - limit);
  }
}

TEST_CASE("scores are the server's time in µs, and rise whatever happens to the clock or the items",
          "[waterfall]") {
  Waterfall site(any_mode());
  const std::int64_t before = site.now().time_since_epoch().count() * 1'000'000;
  site.push(count(1, 20));
  auto items = site.members(site.timeline());
  for (std::size_t i = 1; i < items.size(); ++i) CHECK(items[i - 1].second < items[i].second);
  CHECK(items.front().second >= before);
  CHECK(items.back().second < before + 60'000'000);
  // The clock goes back: the highest score is of a time to come, and its item is gone.
  const std::int64_t ahead = items.back().second + 100'000'000;
  site.command("ZADD", site.timeline(), ahead, "ahead", -ahead, ":");
  CHECK(site.take_out("ahead"));
  CHECK_FALSE(site.take_out("ahead"));
  site.push({"x"});
  CHECK(site.members(site.timeline()).back() == std::pair<std::string, std::int64_t>("x", ahead + 1));
  CHECK(site.take_out("x"));
  site.push({"x"});
  CHECK(site.members(site.timeline()).back().second == ahead + 2);
  for (const auto& [id, score] : site.members(site.timeline())) site.take_out(id);
  CHECK(site.first().items.empty());
  site.push({"y"});
  CHECK(site.first().drop == ahead + 3);
  CHECK(site.first().drop < timeline::kScoreEnd);
}

TEST_CASE("an item that is pushed again keeps its place and counts as a duplicate", "[waterfall]") {
  Waterfall site(any_mode());
  auto pushed = site.push({"a", "b", "a"}, {"reader", "other"});
  CHECK((pushed.pushed == 4 && pushed.duplicates == 2));
  const auto before = site.members(site.timeline());
  pushed = site.push({"c", "a", "d", "b"});
  CHECK((pushed.pushed == 2 && pushed.duplicates == 2));
  CHECK(site.in(site.timeline()) == Ids{"a", "b", "c", "d"});
  const auto after = site.members(site.timeline());
  CHECK((after[0] == before[0] && after[1] == before[1]));
  pushed = site.push({"e"}, {"reader", "reader"});
  CHECK((pushed.pushed == 1 && pushed.duplicates == 1));
  pushed = site.push({});
  CHECK((pushed.pushed == 0 && pushed.duplicates == 0));
}

TEST_CASE("a timeline keeps its newest items, and a cursor below the cut is told", "[waterfall]") {
  Waterfall site(any_mode());
  site.settings.timeline.max_items = 10;
  site.renew();
  site.push(count(1, 8));
  const auto items = site.members(site.timeline());
  const auto at = [&](std::size_t item) { return items[item - 1].second; };
  CHECK_FALSE(site.down(at(2)).trimmed);
  CHECK(site.push(count(9, 13)).pushed == 5);
  CHECK(site.in(site.timeline()) == count(4, 13));
  // 1, 2 and 3 were cut off.
  CHECK(site.up(at(3)).trimmed);
  CHECK(site.up(1).trimmed);
  CHECK_FALSE(site.up(at(4)).trimmed);
  CHECK_FALSE(site.up(at(5)).trimmed);
  CHECK_FALSE(site.up(0).trimmed);
  CHECK_FALSE(site.down(at(3)).trimmed);
  CHECK(ids_of(site.down(at(3))) == count(8, 4));
  CHECK(site.down(at(2)).trimmed);
  CHECK(ids_of(site.down(at(2))) == count(8, 4));
  CHECK(site.down(0).trimmed);
  CHECK_FALSE(site.first().trimmed);
  // Taking out is no cut, and makes room.
  site.take_out("4");
  site.push({"14"});
  CHECK(site.in(site.timeline()) == count(5, 14));
  CHECK_FALSE(site.down(at(3)).trimmed);
  // Of more than a timeline holds the last, so that the same push again finds all of it there.
  CHECK(site.push(count(101, 125)).pushed == 10);
  CHECK(site.in(site.timeline()) == count(116, 125));
  const auto again = site.push(count(101, 125));
  CHECK((again.pushed == 0 && again.duplicates == 10));
  CHECK(site.in(site.timeline()) == count(116, 125));
}

TEST_CASE("a timeline runs out when it is not read, however often it is pushed to", "[waterfall]") {
  Waterfall site(any_mode());
  const auto noted = [&](std::int64_t ago) {
    // And nothing has joined since.
    site.command("ZADD", site.timeline(), ago - site.now().time_since_epoch().count(), ":::", -1, ":");
  };
  const auto ttl = site.settings.timeline.ttl.count();
  site.push({"a"});
  CHECK(site.ttl(site.timeline()) > ttl - 60);
  site.command("EXPIRE", site.timeline(), 1000);
  site.push({"b", "a"});
  site.take_out("a");
  CHECK(site.ttl(site.timeline()) <= 1000);
  CHECK(site.ttl(site.timeline()) > 900);
  const auto cursor = site.first().drop;
  CHECK(site.ttl(site.timeline()) > ttl - 60);
  for (const auto direction : {Direction::kDown, Direction::kUp}) {
    site.command("EXPIRE", site.timeline(), 1000);
    noted(3500);
    site.page(direction, cursor);
    CHECK(site.ttl(site.timeline()) <= 1000);  // it was noted within the hour
    noted(3600);
    site.page(direction, cursor);
    CHECK(site.ttl(site.timeline()) > ttl - 60);
  }
  // The clock went back by hours since it was noted.
  site.command("EXPIRE", site.timeline(), 1000);
  noted(-7200);
  site.first();
  CHECK(site.ttl(site.timeline()) > ttl - 60);
  // Of a short life an eighth.
  site.settings.timeline.ttl = seconds{800};
  site.renew();
  site.command("EXPIRE", site.timeline(), 400);
  noted(90);
  site.first();
  CHECK(site.ttl(site.timeline()) <= 400);
  noted(100);
  site.first();
  CHECK(site.ttl(site.timeline()) > 700);
  site.settings.timeline.ttl = seconds{ttl};
  site.renew();
  noted(3600);
  site.first();
  // Empty, it still knows its scores, and runs out the same way.
  site.take_out("b");
  CHECK(site.ttl(site.timeline()) > ttl - 60);
  site.command("DEL", site.timeline());
  CHECK(site.down(cursor).trimmed);
  CHECK(site.up(cursor).trimmed);
  CHECK_FALSE(site.first().trimmed);
  CHECK_FALSE(site.exists(site.timeline()));
}

TEST_CASE("hidden items are skipped, the page is refilled, and what is shown again stands where it was",
          "[waterfall]") {
  Waterfall site(any_mode());
  site.push(count(1, 12));
  for (const char* each : {"2", "10", "11"}) site.hide(each);
  const auto first = site.first(4);
  CHECK(ids_of(first) == Ids{"12", "9", "8", "7"});
  CHECK(first.newer == 0);
  const auto down = site.down(0, 3);
  CHECK(ids_of(down) == Ids{"4", "3", "1"});
  CHECK((down.has_more && down.newer == 8));  // 10 and 11 were not looked at
  const auto up = site.up(site.down(0, 2).drop, 5);
  CHECK(ids_of(up) == Ids{"1"});
  CHECK_FALSE(up.has_more);
  // From 9 on: 10 and 11 are looked at to find 12, and only then nothing is left.
  const auto nine = first.items[1].score;
  CHECK(ids_of(site.down(nine, 1)) == Ids{"12"});
  CHECK(site.down(nine - 1, 1).newer == 1);
  site.hide("12");
  CHECK_FALSE(site.down(nine - 1, 1).has_more);
  CHECK(site.down(nine - 1, 1).newer == 0);
  const auto empty = site.down(nine, 1);
  CHECK((empty.items.empty() && empty.newer == 0 && !empty.has_more && empty.drop == nine));
  CHECK(site.first().newer == 0);
  CHECK(ids_of(site.first(2)) == Ids{"9", "8"});
  for (const char* each : {"2", "10", "11", "12"}) site.hide(each, false);
  CHECK(ids_of(site.first(12)) == count(12, 1));
  CHECK(site.first(1).items.front().card->title == "Title of 12");
}

TEST_CASE("an item that is dated ahead can be pushed, and stands in its place from its date on",
          "[waterfall]") {
  Waterfall site(any_mode());
  const UnixSeconds date = site.now() + seconds{2};
  for (const char* each : {"2", "4"}) site.put(site.item(each, date));
  CHECK(*run_sync(site.store().pushable({ItemId::trusted("2")})) == std::vector<bool>{true});
  site.push(count(1, 4));
  const auto first = site.first();
  CHECK(ids_of(first) == Ids{"3", "1"});
  const auto down = site.down(first.drop);
  CHECK((down.items.empty() && down.newer == 0 && !down.has_more && down.drop == first.drop));
  site.wait_for(date);
  CHECK(ids_of(site.down(first.drop)) == Ids{"4"});
  CHECK(ids_of(site.first()) == count(4, 1));
}

TEST_CASE("deleted items are skipped and leave the timeline when they are met", "[waterfall]") {
  Waterfall site(any_mode());
  for (const auto& each : count(1, 12)) site.put(site.item(each, UnixSeconds{seconds{1700000000}}));
  site.push(count(1, 12));
  for (const char* each : {"1", "10", "11", "12"}) site.remove(each);
  const auto first = site.first(3);
  CHECK(ids_of(first) == count(9, 7));
  CHECK(site.in(site.timeline()) == count(1, 9));
  CHECK(site.first(3).drop == first.drop);
  const auto up = site.up(first.up, 5);
  CHECK(ids_of(up) == count(6, 2));
  CHECK_FALSE(up.has_more);
  CHECK(site.in(site.timeline()) == count(2, 9));
  CHECK_FALSE(site.up(up.up).trimmed);
}

TEST_CASE("a page is found behind any number of hidden items", "[waterfall]") {
  Waterfall site(any_mode());
  site.settings.timeline.max_items = 400;
  site.renew();
  site.push(count(1, 400));
  for (const auto& each : count(11, 390)) site.hide(each);
  CHECK(ids_of(site.first(12)) ==
        Ids{"400", "399", "398", "397", "396", "395", "394", "393", "392", "391", "10", "9"});
  CHECK(ids_of(site.down(site.up(site.down(0, 10).drop + 1, 1).drop, 3)) == Ids{"393", "392", "391"});
  CHECK(site.down(site.down(0, 10).drop, 3).newer == 7);
  CHECK(site.down(0, 10).newer == 10);
  for (const auto& each : count(391, 400)) site.hide(each);
  const auto up = site.up(timeline::kScoreEnd - 1, 10);
  CHECK(ids_of(up) == count(10, 1));
  CHECK_FALSE(up.has_more);
  const auto down = site.down(0, 10);
  CHECK((ids_of(down) == count(10, 1) && !down.has_more && down.newer == 0));
}

TEST_CASE("where unknown items are rejected they are neither pushable nor shown, and stay", "[waterfall]") {
  Waterfall site(any_mode());
  site.put(site.item("known", UnixSeconds{seconds{1700000000}}));
  site.hide("hidden");
  site.put(site.item("deleted", UnixSeconds{seconds{1700000000}}));
  site.remove("deleted");
  const std::vector<ItemId> asked{ItemId::trusted("never"), ItemId::trusted("known"),
                                  ItemId::trusted("hidden"), ItemId::trusted("deleted")};
  const auto pushable = [&] {
    site.watched.trips.clear();
    const auto out = run_sync(site.store().pushable(asked));
    REQUIRE(out);
    CHECK(site.watched.trips.size() == 1);
    return *out;
  };
  CHECK(pushable() == std::vector<bool>{true, true, false, false});
  site.push({"never", "known"});
  CHECK(ids_of(site.first()) == Ids{"known", "never"});
  CHECK((site.first().items[0].card->known && !site.first().items[1].card->known));
  site.settings.items_unknown = "reject";
  site.renew();
  CHECK(pushable() == std::vector<bool>{false, true, false, false});
  CHECK(ids_of(site.first()) == Ids{"known"});
  CHECK(site.in(site.timeline()).size() == 2);
  CHECK(run_sync(site.store().pushable({}))->empty());
}

TEST_CASE("a page is one round trip, and notes that the reader is active", "[waterfall]") {
  Waterfall site(any_mode());
  site.push(count(1, 20));
  for (const auto direction : {Direction::kFirst, Direction::kDown, Direction::kUp}) {
    site.watched.trips.clear();
    site.page(direction, site.members(site.timeline())[10].second);
    CHECK(site.watched.trips.size() == 1);
  }
  site.page(Direction::kFirst, 0, 5, "discover", "other");
  const auto active = site.members(site.keys().active_readers("discover"));
  CHECK(active.size() == 2);
  for (const auto& [reader, at] : active) CHECK(std::abs(at - site.now().time_since_epoch().count()) < 60);
  site.follow("author");
  site.publish("author", {"pulled"});
  for (const std::vector<std::size_t>& trips : {std::vector<std::size_t>{1, 3, 1, 1, 4}, {1, 3}}) {
    site.watched.trips.clear();
    CHECK(ids_of(site.page(Direction::kFirst, 0, 5, "follow")) == Ids{"pulled"});
    CHECK(site.watched.trips == trips);  // the list of pulled authors is always old here
  }
}

TEST_CASE("that a reader is active is noted once an hour, when something came, and without a timeline",
          "[waterfall]") {
  Waterfall site(any_mode());
  const std::string active = site.keys().active_readers("discover");
  const auto forgotten = [&] { return site.command("ZREM", active, "reader").integer() == 1; };
  site.first();
  CHECK(forgotten());
  site.first();
  CHECK(forgotten());
  CHECK_FALSE(site.exists(site.timeline()));
  site.push({"a"});
  site.command("ZADD", site.timeline(), -site.now().time_since_epoch().count() - 1, ":::");
  site.first();
  CHECK_FALSE(forgotten());
  site.command("ZADD", site.timeline(), -site.now().time_since_epoch().count() + 1, ":::");
  site.first();
  CHECK(forgotten());  // it came since
  site.command("ZADD", site.timeline(), 3601 - site.now().time_since_epoch().count(), ":::", -1, ":");
  site.first();
  CHECK(forgotten());
  site.first();
  CHECK_FALSE(forgotten());
}

TEST_CASE("a timeline that is pushed to one by one exceeds its cap by less than a tenth", "[waterfall]") {
  Waterfall site(any_mode());
  site.settings.timeline.max_items = 60;  // looked at each sixth
  site.renew();
  std::size_t most = 0;
  for (int i = 0; i < 200; ++i) {
    site.push({std::to_string(i)});
    const std::size_t held = site.in(site.timeline()).size();
    most = std::max(most, held);
    CHECK(held >= static_cast<std::size_t>(std::min(i + 1, 60)));
  }
  CHECK(most == 65);
  CHECK(site.up(1).trimmed);
  site.push({"x", "y"});  // several: looked at
  CHECK(site.in(site.timeline()).size() == 60);
}

TEST_CASE("a push goes over the connection for bulk, five hundred readers a trip", "[waterfall]") {
  Waterfall site(any_mode());
  Ids readers;
  for (int i = 0; i < 1203; ++i) readers.push_back("r" + std::to_string(i));
  site.watched.trips.clear();
  const auto pushed = site.push({"a", "b"}, readers);
  CHECK((pushed.pushed == 2406 && pushed.duplicates == 0));
  CHECK(site.bulk.trips == std::vector<std::size_t>{10, 10, 5});  // commands, one for fifty
  CHECK(site.watched.trips.empty());
  for (const char* each : {"r0", "r49", "r50", "r499", "r500", "r1202"})
    CHECK(site.in(site.timeline(each)) == Ids{"a", "b"});
}

TEST_CASE("a timeline of a wrong type is an error, and the other readers are served", "[waterfall]") {
  Waterfall site(any_mode());
  site.command("SET", site.timeline("bad"), "text");
  Ids readers{"good", "bad"};
  for (int i = 0; i < 600; ++i) readers.push_back("r" + std::to_string(i));
  CHECK(site.try_push({"a"}, readers).error().code == ErrorCode::kInternal);
  for (const char* each : {"good", "r0", "r599"}) CHECK(site.in(site.timeline(each)) == Ids{"a"});
  CHECK(site.try_page(Direction::kFirst, 0, 5, "discover", "bad").error().code == ErrorCode::kInternal);
  CHECK_FALSE(run_sync(site.store().remove("discover", ReaderId::trusted("bad"), ItemId::trusted("a"))));
  site.command("SET", site.keys().item("a"), "text");
  CHECK(site.try_page(Direction::kFirst, 0, 5, "discover", "good").error().code == ErrorCode::kInternal);
  CHECK_FALSE(run_sync(site.store().pushable({ItemId::trusted("a")})));
  site.push({"b"}, {"good"});
  site.publish("author", {"pulled"});
  site.follow("author", "somebody");
  site.publish("author", {"pulled"});
  site.command("SET", site.keys().followed_authors("good"), "text");
  CHECK_FALSE(site.try_page(Direction::kFirst, 0, 5, "follow", "good"));
}

TEST_CASE("a timeline costs Redis so many bytes", "[waterfall]") {
  Waterfall site(Mode{});
  site.settings.timeline.max_items = 500;
  site.renew();
  for (const int width : {8, 24}) {
    for (const auto& [items, most] : {std::pair(0, 160), {10, 600}, {128, 24000}, {500, 80000}}) {
      const std::string reader = "r" + std::to_string(width) + "-" + std::to_string(items);
      Ids pushed;
      for (int i = 0; i < std::max(items, 1); ++i) {
        std::string id = std::to_string(10'000'000 + i);
        pushed.push_back(std::string(static_cast<std::size_t>(width) - id.size(), 'x') + id);
      }
      site.push(pushed, {reader});
      if (items == 0)
        REQUIRE(site.command("ZREM", site.timeline(reader), pushed.front()).integer().value() == 1);
      CHECK(site.in(site.timeline(reader)).size() == static_cast<std::size_t>(items));
      const auto bytes = site.bytes(site.timeline(reader));
      std::cout << "timeline of " << items << " items, ids of " << width << " bytes: " << bytes << " bytes\n";
      CHECK(bytes > 0);
      CHECK(bytes < most);
    }
  }
}
