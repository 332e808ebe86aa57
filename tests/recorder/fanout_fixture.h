// Fixture of the fan-out tests.
#pragma once

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/timeline/follow_store.h"
#include "tests/recorder/fixture.h"

namespace freshet::test {

using Names = std::vector<std::string>;

struct FanoutFixture : Fixture {
  std::unique_ptr<timeline::RedisFollowStore> follows;
  int jobs = 0;

  explicit FanoutFixture(RedisServer& on = shared_server()) : Fixture(on) { reopen(); }
  // Call this again after changing `settings`.
  void reopen() {
    open();
    follows = std::make_unique<timeline::RedisFollowStore>(redis, settings, keys(),
                                                           [this] { return "job" + std::to_string(++jobs); });
  }

  void follow(const std::string& reader, const std::string& author = "ann") {
    const auto ok = run_sync(follows->follow(ReaderId::trusted(reader), AuthorId::trusted(author)));
    INFO((ok ? "" : ok.error().detail));
    REQUIRE(ok);
  }
  void unfollow(const std::string& reader, const std::string& author = "ann") {
    REQUIRE(run_sync(follows->unfollow(ReaderId::trusted(reader), AuthorId::trusted(author))));
  }
  // Adds the followers r0 … without stream entries.
  void add_followers(int count, const std::string& author = "ann") {
    for (int from = 0; from < count; from += 500) {
      Names some;
      redis::Pipeline command;
      for (int i = from; i < std::min(count, from + 500); ++i) some.push_back("r" + std::to_string(i));
      timeline::append_push(command, keys().followers(author), std::nullopt, {some.begin(), some.end()});
      for (const auto& each : some) command.add("ZADD", keys().followed_authors(each), 0, author);
      REQUIRE(redis.call(command));
    }
  }
  // Returns the job's id.
  std::string publish(const Names& what, const std::string& author = "ann") {
    std::vector<ItemId> ids;
    for (const auto& each : what) ids.push_back(ItemId::trusted(each));
    const auto job = run_sync(follows->publish(AuthorId::trusted(author), ids));
    REQUIRE(job);
    return *job;
  }
  std::string timeline_key(const std::string& reader) const { return keys().timeline("follow", reader); }
  // Returns the items, oldest first.
  Names timeline(const std::string& reader) {
    const auto reply = command("ZRANGEBYSCORE", timeline_key(reader), "(0", "+inf");
    Names out;
    for (std::size_t i = 0; i < reply.size(); ++i) out.emplace_back(redis::string_at(reply, i));
    return out;
  }
  std::string field(const std::string& job, const std::string& name) {
    return std::string(command("HGET", keys().job(job), name).string().value_or(""));
  }
  // "state done/total failed"
  std::string job_summary(const std::string& job) {
    return field(job, "state") + " " + field(job, "done") + "/" + field(job, "total") + " " +
           field(job, "failed");
  }
  bool finishes(const std::string& job) {
    return eventually([&] { return field(job, "state") == "done" || field(job, "state") == "failed"; });
  }
  // Numbers of those of r0 … who have the item in their timeline.
  std::set<int> readers_with(const std::string& item, int count) {
    std::set<int> out;
    redis::Pipeline asking;
    for (int i = 0; i < count; ++i) asking.add("ZSCORE", timeline_key("r" + std::to_string(i)), item);
    const auto replies = redis.call(asking);
    REQUIRE(replies);
    for (int i = 0; i < count; ++i) {
      if ((*replies)[static_cast<std::size_t>(i)].number()) out.insert(i);
    }
    return out;
  }
  void remove_from_timelines(const std::string& item, const std::set<int>& of) {
    redis::Pipeline removing;
    for (const int i : of) removing.add("ZREM", timeline_key("r" + std::to_string(i)), item);
    if (!removing.empty()) REQUIRE(redis.call(removing));
  }
  double score(const std::string& reader, const std::string& item) {
    return command("ZSCORE", timeline_key(reader), item).number().value_or(-1);
  }
};

}  // namespace freshet::test
