// Coroutines over a real Redis, one round trip at a time, in an order drawn from a seed: between
// any two steps of one, another's may come.
#pragma once

#include <coroutine>
#include <functional>
#include <random>
#include <vector>

#include "core/redis/sync_redis.h"

namespace freshet::test {

// Coroutines that wait for their next step. The one who runs next is drawn.
class Turns {
 public:
  explicit Turns(std::mt19937& random) : random_(random) {}
  auto pass() {
    struct Awaiter {
      Turns& turns;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> caller) { turns.waiting_.push_back(caller); }
      void await_resume() const noexcept {}
    };
    return Awaiter{*this};
  }
  // False when nobody waits.
  bool step() {
    if (waiting_.empty()) return false;
    const std::size_t at = random_() % waiting_.size();
    const auto next = waiting_[at];
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(at));
    next.resume();
    return true;
  }

 private:
  std::mt19937& random_;
  std::vector<std::coroutine_handle<>> waiting_;
};

// A Redis whose round trips take a turn each. Right behind each, before anybody else's, `watch`
// runs, and `seen` gets its replies.
class SteppedRedis final : public redis::Redis {
 public:
  SteppedRedis(redis::SyncRedis& inner, Turns& turns, const redis::Pipeline& watch,
               std::function<void(const redis::Reply* first)> seen)
      : inner_(inner), turns_(turns), watch_(watch), seen_(std::move(seen)) {}
  Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
    auto turn = turns_.pass();
    co_await turn;
    redis::Pipeline both;
    for (const auto* each : {&pipeline, &watch_}) {
      for (std::size_t i = 0; i < each->size(); ++i) both.raw(each->at(i));
    }
    auto replies = inner_.call(both);
    if (replies) {
      seen_(replies->data() + pipeline.size());
      replies->resize(pipeline.size());
    }
    co_return replies;
  }
  bool ready() const override { return true; }

 private:
  redis::SyncRedis& inner_;
  Turns& turns_;
  const redis::Pipeline& watch_;
  const std::function<void(const redis::Reply*)> seen_;
};

}  // namespace freshet::test
