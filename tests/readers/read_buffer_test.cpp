// The buffer of readers' reads on a real Redis: when it is written, and how little a failure loses.
#include "core/readers/read_buffer.h"

#include <catch2/catch.hpp>
#include <utility>

#include "tests/readers/fixture.h"

using namespace freshet;
using namespace freshet::test;
using readers::ReadBuffer;

namespace {

using Names = std::vector<std::string>;

struct Site : ReaderFixture {
  void read_long(const std::string& reader, const std::string& item) {
    reads.add_interest(ReaderId::trusted(reader), ItemId::trusted(item), milliseconds(20000));
  }
  std::int64_t interests(const std::string& reader) {
    return command("ZCARD", keys().interactions(reader)).integer().value();
  }
  // Runs what the buffer scheduled, after its delay.
  void wake() {
    REQUIRE(scheduled);
    now += delay;
    std::exchange(scheduled, {})();
  }

  std::chrono::steady_clock::time_point now{std::chrono::hours(1)};
  milliseconds delay{};
  std::function<void()> scheduled;
  ReadBuffer reads{write_queue, settings, keys(),
                   [this](milliseconds span, std::function<void()> f) {
                     delay = span;
                     scheduled = std::move(f);
                   },
                   [this] { return now; }};
};

// Refuses commands and keeps the events, as the background writer does while Redis is unavailable.
struct UnavailableQueue final : redis::WriteQueue {
  bool post(redis::Pipeline, std::vector<redis::SpoolRecord> events, OnReplies) override {
    for (auto& each : events) spooled.push_back(std::move(each));
    return true;
  }
  Result<void> spool(const redis::SpoolRecord&) override { return {}; }
  std::vector<redis::SpoolRecord> spooled;
};

}  // namespace

TEST_CASE("a reader's reads are written in the next iteration, later ones once a second", "[read_buffer]") {
  Site site;
  site.read_long("a", "1");
  site.reads.add_view(Site::make_view("1", "a"));
  CHECK(site.interests("a") == 0);
  CHECK(site.delay == milliseconds(0));
  site.wake();
  CHECK(site.interests("a") == 1);
  CHECK(site.history("a") == Names{"1"});

  site.read_long("a", "2");
  site.read_long("a", "3");
  site.read_long("a", "3");
  site.reads.add_view(Site::make_view("2", "a"));
  CHECK(site.reads.pending() == 3);
  site.read_long("b", "1");
  CHECK(site.delay == milliseconds(0));
  site.wake();
  CHECK(site.interests("b") == 1);
  const auto written_at = site.now;
  while (site.reads.pending() > 0) {
    CHECK(site.interests("a") == 1);
    CHECK(site.history("a") == Names{"1"});
    site.wake();
  }
  CHECK(site.now >= written_at + ReadBuffer::kPause);
  CHECK(site.now <= written_at + ReadBuffer::kPause + ReadBuffer::kSweepInterval);
  CHECK(site.interests("a") == 3);
  CHECK(site.history("a") == Names{"2", "1"});
}

TEST_CASE("the timer of the reads stops once no one has read for a second", "[read_buffer]") {
  Site site;
  site.read_long("a", "1");
  const auto begin = site.now;
  while (site.scheduled) site.wake();
  CHECK(site.now - begin >= ReadBuffer::kPause);
  CHECK(site.now - begin <= ReadBuffer::kPause + ReadBuffer::kSweepInterval);
  site.read_long("a", "2");
  CHECK(site.delay == milliseconds(0));
  site.wake();
  CHECK(site.interests("a") == 2);
}

TEST_CASE("reads are written in batches, and one reader's key of a wrong type does not affect others",
          "[read_buffer]") {
  Site site;
  site.command("SADD", site.keys().interactions("r1"), "foreign");
  site.command("SADD", site.keys().view_history(readers::ViewKind::kTopic, "r2"), "foreign");
  const std::size_t readers = 2 * ReadBuffer::kReadersPerCall + 1;
  for (std::size_t i = 0; i < readers; ++i) {
    site.read_long("r" + std::to_string(i), "i");
    site.reads.add_view(Site::make_view("i", "r" + std::to_string(i)));
  }
  site.write_queue.hold = true;
  site.reads.flush();
  CHECK(site.reads.pending() == 0);
  const auto posted = site.write_queue.take_held();
  CHECK(posted.size() == 3);
  bool refused = false;
  for (const redis::Pipeline& each : posted) {
    CHECK(each.size() == 1);
    const auto replies = site.redis.call(each);
    REQUIRE(replies);
    refused = refused || replies->front().is_error();
  }
  CHECK(refused);  // so that the background writer reports or spools it
  for (std::size_t i = 3; i < readers; ++i) {
    CHECK(site.interests("r" + std::to_string(i)) == 1);
    CHECK(site.history("r" + std::to_string(i)) == Names{"i"});
  }
  CHECK(site.interests("r2") == 1);
}

TEST_CASE("a reader who reads without end does not fill the buffer", "[read_buffer]") {
  Site site;
  for (std::size_t i = 0; i < ReadBuffer::kMaxReads; ++i) site.read_long("r", "i" + std::to_string(i));
  CHECK(site.reads.pending() == 0);
  CHECK(site.interests("r") == site.settings.interactions.max_kept);
}

TEST_CASE("a short read is no interest, but its view is in the history", "[read_buffer]") {
  Site site;
  site.reads.add_interest(kReader, ItemId::trusted("a"),
                          site.settings.feed.interest_min_dwell - milliseconds(1));
  site.reads.add_view(Site::make_view("a"));
  site.reads.flush();
  CHECK(site.interests("reader") == 0);
  CHECK(site.history() == Names{"a"});
}

TEST_CASE("a view that waits does not undo a removal that came after it", "[read_buffer]") {
  Site site;
  site.reads.add_view(Site::make_view("a"));
  REQUIRE(run_sync(
      site.store().remove_view(kReader, readers::ViewKind::kTopic, ItemId::trusted("a"), std::nullopt)));
  site.reads.flush();
  CHECK(site.history().empty());
}

TEST_CASE("a buffered view makes the feed check its buffer again", "[read_buffer]") {
  Site site;
  const auto state = site.keys().feed_state("reader");
  site.command("HSET", state, "head", "1 1 1 0 0 0 ");
  site.reads.add_view(Site::make_view("a"));
  site.reads.flush();
  CHECK(site.command("HGET", state, "noted").text() == "1");
}

TEST_CASE("each view that cannot be sent is spooled, and counts once if it was sent as well",
          "[read_buffer]") {
  Site site;
  UnavailableQueue unavailable;
  ReadBuffer reads{unavailable, site.settings, site.keys()};
  site.view("a");
  for (const char* item : {"b", "c"}) {
    reads.add_view(Site::make_view(item));
    site.reads.add_view(Site::make_view(item));
  }
  reads.add_interest(kReader, ItemId::trusted("b"), milliseconds(20000));
  reads.flush();
  REQUIRE(unavailable.spooled.size() == 2);
  site.reads.flush();
  CHECK(site.history() == Names{"c", "b", "a"});
  site.view("d");
  site.write_queue.spooled = unavailable.spooled;
  site.write_queue.replay();
  CHECK(site.history() == Names{"d", "c", "b", "a"});
}

TEST_CASE("a view within half an hour of the reader's last one is a pair, once a day", "[read_buffer]") {
  Site site;
  Names pairs;
  site.reads.on_covisit(
      [&](const ItemId& before, const ItemId& item) { pairs.push_back(before.str() + " " + item.str()); });
  const auto view = [&](const std::string& item, const std::string& reader) {
    site.reads.add_view(Site::make_view(item, reader));
    site.reads.flush();
  };
  view("1", "a");
  CHECK(pairs.empty());
  view("1", "a");
  CHECK(pairs.empty());
  view("2", "a");
  view("3", "b");  // another reader's first
  CHECK(pairs == Names{"1 2"});
  view("1", "a");  // read before today
  view("2", "a");
  CHECK(pairs == Names{"1 2"});

  // Several readers and views in one call.
  site.reads.add_view(Site::make_view("3", "a"));
  site.reads.add_view(Site::make_view("4", "a"));
  site.reads.add_view(Site::make_view("4", "b"));
  site.reads.flush();
  std::ranges::sort(pairs);
  CHECK(pairs == Names{"1 2", "2 3", "3 4", "3 4"});

  pairs.clear();
  const auto viewed_ago = [&](const std::string& item, std::int64_t ago) {
    site.command("HSET", site.keys().view_times("a"), "t:" + item, unix_s(site.ReaderFixture::now()) - ago);
  };
  viewed_ago("4", 1700);
  view("5", "a");
  viewed_ago("5", 1900);
  view("6", "a");
  CHECK(pairs == Names{"4 5"});
  viewed_ago("1", 86500);  // read before yesterday
  view("1", "a");
  CHECK(pairs == Names{"4 5", "6 1"});
}
