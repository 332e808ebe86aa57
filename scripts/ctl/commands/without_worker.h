// What stores and use-cases of a worker are given in a tool, which has no reply to send first and no index.
#pragma once

#include "core/feed/ports.h"
#include "core/redis/deferred.h"
#include "core/redis/sync_redis.h"

namespace freshet::ctl {

class NoDeferred final : public redis::Deferred {
 public:
  bool post(redis::Pipeline) override { return false; }
  Result<void> spool(redis::Pipeline) override { return fail(ErrorCode::kUnavailable, "spool_full"); }
};

// Does at once what would be done behind a reply, and remembers its first failure.
class AtOnce final : public redis::Deferred {
 public:
  explicit AtOnce(redis::SyncRedis& redis) : redis_(redis) {}
  bool post(redis::Pipeline pipeline) override {
    const auto replies = redis_.call(pipeline);
    if (!replies) return failed(replies.error());
    for (const redis::Reply& each : *replies) {
      if (each.is_error()) return failed(redis::classify(each.error()));
    }
    return true;
  }
  Result<void> spool(redis::Pipeline) override { return fail(ErrorCode::kUnavailable, "spool_full"); }
  const Result<void>& outcome() const { return outcome_; }

 private:
  bool failed(const Error& error) {
    if (outcome_) outcome_ = tl::unexpected(error);
    return false;
  }
  redis::SyncRedis& redis_;
  Result<void> outcome_;
};

class NoRecall final : public feed::Recall {
 public:
  Task<Result<feed::Recalled>> search(feed::RecallQuery) override {
    co_return fail(ErrorCode::kUnavailable, "index_away");
  }
};

}  // namespace freshet::ctl
