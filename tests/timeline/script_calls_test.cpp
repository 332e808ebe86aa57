// Which ids share a script call: all of them on one Redis, those of a slot in a cluster.
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/hot/contributions.h"
#include "core/items/impression_counter.h"
#include "core/items/item_store.h"
#include "core/readers/read_buffer.h"
#include "core/redis/blocking_redis.h"
#include "core/redis/cluster/slot.h"
#include "core/timeline/timeline_store.h"

using namespace freshet;
using redis::Keys;

namespace {

constexpr int kIds = 40;

// Records what is posted.
struct RecordingDeferred final : redis::WriteQueue {
  bool post(redis::Pipeline pipeline, std::vector<redis::SpoolRecord>, OnReplies) override {
    commands.append(pipeline);
    return true;
  }
  Result<void> spool(const redis::SpoolRecord&) override { return {}; }
  redis::Pipeline commands;
};

// Records what is run, and fails.
struct RecordingRedis final : redis::Redis {
  Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
    commands.append(pipeline);
    co_return fail(ErrorCode::kUnavailable, "redis_unavailable");
  }
  bool ready() const override { return true; }
  redis::Pipeline commands;
};

// Arguments of a command in RESP.
std::vector<std::string> words_of(std::string_view resp) {
  std::vector<std::string> out;
  for (std::size_t at = resp.find('$'); at < resp.size();) {
    const std::size_t line = resp.find("\r\n", at);
    const std::size_t size = std::stoul(std::string(resp.substr(at + 1, line - at - 1)));
    out.emplace_back(resp.substr(line + 2, size));
    at = line + 2 + size + 2;
  }
  return out;
}

// Number of calls and of keys; -1 calls if one of them spans slots.
std::pair<int, int> calls_in(const redis::Pipeline& commands) {
  int keys = 0;
  bool one_slot = true;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const auto words = words_of(commands.at(i));
    const int count = std::stoi(words[2]);
    std::set<std::uint16_t> slots;
    for (int k = 0; k < count; ++k) slots.insert(redis::slot_of(words[static_cast<std::size_t>(3 + k)]));
    one_slot = one_slot && slots.size() == 1;
    keys += count;
  }
  return {one_slot ? static_cast<int>(commands.size()) : -1, keys};
}

std::string name(int i) { return "id-" + std::to_string(i); }

redis::Pipeline all_calls(Keys::Topology on) {
  const Keys keys("site:", on);
  const Settings settings;
  RecordingDeferred posted;
  items::ImpressionCounter impressions(posted, keys);
  readers::ReadBuffer reads(posted, settings, keys);
  hot::ContributionBuffer contributions(posted, settings, keys, [] { return "a batch's name"; });
  for (int i = 0; i < kIds; ++i) {
    const ItemId item = ItemId::trusted(name(i));
    impressions.add(std::span(&item, 1));
    reads.add_interest(ReaderId::trusted(name(i)), item, settings.feed.interest_min_dwell);
    hot::Contribution one;
    one.pv = 1;
    contributions.add(VisitorId::trusted(name(i)), {}, item, one);
  }
  impressions.flush();
  reads.flush();
  contributions.flush();
  RecordingRedis ran;
  items::RedisItemStore store(ran, settings, keys);
  items::CardCache cards(store, 0);
  timeline::RedisTimelineStore timelines(ran, ran, posted, cards, settings, keys);
  timeline::PushRequest push{"discover", {ItemId::trusted("item")}, {}};
  for (int i = 0; i < kIds; ++i) push.readers.push_back(ReaderId::trusted(name(i)));
  CHECK_FALSE(redis::run_sync(timelines.push(push)));
  return posted.commands.append(ran.commands);
}

}  // namespace

TEST_CASE("on one Redis an operation on many ids is one call", "[calls]") {
  const redis::Pipeline commands = all_calls(Keys::Topology::kStandalone);
  CHECK(commands.size() == 4);
}

TEST_CASE("in a cluster no call spans slots and no id is left out", "[calls]") {
  const auto [calls, keys] = calls_in(all_calls(Keys::Topology::kCluster));
  CHECK(calls > 4);
  CHECK(keys == 8 * kIds);  // five keys of each reader
}
