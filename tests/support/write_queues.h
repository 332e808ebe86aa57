// Test doubles of the background writer's queue.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/redis/blocking_redis.h"
#include "core/redis/fields.h"
#include "core/redis/write_queue.h"

namespace freshet::test {

// Runs posted commands at once, or holds them back. Keeps spooled events until replay() applies
// them.
class ImmediateWriteQueue final : public redis::WriteQueue {
 public:
  explicit ImmediateWriteQueue(redis::BlockingRedis& redis) : redis_(redis) {}
  bool post(redis::Pipeline pipeline, std::vector<redis::SpoolRecord>, OnReplies on_replies) override {
    held_.push_back(std::move(pipeline));
    on_replies_.push_back(std::move(on_replies));
    if (!hold) flush();
    return true;
  }
  Result<void> spool(const redis::SpoolRecord& event) override {
    spooled.push_back(event);
    return {};
  }
  void flush() {
    const auto on_replies = std::exchange(on_replies_, {});
    const auto held = take_held();
    for (std::size_t i = 0; i < held.size(); ++i) run(held[i], on_replies[i]);
  }
  void replay() {
    for (const auto& each : spooled) {
      const Result<void> applied = redis::run_sync(apply(redis::decode_fields(each.bytes())));
      if (!applied && applied.error().code == ErrorCode::kRateLimited) continue;  // dropped, as in a worker
      INFO((applied ? "" : applied.error().reason));
      REQUIRE(applied);
    }
  }
  // Returns the held commands without running them.
  std::vector<redis::Pipeline> take_held() {
    on_replies_.clear();
    return std::exchange(held_, {});
  }
  void run(const std::vector<redis::Pipeline>& some) {
    for (const auto& each : some) run(each, {});
  }
  bool hold = false;
  std::vector<redis::SpoolRecord> spooled;
  std::function<Task<Result<void>>(const std::vector<std::string_view>&)> apply;

 private:
  void run(const redis::Pipeline& pipeline, const OnReplies& on_replies) {
    const auto replies = redis_.call(pipeline);
    REQUIRE(replies);
    for (const auto& each : *replies) {
      INFO(each.error());
      REQUIRE_FALSE(each.is_error());
    }
    if (on_replies) on_replies(*replies);
  }
  redis::BlockingRedis& redis_;
  std::vector<redis::Pipeline> held_;
  std::vector<OnReplies> on_replies_;
};

// Accepts no commands and discards events.
class NullWriteQueue final : public redis::WriteQueue {
 public:
  bool post(redis::Pipeline, std::vector<redis::SpoolRecord>, OnReplies) override { return false; }
  Result<void> spool(const redis::SpoolRecord&) override { return {}; }
};

}  // namespace freshet::test
