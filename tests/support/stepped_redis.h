// Coroutines over a real Redis, one round trip at a time, in an order drawn from a seed: between
// any two steps of one, another's may come.
#pragma once

#include <algorithm>
#include <coroutine>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "core/redis/cluster/slot.h"
#include "core/redis/blocking_redis.h"

namespace freshet::test {

// Coroutines that wait for their next step. The one who runs next is drawn.
class StepScheduler {
 public:
  explicit StepScheduler(std::mt19937& random) : random_(random) {}
  auto next_step() {
    struct Awaiter {
      StepScheduler& turns;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> caller) { turns.waiting_.push_back(caller); }
      void await_resume() const noexcept {}
    };
    return Awaiter{*this};
  }
  // False when nobody waits.
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

// The order in which a cluster may run a pipeline's commands: as a node each had a slot, and as if
// some that have several keys were refused at first, because their slot is being moved.
struct ClusterOrder {
  std::mt19937& random;
  bool keeps_barriers = true;  // Pipeline::then(); false: a mistake that a test is to notice

  // What leaves together, in its order, one trip after the other.
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

// A Redis whose round trips take a turn each. Right behind each, before anybody else's, `watch`
// runs, and `seen` gets its replies.
class SteppedRedis final : public redis::Redis {
 public:
  SteppedRedis(redis::BlockingRedis& inner, StepScheduler& turns, const redis::Pipeline& watch,
               std::function<void(const redis::Reply* first)> seen, const ClusterOrder* order = nullptr)
      : inner_(inner), scheduler_(turns), probe_(watch), on_probe_(std::move(seen)), order_(order) {}
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
      auto turn = scheduler_.next_step();
      co_await turn;
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
