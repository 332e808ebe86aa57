// Timelines on a real Redis, with and without a key prefix.
#include <iostream>

#include "tests/timeline/fixture.h"

#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;

TEST_CASE("a walk through a timeline: the newest page, then newer items, then older ones", "[waterfall]") {
  TimelineFixture site(each_mode());
  CHECK(site.push(count(100, 115)).pushed == 16);
  const auto first = site.first();
  CHECK(ids_of(first) == count(115, 111));
  CHECK(first.has_more);
  CHECK(first.newer_count == 0);
  CHECK(site.push(count(116, 124)).pushed == 9);
  const auto down = site.newer(first.newest_score);
  CHECK(ids_of(down) == count(120, 116));
  CHECK(down.has_more);
  CHECK(down.newer_count == 4);
  const auto up = site.older(first.oldest_score);
  CHECK(ids_of(up) == count(110, 106));
  CHECK(up.has_more);
  CHECK(up.newer_count == 14);
  const auto down_again = site.newer(down.newest_score);
  CHECK(ids_of(down_again) == count(124, 121));
  CHECK_FALSE(down_again.has_more);
  CHECK(down_again.newer_count == 0);
  CHECK(ids_of(site.older(up.oldest_score)) == count(105, 101));
  for (const auto& page : {first, down, up, down_again}) {
    CHECK(page.newest_score == page.items.front().score);
    CHECK(page.oldest_score == page.items.back().score);
    CHECK_FALSE(page.trimmed);
  }
}

TEST_CASE("an empty page returns the request's cursor, and an empty first page 0", "[waterfall]") {
  TimelineFixture site(each_mode());
  const auto none = site.first();
  CHECK((none.newest_score == 0 && none.oldest_score == 0 && none.items.empty() && !none.has_more &&
         !none.trimmed));
  CHECK_FALSE(site.exists(site.timeline()));
  CHECK(ids_of(site.newer(0)).empty());
  CHECK_FALSE(site.newer(0).trimmed);
  site.push(count(1, 3));
  CHECK(ids_of(site.older(0)).empty());
  const auto down = site.newer(none.newest_score, 2);
  CHECK(ids_of(down) == Ids{"2", "1"});
  CHECK((down.has_more && down.newer_count == 1));
  const auto newest = site.first().newest_score;
  for (const auto score : {newest, newest + 7, timeline::kScoreEnd - 1}) {
    const auto empty = site.newer(score);
    CHECK((empty.items.empty() && empty.newest_score == score && empty.oldest_score == score &&
           !empty.has_more));
    CHECK(empty.newer_count == 0);
  }
  const auto oldest = site.first().oldest_score;
  const auto end = site.older(oldest);
  CHECK((end.items.empty() && end.newest_score == oldest && end.oldest_score == oldest && !end.has_more &&
         !end.trimmed));
  CHECK(end.newer_count == 2);
}

TEST_CASE("has_more is true exactly if another item can be shown, for any limit", "[waterfall]") {
  TimelineFixture site(each_mode());
  site.settings.timeline.max_items = 200;
  site.reopen();
  site.push(count(1, 100));
  for (const int limit : {1, 2, 5, 99, 100}) {
    CAPTURE(limit);
    const auto first = site.first(limit), down = site.newer(0, limit),
               up = site.older(timeline::kScoreEnd - 1, limit);
    CHECK(ids_of(first) == count(100, 101 - limit));
    CHECK(ids_of(up) == count(100, 101 - limit));
    CHECK(ids_of(down) == count(limit, 1));
    for (const auto& page : {first, down, up}) CHECK(page.has_more == (limit < 100));
    CHECK(down.newer_count == 100 - limit);
  }
}

TEST_CASE("scores are the server's time in µs and increase whatever happens to the clock or the items",
          "[waterfall]") {
  TimelineFixture site(each_mode());
  const std::int64_t before = site.now().time_since_epoch().count() * 1'000'000;
  site.push(count(1, 20));
  auto items = site.members(site.timeline());
  for (std::size_t i = 1; i < items.size(); ++i) CHECK(items[i - 1].second < items[i].second);
  CHECK(items.front().second >= before);
  CHECK(items.back().second < before + 60'000'000);
  // The clock goes back: the highest score is in the future, and its item is gone.
  const std::int64_t ahead = items.back().second + 100'000'000;
  site.command("ZADD", site.timeline(), ahead, "ahead", -ahead, redis::kHighestMark);
  CHECK(site.remove_item("ahead"));
  CHECK_FALSE(site.remove_item("ahead"));
  site.push({"x"});
  CHECK(site.members(site.timeline()).back() == std::pair<std::string, std::int64_t>("x", ahead + 1));
  CHECK(site.remove_item("x"));
  site.push({"x"});
  CHECK(site.members(site.timeline()).back().second == ahead + 2);
  for (const auto& [id, score] : site.members(site.timeline())) site.remove_item(id);
  CHECK(site.first().items.empty());
  site.push({"y"});
  CHECK(site.first().newest_score == ahead + 3);
  CHECK(site.first().newest_score < timeline::kScoreEnd);
}

TEST_CASE("an item that is pushed again keeps its position and counts as a duplicate", "[waterfall]") {
  TimelineFixture site(each_mode());
  auto pushed = site.push({"a", "b", "a"}, {"reader", "other"});
  CHECK((pushed.pushed == 4 && pushed.duplicates == 2));
  const auto before = site.members(site.timeline());
  pushed = site.push({"c", "a", "d", "b"});
  CHECK((pushed.pushed == 2 && pushed.duplicates == 2));
  CHECK(site.ids_in(site.timeline()) == Ids{"a", "b", "c", "d"});
  const auto after = site.members(site.timeline());
  CHECK((after[0] == before[0] && after[1] == before[1]));
  pushed = site.push({"e"}, {"reader", "reader"});
  CHECK((pushed.pushed == 1 && pushed.duplicates == 1));
  pushed = site.push({"b"});  // alone
  CHECK((pushed.pushed == 0 && pushed.duplicates == 1));
  CHECK(site.ids_in(site.timeline()) == Ids{"a", "b", "c", "d", "e"});
  pushed = site.push({});
  CHECK((pushed.pushed == 0 && pushed.duplicates == 0));
}

TEST_CASE("a timeline keeps its newest items, and a cursor below the trimmed part is reported",
          "[waterfall]") {
  TimelineFixture site(each_mode());
  site.settings.timeline.max_items = 10;
  site.reopen();
  site.push(count(1, 8));
  const auto items = site.members(site.timeline());
  const auto at = [&](std::size_t item) { return items[item - 1].second; };
  CHECK_FALSE(site.newer(at(2)).trimmed);
  CHECK(site.push(count(9, 13)).pushed == 5);
  CHECK(site.ids_in(site.timeline()) == count(4, 13));
  // 1, 2 and 3 were trimmed.
  CHECK(site.older(at(3)).trimmed);
  CHECK(site.older(1).trimmed);
  CHECK_FALSE(site.older(at(4)).trimmed);
  CHECK_FALSE(site.older(at(5)).trimmed);
  CHECK_FALSE(site.older(0).trimmed);
  CHECK_FALSE(site.newer(at(3)).trimmed);
  CHECK(ids_of(site.newer(at(3))) == count(8, 4));
  CHECK(site.newer(at(2)).trimmed);
  CHECK(ids_of(site.newer(at(2))) == count(8, 4));
  CHECK(site.newer(0).trimmed);
  CHECK_FALSE(site.first().trimmed);
  // Removing an item is not trimming, and makes room.
  site.remove_item("4");
  site.push({"14"});
  CHECK(site.ids_in(site.timeline()) == count(5, 14));
  CHECK_FALSE(site.newer(at(3)).trimmed);
  // If more items are pushed than a timeline holds, the last ones are kept, so that repeating the
  // push finds all of them.
  CHECK(site.push(count(101, 125)).pushed == 10);
  CHECK(site.ids_in(site.timeline()) == count(116, 125));
  const auto again = site.push(count(101, 125));
  CHECK((again.pushed == 0 && again.duplicates == 10));
  CHECK(site.ids_in(site.timeline()) == count(116, 125));
}

TEST_CASE("a timeline expires unless it is read, however often it is pushed to", "[waterfall]") {
  TimelineFixture site(each_mode());
  const auto noted = [&](std::int64_t ago) {
    // And nothing has joined since.
    site.command("ZADD", site.timeline(), ago - site.now().time_since_epoch().count(), redis::kActivityMark,
                 -1, redis::kHighestMark);
  };
  const auto ttl = site.settings.timeline.ttl.count();
  site.push({"a"});
  CHECK(site.ttl(site.timeline()) > ttl - 60);
  site.command("EXPIRE", site.timeline(), 1000);
  site.push({"b", "a"});
  site.remove_item("a");
  CHECK(site.ttl(site.timeline()) <= 1000);
  CHECK(site.ttl(site.timeline()) > 900);
  const auto cursor = site.first().newest_score;
  CHECK(site.ttl(site.timeline()) > ttl - 60);
  for (const auto direction : {Direction::kNewer, Direction::kOlder}) {
    site.command("EXPIRE", site.timeline(), 1000);
    noted(3500);
    site.page(direction, cursor);
    CHECK(site.ttl(site.timeline()) <= 1000);  // recorded within the last hour
    noted(3600);
    site.page(direction, cursor);
    CHECK(site.ttl(site.timeline()) > ttl - 60);
  }
  // The clock went back by hours since then.
  site.command("EXPIRE", site.timeline(), 1000);
  noted(-7200);
  site.first();
  CHECK(site.ttl(site.timeline()) > ttl - 60);
  // With a short TTL the interval is an eighth of it.
  site.settings.timeline.ttl = seconds{800};
  site.reopen();
  site.command("EXPIRE", site.timeline(), 400);
  noted(90);
  site.first();
  CHECK(site.ttl(site.timeline()) <= 400);
  noted(100);
  site.first();
  CHECK(site.ttl(site.timeline()) > 700);
  site.settings.timeline.ttl = seconds{ttl};
  site.reopen();
  noted(3600);
  site.first();
  // An empty timeline still knows its scores and expires in the same way.
  site.remove_item("b");
  CHECK(site.ttl(site.timeline()) > ttl - 60);
  site.command("DEL", site.timeline());
  CHECK(site.newer(cursor).trimmed);
  CHECK(site.older(cursor).trimmed);
  CHECK_FALSE(site.first().trimmed);
  CHECK_FALSE(site.exists(site.timeline()));
}

TEST_CASE("hidden items are skipped, the page is filled up, and restored items return to their position",
          "[waterfall]") {
  TimelineFixture site(each_mode());
  site.push(count(1, 12));
  for (const char* each : {"2", "10", "11"}) site.hide(each);
  const auto first = site.first(4);
  CHECK(ids_of(first) == Ids{"12", "9", "8", "7"});
  CHECK(first.newer_count == 0);
  const auto down = site.newer(0, 3);
  CHECK(ids_of(down) == Ids{"4", "3", "1"});
  CHECK((down.has_more && down.newer_count == 8));  // 10 and 11 were not examined
  const auto up = site.older(site.newer(0, 2).newest_score, 5);
  CHECK(ids_of(up) == Ids{"1"});
  CHECK_FALSE(up.has_more);
  // From 9 on: 10 and 11 are examined to find 12; only then is nothing left.
  const auto nine = first.items[1].score;
  CHECK(ids_of(site.newer(nine, 1)) == Ids{"12"});
  CHECK(site.newer(nine - 1, 1).newer_count == 1);
  site.hide("12");
  CHECK_FALSE(site.newer(nine - 1, 1).has_more);
  CHECK(site.newer(nine - 1, 1).newer_count == 0);
  const auto empty = site.newer(nine, 1);
  CHECK((empty.items.empty() && empty.newer_count == 0 && !empty.has_more && empty.newest_score == nine));
  CHECK(site.first().newer_count == 0);
  CHECK(ids_of(site.first(2)) == Ids{"9", "8"});
  for (const char* each : {"2", "10", "11", "12"}) site.hide(each, false);
  CHECK(ids_of(site.first(12)) == count(12, 1));
  CHECK(site.first(1).items.front().card->title == "Title of 12");
}

TEST_CASE("a future-dated item can be pushed and appears in its position on its date", "[waterfall]") {
  TimelineFixture site(each_mode());
  const UnixSeconds date = site.now() + seconds{2};
  for (const char* each : {"2", "4"}) site.put(site.item(each, date));
  CHECK(*run_sync(site.store().check_pushable({ItemId::trusted("2")})) == std::vector<bool>{true});
  site.push(count(1, 4));
  const auto first = site.first();
  CHECK(ids_of(first) == Ids{"3", "1"});
  const auto down = site.newer(first.newest_score);
  CHECK((down.items.empty() && down.newer_count == 0 && !down.has_more &&
         down.newest_score == first.newest_score));
  site.wait_for(date);
  CHECK(ids_of(site.newer(first.newest_score)) == Ids{"4"});
  CHECK(ids_of(site.first()) == count(4, 1));
}

TEST_CASE("deleted items are skipped and removed from the timeline when a page encounters them",
          "[waterfall]") {
  TimelineFixture site(each_mode());
  for (const auto& each : count(1, 12)) site.put(site.item(each, UnixSeconds{seconds{1700000000}}));
  site.push(count(1, 12));
  for (const char* each : {"1", "10", "11", "12"}) site.remove(each);
  const auto first = site.first(3);
  CHECK(ids_of(first) == count(9, 7));
  CHECK(site.ids_in(site.timeline()) == count(1, 9));
  CHECK(site.first(3).newest_score == first.newest_score);
  const auto up = site.older(first.oldest_score, 5);
  CHECK(ids_of(up) == count(6, 2));
  CHECK_FALSE(up.has_more);
  CHECK(site.ids_in(site.timeline()) == count(2, 9));
  CHECK_FALSE(site.older(up.oldest_score).trimmed);
}

TEST_CASE("a page is found behind any number of hidden items", "[waterfall]") {
  TimelineFixture site(each_mode());
  site.settings.timeline.max_items = 400;
  site.reopen();
  site.push(count(1, 400));
  for (const auto& each : count(11, 390)) site.hide(each);
  CHECK(ids_of(site.first(12)) ==
        Ids{"400", "399", "398", "397", "396", "395", "394", "393", "392", "391", "10", "9"});
  CHECK(ids_of(site.newer(site.older(site.newer(0, 10).newest_score + 1, 1).newest_score, 3)) ==
        Ids{"393", "392", "391"});
  CHECK(site.newer(site.newer(0, 10).newest_score, 3).newer_count == 7);
  CHECK(site.newer(0, 10).newer_count == 10);
  for (const auto& each : count(391, 400)) site.hide(each);
  const auto up = site.older(timeline::kScoreEnd - 1, 10);
  CHECK(ids_of(up) == count(10, 1));
  CHECK_FALSE(up.has_more);
  const auto down = site.newer(0, 10);
  CHECK((ids_of(down) == count(10, 1) && !down.has_more && down.newer_count == 0));
}

TEST_CASE("with items.unknown = reject unknown items are neither pushable nor shown, but stay",
          "[waterfall]") {
  TimelineFixture site(each_mode());
  site.put(site.item("known", UnixSeconds{seconds{1700000000}}));
  site.hide("hidden");
  site.put(site.item("deleted", UnixSeconds{seconds{1700000000}}));
  site.remove("deleted");
  const std::vector<ItemId> candidates{ItemId::trusted("never"), ItemId::trusted("known"),
                                       ItemId::trusted("hidden"), ItemId::trusted("deleted")};
  const auto pushable = [&] {
    site.recording.round_trips.clear();
    const auto out = run_sync(site.store().check_pushable(candidates));
    REQUIRE(out);
    CHECK(site.recording.round_trips.size() == 1);
    return *out;
  };
  CHECK(pushable() == std::vector<bool>{true, true, false, false});
  site.push({"never", "known"});
  CHECK(ids_of(site.first()) == Ids{"known", "never"});
  CHECK((site.first().items[0].card->known && !site.first().items[1].card->known));
  site.settings.items_unknown = "reject";
  site.reopen();
  CHECK(pushable() == std::vector<bool>{false, true, false, false});
  CHECK(ids_of(site.first()) == Ids{"known"});
  CHECK(site.ids_in(site.timeline()).size() == 2);
  CHECK(run_sync(site.store().check_pushable({}))->empty());
}

TEST_CASE("a page takes one round trip and records that the reader is active", "[waterfall]") {
  TimelineFixture site(each_mode());
  site.push(count(1, 20));
  for (const auto direction : {Direction::kFirst, Direction::kNewer, Direction::kOlder}) {
    site.recording.round_trips.clear();
    site.page(direction, site.members(site.timeline())[10].second);
    CHECK(site.recording.round_trips.size() == 1);
  }
  site.page(Direction::kFirst, 0, 5, "discover", "other");
  const auto active = site.members(site.keys().active_readers("discover"));
  CHECK(active.size() == 2);
  for (const auto& [reader, at] : active) CHECK(std::abs(at - site.now().time_since_epoch().count()) < 60);
  site.follow("author");
  site.publish("author", {"pulled"});
  for (const std::vector<std::size_t>& trips : {std::vector<std::size_t>{1, 4, 1, 1, 4}, {1, 4}}) {
    site.recording.round_trips.clear();
    CHECK(ids_of(site.page(Direction::kFirst, 0, 5, "follow")) == Ids{"pulled"});
    CHECK(site.recording.round_trips == trips);  // the cached list of pulled authors is always too old here
  }
}

TEST_CASE("an anonymous reader's page is empty and leaves nothing behind", "[waterfall]") {
  TimelineFixture site(each_mode());
  const std::string anonymous = anonymous_reader(VisitorId::trusted("cX")).str();
  for (const char* channel : {"discover", "follow"}) {
    CHECK(site.page(Direction::kFirst, 0, 5, channel, anonymous).items.empty());
    CHECK_FALSE(site.exists(site.keys().active_readers(channel)));
    CHECK_FALSE(site.exists(site.keys().timeline(channel, anonymous)));
  }
}

TEST_CASE("activity is recorded once an hour, after new items, and for readers without a timeline",
          "[waterfall]") {
  TimelineFixture site(each_mode());
  const std::string active = site.keys().active_readers("discover");
  const auto forgotten = [&] { return site.command("ZREM", active, "reader").integer() == 1; };
  site.first();
  CHECK(forgotten());
  site.first();
  CHECK(forgotten());
  CHECK_FALSE(site.exists(site.timeline()));
  site.push({"a"});
  site.command("ZADD", site.timeline(), -site.now().time_since_epoch().count() - 1, redis::kActivityMark);
  site.first();
  CHECK_FALSE(forgotten());
  site.command("ZADD", site.timeline(), -site.now().time_since_epoch().count() + 1, redis::kActivityMark);
  site.first();
  CHECK(forgotten());  // it joined since
  site.command("ZADD", site.timeline(), 3601 - site.now().time_since_epoch().count(), redis::kActivityMark,
               -1, redis::kHighestMark);
  site.first();
  CHECK(forgotten());
  site.first();
  CHECK_FALSE(forgotten());
}

TEST_CASE("single pushes exceed a timeline's cap by less than a tenth", "[waterfall]") {
  TimelineFixture site(each_mode());
  site.settings.timeline.max_items = 60;  // checked at every sixth push
  site.reopen();
  std::size_t most = 0;
  for (int i = 0; i < 200; ++i) {
    site.push({std::to_string(i)});
    const std::size_t held = site.ids_in(site.timeline()).size();
    most = std::max(most, held);
    CHECK(held >= static_cast<std::size_t>(std::min(i + 1, 60)));
  }
  CHECK(most == 65);
  CHECK(site.older(1).trimmed);
  site.push({"x", "y"});  // several items: checked
  CHECK(site.ids_in(site.timeline()).size() == 60);
}

TEST_CASE("a push uses the bulk connection, five hundred readers per round trip", "[waterfall]") {
  TimelineFixture site(each_mode());
  Ids readers;
  for (int i = 0; i < 1203; ++i) readers.push_back("r" + std::to_string(i));
  site.recording.round_trips.clear();
  const auto pushed = site.push({"a", "b"}, readers);
  CHECK((pushed.pushed == 2406 && pushed.duplicates == 0));
  CHECK(site.bulk.round_trips == std::vector<std::size_t>{10, 10, 5});  // commands, one per fifty readers
  CHECK(site.recording.round_trips.empty());
  for (const char* each : {"r0", "r49", "r50", "r499", "r500", "r1202"})
    CHECK(site.ids_in(site.timeline(each)) == Ids{"a", "b"});
}

TEST_CASE("a timeline of a wrong type is an error, and the other readers are served", "[waterfall]") {
  TimelineFixture site(each_mode());
  site.command("SET", site.timeline("bad"), "text");
  Ids readers{"good", "bad"};
  for (int i = 0; i < 600; ++i) readers.push_back("r" + std::to_string(i));
  CHECK(error_of(site.try_push({"a"}, readers)).code == ErrorCode::kInternal);
  for (const char* each : {"good", "r0", "r599"}) CHECK(site.ids_in(site.timeline(each)) == Ids{"a"});
  CHECK(error_of(site.try_page(Direction::kFirst, 0, 5, "discover", "bad")).code == ErrorCode::kInternal);
  CHECK_FALSE(run_sync(site.store().remove("discover", ReaderId::trusted("bad"), ItemId::trusted("a"))));
  site.command("SET", site.keys().item("a"), "text");
  CHECK(error_of(site.try_page(Direction::kFirst, 0, 5, "discover", "good")).code == ErrorCode::kInternal);
  CHECK_FALSE(run_sync(site.store().check_pushable({ItemId::trusted("a")})));
  site.push({"b"}, {"good"});
  site.publish("author", {"pulled"});
  site.follow("author", "somebody");
  site.publish("author", {"pulled"});
  site.command("SET", site.keys().followed_authors("good"), "text");
  CHECK_FALSE(site.try_page(Direction::kFirst, 0, 5, "follow", "good"));
}

TEST_CASE("a timeline's memory in Redis stays within the bounds in the header", "[waterfall]") {
  TimelineFixture site(KeyMode{});
  site.settings.timeline.max_items = 500;
  site.reopen();
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
      CHECK(site.ids_in(site.timeline(reader)).size() == static_cast<std::size_t>(items));
      const auto bytes = site.bytes(site.timeline(reader));
      std::cout << "timeline of " << items << " items, ids of " << width << " bytes: " << bytes << " bytes\n";
      CHECK(bytes > 0);
      CHECK(bytes < most);
    }
  }
}
