// Interleaves coroutines over a real Redis: each round trip is one step, and the next step is
// chosen by a seeded random generator.
#pragma once

#include <algorithm>
#include <coroutine>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "core/redis/blocking_redis.h"
#include "core/redis/cluster/slot.h"

namespace freshet::test {

// Coroutines that wait for their next step. The one to resume is chosen at random.
class StepScheduler {
 public:
  explicit StepScheduler(std::mt19937& random) : random_(random) {}
  auto next_step() {
    struct Awaiter {
      StepScheduler& scheduler;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> caller) { scheduler.waiting_.push_back(caller); }
      void await_resume() const noexcept {}
    };
    return Awaiter{*this};
  }
  // Returns false if none is waiting.
  bool run_step() {
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

// An order in which a cluster may run a pipeline's commands: as if each slot were on its own node,
// and some scripts were redirected at first because their slot is being moved.
struct ClusterOrder {
  std::mt19937& random;
  bool keeps_barriers = true;  // respects Pipeline::barrier(); false: a fault that the test must detect

  // Groups the commands into round trips. Returns their indices, in order.
  std::vector<std::vector<std::size_t>> split_round_trips(const redis::Pipeline& pipeline) const {
    std::vector<std::vector<std::size_t>> out;
    std::vector<std::size_t> ends{pipeline.size()};
    if (keeps_barriers) ends.insert(ends.begin(), pipeline.barriers().begin(), pipeline.barriers().end());
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      add_section(pipeline, begin, end, out);
      begin = end;
    }
    return out;
  }

 private:
  void add_section(const redis::Pipeline& pipeline, std::size_t begin, std::size_t end,
                   std::vector<std::vector<std::size_t>>& out) const {
    std::map<std::size_t, std::vector<std::size_t>> by_slot;
    for (std::size_t i = begin; i < end; ++i)
      by_slot[redis::slot_of_command(pipeline.at(i)).value_or(redis::kSlots)].push_back(i);
    std::vector<std::size_t> slots, accepted, retried;
    for (const auto& [slot, commands] : by_slot) slots.push_back(slot);
    std::shuffle(slots.begin(), slots.end(), random);
    for (const std::size_t slot : slots) {
      for (const std::size_t i : by_slot[slot]) {
        const bool refused = redis::name_of_command(pipeline.at(i)) == "EVALSHA" && random() % 4 == 0;
        (refused ? retried : accepted).push_back(i);
      }
    }
    if (!accepted.empty()) out.push_back(std::move(accepted));
    if (!retried.empty()) out.push_back(std::move(retried));
  }
};

// A Redis client whose round trips take one step each. Directly after each, before any other
// client's, it runs `probe` and passes its replies to `on_probe`.
class SteppedRedis final : public redis::Redis {
 public:
  SteppedRedis(redis::BlockingRedis& inner, StepScheduler& scheduler, const redis::Pipeline& probe,
               std::function<void(const redis::Reply* first)> on_probe, const ClusterOrder* order = nullptr)
      : inner_(inner), scheduler_(scheduler), probe_(probe), on_probe_(std::move(on_probe)), order_(order) {}
  Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
    std::vector<std::vector<std::size_t>> trips(1);
    if (order_ != nullptr) {
      trips = order_->split_round_trips(pipeline);
    } else {
      trips[0].resize(pipeline.size());
      std::iota(trips[0].begin(), trips[0].end(), std::size_t{0});
    }
    redis::Replies out(pipeline.size());
    for (const auto& trip : trips) {
      auto step = scheduler_.next_step();
      co_await step;
      redis::Pipeline both;
      for (const std::size_t i : trip) both.raw(pipeline.at(i));
      both.append(probe_);
      auto replies = inner_.call(both);
      if (!replies) co_return replies;
      for (std::size_t k = 0; k < trip.size(); ++k) out[trip[k]] = std::move((*replies)[k]);
      on_probe_(replies->data() + trip.size());
    }
    co_return out;
  }
  bool ready() const override { return true; }

 private:
  redis::BlockingRedis& inner_;
  StepScheduler& scheduler_;
  const redis::Pipeline& probe_;
  const std::function<void(const redis::Reply*)> on_probe_;
  const ClusterOrder* const order_;
};

}  // namespace freshet::test
