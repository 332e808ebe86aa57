#include "core/items/view_count_buffer.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/store_fixture.h"

using namespace freshet;
using test::Fixture;

namespace {

struct CountsFixture : Fixture {
  std::string stream = keys().partition(0).stream();
  void create_stream() { command("XGROUP", "CREATE", stream, "recorder", "$", "MKSTREAM"); }
  // The counts of all entries, with '/' instead of the separator.
  std::vector<std::string> entries() {
    std::vector<std::string> out;
    const auto reply = command("XRANGE", stream, "-", "+");
    for (std::size_t i = 0; i < reply.size(); ++i) {
      REQUIRE(redis::string_at(reply[i][1], 0) == "op");
      if (redis::string_at(reply[i][1], 1) != items::kOpCounts) continue;  // a put item
      REQUIRE(redis::string_at(reply[i][1], 2) == items::kCountsField);
      std::string views(redis::string_at(reply[i][1], 3));
      std::ranges::replace(views, kIdSeparator, '/');
      out.push_back(std::move(views));
    }
    return out;
  }
};

UnixSeconds at(std::int64_t time) { return UnixSeconds{seconds{time}}; }

}  // namespace

TEST_CASE_METHOD(CountsFixture, "views are summed up by bucket and item and appended as one entry",
                 "[items]") {
  create_stream();
  items::ViewCountBuffer buffer(write_queue, keys());
  buffer.flush();
  buffer.add(ItemId::trusted("b"), at(1'700'000'400));
  buffer.add(ItemId::trusted("a"), at(1'700'000'699), 3);
  buffer.add(ItemId::trusted("b"), at(1'700'000'699));
  buffer.add(ItemId::trusted("b"), at(1'700'000'700));
  buffer.add(ItemId::trusted("c"), at(1'700'000'700), 0);
  buffer.add(ItemId::trusted("c"), at(1'700'000'700), -1);
  CHECK(entries().empty());
  buffer.flush();
  buffer.flush();
  CHECK(entries() == std::vector<std::string>{"1700000400/a/3/1700000400/b/2/1700000700/b/1"});
}

TEST_CASE_METHOD(CountsFixture, "a full buffer is flushed", "[items]") {
  create_stream();
  items::ViewCountBuffer buffer(write_queue, keys());
  for (std::size_t i = 0; i < items::ViewCountBuffer::kMaxEntries; ++i) {
    CHECK(entries().empty());
    buffer.add(ItemId::trusted("i" + std::to_string(i)), at(1'700'000'400));
  }
  CHECK(entries().size() == 1);
}

TEST_CASE_METHOD(CountsFixture, "no counts are appended without a stream or behind a long backlog",
                 "[items]") {
  items::ViewCountBuffer buffer(write_queue, keys());
  buffer.add(ItemId::trusted("a"), at(1'700'000'400));
  buffer.flush();
  CHECK_FALSE(exists(stream));
  create_stream();
  redis::Pipeline fill;
  for (std::int64_t i = 1; i < items::ViewCountBuffer::kMaxBacklog; ++i)
    fill.add("XADD", stream, "*", "op", "put");
  REQUIRE(redis.call(fill));
  for (int i = 0; i < 2; ++i) {
    buffer.add(ItemId::trusted("a"), at(1'700'000'400));
    buffer.flush();
    CHECK(command("XLEN", stream).integer() == items::ViewCountBuffer::kMaxBacklog);
  }
}

TEST_CASE_METHOD(CountsFixture, "what the lists count is counted: no duplicates, no unlisted or hidden items",
                 "[items]") {
  create_stream();
  put(item("a", now() - seconds(60)));
  const UnixSeconds occurred{seconds{unix_s(now()) / 300 * 300 - 600}};  // late
  auto report = track_event("a", "v", 1000);
  report.occurred_at = occurred;
  track(report);
  track(report);  // the same session
  auto seen = view_event("a", "f");
  seen.occurred_at = occurred + seconds(1);
  view(seen);
  CHECK(view(seen).dedup);
  const std::string bucket = std::to_string(unix_s(occurred));
  CHECK(entries() == std::vector<std::string>{bucket + "/a/1", bucket + "/a/1"});

  auto hidden = item("hidden", now() - seconds(60));
  hidden.hidden = true;
  put(hidden);
  auto unknown = track_event("unknown", "v", 1000);
  unknown.admission = {.network = "n", .wide_network = "w"};
  track(unknown);
  auto concealed = view_event("hidden", "f");
  concealed.admission = {.network = "n", .wide_network = "w"};
  view(concealed);
  view(view_event("hidden", "g"));  // through the internal server, as the next one
  track(track_event("hidden", "w", 1000));
  CHECK(entries().size() == 2);
}

TEST_CASE_METHOD(CountsFixture, "pairs of items are counted and appended with the views, or alone",
                 "[items]") {
  create_stream();
  items::ViewCountBuffer buffer(write_queue, keys());
  const auto a = ItemId::trusted("a"), b = ItemId::trusted("b");
  const auto fields = [&] {
    const auto reply = command("XRANGE", stream, "-", "+");
    std::string out;
    for (std::size_t i = 0; i < reply[reply.size() - 1][1].size(); ++i)
      out.append(redis::string_at(reply[reply.size() - 1][1], i)).append(" ");
    std::ranges::replace(out, kIdSeparator, '/');
    return out;
  };
  const std::int64_t before = unix_s(wall_now());
  buffer.add_covisit(a, b);
  buffer.add_covisit(b, a);
  buffer.add_covisit(a, b);
  buffer.flush();
  const auto text = fields();
  CHECK(text.starts_with("op counts covisits "));
  CHECK(text.ends_with("/a/b/2/b/a/1 "));
  const std::string time = text.substr(19, text.find('/') - 19);
  CHECK(std::stoll(time) >= before);
  CHECK(std::stoll(time) <= unix_s(wall_now()));
  buffer.add_covisit(a, b);
  buffer.add(a, at(1'700'000'400));
  buffer.flush();
  CHECK(fields().starts_with("op counts views 1700000400/a/1 covisits "));
  CHECK(fields().ends_with("/a/b/1 "));
  buffer.flush();
  CHECK(command("XLEN", stream).integer() == 2);
  for (std::size_t i = 0; i < items::ViewCountBuffer::kMaxEntries; ++i)
    buffer.add_covisit(a, ItemId::trusted("i" + std::to_string(i)));
  CHECK(command("XLEN", stream).integer() == 3);  // full
}
