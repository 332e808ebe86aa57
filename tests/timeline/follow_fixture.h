// Test fixture for follows and published items.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/timeline/fixture.h"

namespace freshet::test {

struct FollowFixture : TimelineFixture {
  explicit FollowFixture(const KeyMode& mode) : TimelineFixture(mode) {
    settings.fanout.max_push_followers = 100;
    reopen();
  }
  // Also records the round trips of the follow store.
  void reopen() {
    TimelineFixture::reopen();
    follows.emplace(recording, settings, keys(), [this] { return "job" + std::to_string(++events); });
  }

  Result<void> try_follow(const std::string& author, const std::string& reader = "reader") {
    return run_sync(follows->follow(ReaderId::trusted(reader), AuthorId::trusted(author)));
  }
  Result<void> try_unfollow(const std::string& author, const std::string& reader = "reader") {
    return run_sync(follows->unfollow(ReaderId::trusted(reader), AuthorId::trusted(author)));
  }
  void unfollow(const std::string& author, const std::string& reader = "reader") {
    REQUIRE(try_unfollow(author, reader));
  }
  static std::vector<ItemId> items_of(const Ids& ids) {
    std::vector<ItemId> out;
    for (const auto& each : ids) out.push_back(ItemId::trusted(each));
    return out;
  }
  Result<std::string> try_publish(const std::string& author, const Ids& ids) {
    return run_sync(follows->publish(AuthorId::trusted(author), items_of(ids)));
  }
  // Returns the job's id.
  std::string publish(const std::string& author, const Ids& ids) {
    const auto job = try_publish(author, ids);
    REQUIRE(job);
    return *job;
  }
  // Publishes as an author with too many followers to push to.
  std::string publish_to_pull(const std::string& author, const Ids& ids) {
    const int before = std::exchange(settings.fanout.max_push_followers, 0);
    reopen();
    const std::string job = publish(author, ids);
    settings.fanout.max_push_followers = before;
    reopen();
    return job;
  }

  std::string follow_timeline(const std::string& reader = "reader") const {
    return timeline(reader, "follow");
  }
  Ids timeline_ids(const std::string& reader = "reader") { return ids_in(follow_timeline(reader)); }
  Ids read(const std::string& reader = "reader") {
    return ids_of(page(Direction::kFirst, 0, 100, "follow", reader));
  }
  Ids followed(const std::string& reader = "reader") {
    const auto authors = run_sync(follows->followed_authors(ReaderId::trusted(reader)));
    REQUIRE(authors);
    Ids out;
    for (const AuthorId& each : *authors) out.push_back(each.str());
    return out;
  }
  Ids readers(const std::string& author) { return ids_in(keys().followers(author)); }
  // Score up to which the reader has pulled the author's items; -1: does not follow.
  std::int64_t pulled_mark(const std::string& author, const std::string& reader = "reader") {
    return static_cast<std::int64_t>(score(keys().followed_authors(reader), author).value_or(-1));
  }
  std::int64_t newest_pullable(const std::string& author) {
    return static_cast<std::int64_t>(score(keys().pull_authors(), author).value_or(-1));
  }
  // "state done/total failed"
  std::string job_status(const std::string& job) {
    const auto fields = command("HMGET", keys().job(job), "state", "done", "total", "failed");
    std::string out(redis::string_at(fields, 0));
    return out.append(" ").append(redis::string_at(fields, 1)) + "/" +
           std::string(redis::string_at(fields, 2)) + " " + std::string(redis::string_at(fields, 3));
  }
  redis::Reply stream() { return command("XRANGE", keys().partition(0).stream(), "-", "+"); }
  // Values of each entry, oldest first: {"follow", "reader", "author", …}.
  std::vector<Ids> entry_values() {
    const auto entries = stream();
    std::vector<Ids> out(entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      for (std::size_t j = 1; j < entries[i][1].size(); j += 2)
        out[i].emplace_back(redis::string_at(entries[i][1], j));
    }
    return out;
  }
  // All keys and their values.
  std::map<std::string, std::string> dump_all() {
    std::map<std::string, std::string> out;
    for (const auto& key : all_keys()) out[key] = text(command("DUMP", key));
    return out;
  }
  void fill_stream() {
    settings.recorder.stream_max_len = command("XLEN", keys().partition(0).stream()).integer().value_or(0);
    reopen();
  }
};

}  // namespace freshet::test
